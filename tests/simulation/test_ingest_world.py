"""Every promise of ingest streams, in simulated worlds; and every planted bug, found."""

from collections import Counter

import pytest

from simulation.ingest_world import run
from tests.support.planted_ingest_bugs import PLANTED, PlantedIngest

DEFAULT_SEEDS = range(20)
SLOW_SEEDS = range(1000)
PLANTED_SEEDS = range(60)

IN_MOST_WORLDS = {
    "connection broke",
    "connection broke, the server notices later",
    "no room",
    "refused",
    "repeats",
    "server died",
    "write failed",
}


def check(seeds: range) -> None:
    worlds: Counter[str] = Counter()
    for seed in seeds:
        report = run(seed)
        assert report.violation is None, f"seed {seed}: {report.violation}"
        assert report.checks > 50
        worlds.update(kind for kind, times in report.happened.items() if times)
    assert {kind: worlds[kind] for kind in IN_MOST_WORLDS if worlds[kind] < 0.7 * len(seeds)} == {}
    assert worlds["kept without a word"] >= 0.1 * len(seeds)


def test_every_promise_is_kept() -> None:
    check(DEFAULT_SEEDS)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_promise_is_kept_in_many_worlds() -> None:
    check(SLOW_SEEDS)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_planted_bugs_are_found(planted: PlantedIngest) -> None:
    assert any(run(seed, planted.setting).violation for seed in PLANTED_SEEDS), f"no seed shows {planted.name}"
