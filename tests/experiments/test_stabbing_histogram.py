from itertools import combinations, pairwise

import numpy as np
import pytest

from experiments.joins.stabbing_histogram import LineFunction, held_by, optimal, ssi_histogram, ssi_lines
from experiments.joins.step_buckets import best_cost_plainly, bucket_costs, bucket_starts, chord_costs, chord_errors
from experiments.joins.workloads import chapter_ranges
from slackwater.processing.matching.histogram import ProbedRanges, StepFunction, equal_width


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


def clustered(rng: np.random.Generator, count: int) -> ProbedRanges:
    middle, length = rng.normal(5000, 1500, count), rng.normal(1000, 45, count)
    return ProbedRanges(middle - length / 2, middle + length / 2, 0.0, 10000.0)


def error(histogram: StepFunction | LineFunction, ranges: ProbedRanges, rng: np.random.Generator) -> float:
    at = rng.uniform(ranges.least, ranges.most, 4000)
    truth = held_by(ranges, at)
    return float(np.mean((np.abs(histogram(at) - truth) / np.maximum(truth, 1)) ** 2))


def test_enough_buckets_are_exact() -> None:
    ranges = ProbedRanges(np.array([1.0, 2.0, 6.0]), np.array([4.0, 5.0, 8.0]), 0.0, 10.0)
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


@pytest.mark.parametrize("seed", range(6))
def test_chords_are_the_best_there_are(seed: int) -> None:
    """Errors by summing over a fine grid, and the choice among all choices."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.uniform(0, 1, 7))
    values = rng.integers(0, 50, 7).astype(float)
    grid = at[:-1, None] + np.diff(at)[:, None] * (np.arange(400) + 0.5) / 400
    f, q = rng.uniform(0, 50, (6, 1)) + 20 * np.sin(9 * grid), 10.0 ** rng.integers(-9, 1, (6, 1)) + 0 * grid
    far, step = grid - at[:-1, None], np.diff(at)[:, None] / 400
    parts = np.stack([(term * step).sum(axis=1) for term in (q, q * f, q * f**2, q * far, q * f * far, q * far**2)])
    errors = np.zeros((7, 7))
    chord_errors(at, values, parts, 0.0, errors)

    def error(start: int, end: int) -> float:
        own = slice(start, end)
        chord = np.interp(grid[own], at[[start, end]], values[[start, end]])
        return float((q[own] * step[own] * (f[own] - chord) ** 2).sum())

    for start, end in combinations(range(7), 2):
        assert errors[start, end] == pytest.approx(error(start, end), rel=1e-9)
    cost, choice = np.empty((5, 7)), np.zeros((5, 7), np.int64)
    chord_costs(errors, cost, choice)
    for chords in range(1, 5):
        best = min(
            sum(errors[a, b] for a, b in pairwise((0, *inner, 6))) for inner in combinations(range(1, 6), chords - 1)
        )
        assert cost[chords, -1] == pytest.approx(best)
        chosen = [*bucket_starts(choice, chords), 6]
        assert sum(errors[a, b] for a, b in pairwise(chosen)) == pytest.approx(best)


@pytest.mark.parametrize("spread", [(1500, 2000), (1500, 45), (39, 2000), (39, 45)])
def test_lines_err_less_than_the_best_steps(spread: tuple[float, float]) -> None:
    """On all readings of the chapter's workload, also where most of the line is held by nobody."""
    rng = np.random.default_rng(3)
    ranges, _ = chapter_ranges(rng, 20_000, *spread)
    lines, steps = ssi_lines(ranges, 20), optimal(ranges, 20)
    assert len(lines) <= 20
    assert (np.diff(lines.places) > 0).all()
    assert error(lines, ranges, rng) < 0.3 * error(steps, ranges, rng)
    at = rng.uniform(ranges.least, ranges.most, 4000)
    truth = held_by(ranges, at)
    there = truth > 0
    assert np.mean(np.abs(lines(at) - truth)[there] / truth[there]) < 0.15


def test_lines_jump_where_nothing_was_before() -> None:
    ranges = ProbedRanges(np.full(50, 4.0), np.full(50, 6.0), 0.0, 10.0)
    at = np.array([0.0, 3.9, 4.1, 5.0, 5.9, 6.1, 10.0])
    assert ssi_lines(ranges, 20)(at) == pytest.approx([0, 0, 50, 50, 50, 0, 0], abs=1e-6)
    nothing = ProbedRanges(np.zeros(0), np.zeros(0), 0.0, 10.0)
    assert ssi_lines(nothing, 20)(at).tolist() == [0.0] * 7
