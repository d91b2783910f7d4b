"""Fitting finds what made the data, and statistics give the dynamics that a trace has."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.plans.consistent_cost import ConsistentCost
from experiments.plans.cost_fit import (
    MeasuredSums,
    fit_factor,
    fit_scale_free,
    predicted,
    rank_correlation,
    relative_error,
)
from experiments.plans.pushes import count_pushes, count_pushes_plainly, pushed, pushed_plainly
from experiments.plans.traces import observed
from slackwater.core.errors import PlanningError
from slackwater.planning.aggregation import ScaleFreeCost
from slackwater.planning.aggregation.dynamics import learnt
from slackwater.statistics import Statistics, Ticks


def counted(generator: np.random.Generator, count: int = 200) -> MeasuredSums:
    raw, norm, within = (generator.lognormal(0, 1, count) for _ in range(3))
    return MeasuredSums(raw, norm, within, np.zeros(count))


def test_the_scale_free_model_is_found_again() -> None:
    generator = np.random.default_rng(1)
    sums = counted(generator)
    truth = ScaleFreeCost(factor=0.7, exponent=1.6)
    noisy = replace(sums, messages=predicted(truth, sums) * generator.lognormal(0, 0.1, 200))
    found = fit_scale_free(noisy)
    assert found.exponent == pytest.approx(1.6, abs=0.03)
    assert found.factor == pytest.approx(0.7, rel=0.05)
    assert relative_error(predicted(found, sums), noisy.messages) < 0.12
    assert rank_correlation(predicted(found, sums), noisy.messages) > 0.98


def test_the_factor_of_a_model_is_found_again() -> None:
    sums = counted(np.random.default_rng(2))
    exact = replace(sums, messages=predicted(ConsistentCost(factor=5.0), sums))
    assert fit_factor(ConsistentCost(), exact) == pytest.approx(5.0)
    with pytest.raises(PlanningError, match="nothing was sent"):
        fit_factor(ConsistentCost(), sums)
    with pytest.raises(PlanningError, match="three sums"):
        fit_scale_free(sums)


def test_a_random_walk_has_the_exponent_two() -> None:
    """Seen through bounds that are large against a step."""
    generator = np.random.default_rng(3)
    walks = np.cumsum(generator.normal(size=(60_000, 6)) * np.arange(1, 7), axis=0)
    raw = np.repeat(observed("abcdef", walks, hours=1.0).sumdiff, 3)
    within = np.tile([10.0, 20.0, 40.0], 6) * np.repeat(np.arange(1, 7), 3) ** 0.5
    sent = [count_pushes(np.ascontiguousarray(walks[:, k // 3]), within[k]) for k in range(18)]
    found = fit_scale_free(MeasuredSums(raw, raw, within, np.array(sent, float)))
    assert 1.8 < found.exponent < 2.1


def test_equal_values_share_their_ranks() -> None:
    assert rank_correlation(np.array([1.0, 1.0, 2.0, 3.0]), np.array([1.0, 1.0, 2.0, 3.0])) == pytest.approx(1.0)
    assert rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == pytest.approx(-1.0)
    assert rank_correlation(np.array([1.0, 1.0, 2.0]), np.array([5.0, 7.0, 6.0])) == pytest.approx(0.0)


def test_pushes_equal_their_plain_twin() -> None:
    generator = np.random.default_rng(4)
    for within in (0.0, 0.5, 3.0, 1e9):
        walk = np.cumsum(generator.normal(size=500))
        assert count_pushes(walk, within) == count_pushes_plainly(walk.tolist(), within)
        assert pushed(walk, within).tolist() == pushed_plainly(walk.tolist(), within)
        assert np.count_nonzero(np.diff(pushed(walk, within))) == count_pushes(walk, within)


def test_statistics_and_a_trace_give_the_same_dynamics() -> None:
    generator = np.random.default_rng(5)
    values = np.cumsum(generator.normal(size=(200, 3)), axis=0)
    times = np.repeat(np.arange(200) * 1_000_000, 3)
    statistics = Statistics("t", "v", period=1_000_000)
    statistics.update(Ticks.of(["a", "b", "c"] * 200, times, values.reshape(-1)))
    from_statistics = learnt(statistics.value())
    from_trace = observed(["a", "b", "c"], values, hours=199 / 3600)
    assert from_statistics.items == from_trace.items
    np.testing.assert_allclose(from_statistics.sumdiff, from_trace.sumdiff)
    np.testing.assert_allclose(from_statistics.similarity, from_trace.similarity, atol=1e-12)
    with pytest.raises(PlanningError, match="period"):
        learnt(Statistics("t", "v").value())
