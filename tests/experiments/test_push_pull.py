"""The experiments of push and pull, small; and what the committed tables say."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from experiments.push_pull.drift_workloads import two_worlds
from experiments.push_pull.methods import METHODS, costs
from experiments.push_pull.published.periodic import Periodic
from experiments.push_pull.sliding_window import Windowed, best_cover
from experiments.push_pull.tables import settled
from experiments.push_pull.workloads import cars, clustered, sky

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "push-pull"
DATA = ROOT.parent / "shared" / "data"


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_no_method_is_below_the_exact_one(axes: int) -> None:
    for seed in range(3):
        found = costs(clustered(np.random.default_rng(seed), 300, 400, axes, (3_000, 2_000)))
        assert set(found) == set(METHODS)
        assert min(found.values()) == found["exact"]


@pytest.mark.shared_data
@pytest.mark.skipif(not DATA.exists(), reason="the folder of traces is not beside the checkout")
def test_no_method_is_below_the_exact_one_on_real_workloads() -> None:
    rng = np.random.default_rng(1)
    for workload in (sky(rng, DATA, 2_000, 3_000), cars(rng, DATA, 1_000, 2_000), cars(rng, DATA, 500, 1_000, axes=3)):
        found = costs(workload)
        assert min(found.values()) == found["exact"]


def test_labels_settle_near_a_clairvoyants() -> None:
    """As the experiment, at a quarter of its length and with one seed."""
    events = two_worlds(np.random.default_rng(7), 20_000, recurring=False)
    follower = Windowed(Periodic(1_000), window=10_000, first=2_000)
    paid = [follower.observe(events.part(start, start + 500)) for start in range(0, len(events), 500)]
    judged = events.part(30_000, 40_000)
    assert sum(step.events + step.fill for step in paid[60:]) <= 1.2 * best_cover(judged).paid(judged).sum()


def test_the_committed_tables_keep_what_the_page_says() -> None:
    with (RESULTS / "drift.csv").open() as file:
        drift = settled(list(csv.DictReader(file)))
    assert drift == json.loads((RESULTS / "settled.json").read_text())
    for kind in ("recurring", "fresh"):
        assert drift[kind]["window, every 1 000"] <= 1.2
    with (RESULTS / "gaps.csv").open() as file:
        assert all(float(row["mean"]) >= 1 for row in csv.DictReader(file))
    page = (ROOT / "docs" / "push-pull.md").read_text()
    for kind, method in (("recurring", "window, every 1 000"), ("fresh", "window, every 1 000"), ("fresh", "DENSITY")):
        assert f"{drift[kind][method]:.2f}" in page
    measured = json.loads((ROOT / "benchmarks" / "results" / "push_pull.json").read_text())
    large = measured["one_attribute"][1]
    for figure in (large["seconds"], large["times_numpy_sort"], measured["growth_of_time_from_100_000_to_1_000_000"]):
        assert f"{figure:g}" in page
