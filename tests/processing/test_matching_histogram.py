from itertools import pairwise

import numpy as np
import pytest

from slackwater.kernels.step_buckets import best_cost_plainly, bucket_costs, bucket_starts
from slackwater.processing.matching.histogram import Ranges, StepFunction, equal_width, held_by, optimal, ssi_histogram


@pytest.mark.parametrize("seed", range(8))
def test_the_dynamic_programme_is_optimal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, weights = rng.integers(1, 20, 8).astype(float), rng.uniform(0.1, 2, 8)
    cost, choice = np.empty((6, 9)), np.zeros((6, 9), np.int64)
    bucket_costs(values, weights, cost, choice)
    for buckets in range(1, 6):
        assert cost[buckets, -1] == pytest.approx(
            best_cost_plainly(values.tolist(), weights.tolist(), buckets), abs=1e-9
        )
        cuts, error = [*bucket_starts(choice, buckets), 8], 0.0
        assert cuts == sorted(set(cuts))
        for a, b in pairwise(cuts):
            mean = np.average(values[a:b], weights=weights[a:b])
            error += float((weights[a:b] * (values[a:b] - mean) ** 2).sum())
        assert error == pytest.approx(cost[buckets, -1], abs=1e-9)


def clustered(rng: np.random.Generator, count: int) -> Ranges:
    middle, length = rng.normal(5000, 1500, count), rng.normal(1000, 45, count)
    return Ranges(middle - length / 2, middle + length / 2, 0.0, 10000.0)


def error(histogram: StepFunction, ranges: Ranges, rng: np.random.Generator) -> float:
    at = rng.uniform(ranges.least, ranges.most, 4000)
    truth = held_by(ranges, at)
    return float(np.mean((np.abs(histogram(at) - truth) / np.maximum(truth, 1)) ** 2))


def test_enough_buckets_are_exact() -> None:
    ranges = Ranges(np.array([1.0, 2.0, 6.0]), np.array([4.0, 5.0, 8.0]), 0.0, 10.0)
    at = np.array([0.5, 1.5, 3.0, 4.5, 5.5, 7.0, 9.0])
    assert held_by(ranges, at).tolist() == [0, 1, 2, 1, 0, 1, 0]
    for histogram in (optimal(ranges, 20), ssi_histogram(ranges, 20)):
        assert histogram(at).tolist() == [0, 1, 2, 1, 0, 1, 0]
    assert equal_width(ranges, 10)(at).tolist() == [0, 1, 2, 1, 0, 1, 0]


@pytest.mark.parametrize("seed", range(2))
def test_ssi_is_between_equal_width_and_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranges = clustered(rng, 20_000)
    ours, usual, best = ssi_histogram(ranges, 20), equal_width(ranges, 20), optimal(ranges, 20)
    assert len(ours) <= 20
    assert error(best, ranges, rng) <= 1.02 * error(ours, ranges, rng)
    assert error(ours, ranges, rng) <= 1.2 * error(best, ranges, rng)
    assert error(ours, ranges, rng) < error(usual, ranges, rng)
