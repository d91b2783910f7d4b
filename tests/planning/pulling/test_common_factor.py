"""What items have in common: loadings found, bridges as alike as drawn ones, sums of related items kept."""

import numpy as np
import pytest

from experiments.pulling.simulation import drive
from slackwater.core.bound import Bound
from slackwater.planning.pulling import PullQuery, Uncertainty, run_uncertainty
from slackwater.planning.pulling.common_factor import CommonFactor, Known, likeness
from slackwater.planning.pulling.heavy_tails import HeavyTails
from slackwater.planning.pulling.risk import risk
from slackwater.planning.pulling.simulation import Floats


def walks(related: float, seed: int, ticks: int = 1500, items: int = 6) -> Floats:
    random = np.random.default_rng(seed)
    steps = np.sqrt(related) * random.normal(size=(ticks, 1)) + np.sqrt(1 - related) * random.normal(
        size=(ticks, items)
    )
    return np.ascontiguousarray(np.cumsum(steps, axis=0))


@pytest.mark.parametrize("related", [0.0, 0.5])
def test_loadings_are_found_by_pulls(related: float) -> None:
    scheduler = Uncertainty(6)
    queries = [PullQuery.total(range(6), [1.0] * 6, Bound(8.0, 0.95))]
    scheduler.register("all", queries[0])
    drive(scheduler, queries, walks(related, 3))
    products = np.outer(scheduler.common_factor.loading, scheduler.common_factor.loading)[np.triu_indices(6, 1)]
    assert abs(float(products.mean()) - related) < 0.15


@pytest.mark.parametrize("seed", range(4))
def test_a_sum_of_related_items_is_kept(seed: int) -> None:
    trace = walks(0.6, seed, ticks=3000)
    found = run_uncertainty([PullQuery.total(range(6), [1.0] * 6, Bound(20.0, 0.95))], trace, 400)
    assert found.fidelity[0] >= 0.94


def test_bridges_are_as_alike_as_drawn_ones() -> None:
    random = np.random.default_rng(5)
    ends = {"one": (3, 4), "other": (5, 1)}  # ticks before and after the tick looked at
    steps = random.normal(size=(200_000, 12))
    path = np.cumsum(steps, axis=1)
    at = 6

    def off(before: int, after: int) -> Floats:
        first, last = path[:, at - before - 1], path[:, at + after - 1]
        return np.asarray(path[:, at - 1] - first - (last - first) * before / (before + after))

    drawn = float(np.corrcoef(off(*ends["one"]), off(*ends["other"]))[0, 1])
    assert likeness(*ends["one"], *ends["other"]) == pytest.approx(drawn, abs=0.01)


def test_the_variance_of_a_sum_counts_each_pair_once() -> None:
    known = Known(3)
    for item, (variance, age) in enumerate([(4.0, 4), (9.0, 9), (1.0, 1)]):
        known.put(item, 0.5, variance, age, 0.5)
    mean, variance = known.total((0, 1, 2), (1.0, -1.0, 2.0))
    pairs = 0.25 * (-1 * 2 * 3 * (2 / 3) + 2 * 2 * 1 * (1 / 2) - 2 * 3 * 1 * (1 / 3))
    assert mean == pytest.approx(1.0)
    assert variance == pytest.approx(4 + 9 + 4 + 2 * pairs)
    without = variance - known.part(1, (0, 1, 2), (1.0, -1.0, 2.0), -1.0)
    known.refresh(1)
    assert known.total((0, 1, 2), (1.0, -1.0, 2.0))[1] == pytest.approx(without)


def test_surprises_that_do_not_overlap_teach_nothing() -> None:
    common_factor = CommonFactor(2)
    before = list(common_factor.loading)
    common_factor.learn(0, 0, 10, 3.0)
    common_factor.learn(1, 10, 20, 3.0)
    assert common_factor.loading == before
    common_factor.learn(0, 10, 20, 3.0)
    assert min(common_factor.loading) > before[0]


def test_the_share_of_wild_surprises_is_found() -> None:
    random = np.random.default_rng(9)
    wild = random.random(6000) < 0.1
    surprises = random.normal(size=6000) * np.where(wild, 3.0, 1.0) / np.sqrt(1 + 8 * 0.1)
    heavy_tails = HeavyTails()
    for surprise in surprises:
        heavy_tails.learn(float(surprise))
    assert 0.05 < heavy_tails.wild < 0.18
    beyond = float(np.mean(np.abs(surprises) > 3.0))
    assert risk(0.0, 1.0, 3.0, heavy_tails.wild) == pytest.approx(beyond, rel=0.4)
    assert risk(0.0, 1.0, 3.0) < 0.5 * beyond
