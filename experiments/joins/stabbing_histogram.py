"""Interval histogram: the number of ranges that hold a point, estimated from few numbers.

The function f(x) = number of ranges that hold x is a sum over stabbing groups; left of its point a group's part only
rises, right of it it only falls. To approximate a monotone step function by few buckets is to cluster its values in one
dimension, and the weight of a step (its share of what is asked, over f²) makes that the mean squared *relative* error.

- `ssi_histogram`: the halves of the groups propose cuts, five times as many as are wanted, each given to whichever half
  it helps most; of these the ones are kept that are best for f itself. Halves are brought down to at most 128 steps
  first, so that the time is that of sorting the ranges, and a constant for each group.
- `ssi_lines`: the same proposals, and buckets in which the estimate goes along a line from one bucket's value to the
  next one's. It holds as many numbers, a place and a value for each bucket, and errs by a fraction: between a hundred
  thousand and one there are 23 times e, and 20 steps cannot follow that closely, wherever they are.
- `optimal`: the best buckets for all of f at once; O(buckets · steps²).

The published version weighs by the group's own part, gives buckets by the size of a group and adds the halves up: with
more halves than buckets that leaves nothing for most of them, and less precision than pieces of equal width.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.4: histograms of intervals (equation 4.1, Lemmas 13 and 14).
"""

from dataclasses import dataclass

import numpy as np

from experiments.joins.step_buckets import bucket_costs, bucket_starts, chord_costs, chord_errors
from slackwater.kernels.stabbing_groups import greedy_groups
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.histogram import ProbedRanges, StepFunction, count_steps, cut_pieces

STEPS = 128


PROPOSED = 5


_NARROW = 1e-9
"""The width of a jump, as a share of the line."""


@dataclass(frozen=True, slots=True, eq=False)
class LineFunction:
    """`values[k]` at `places[k]`, and along lines in between; one place more than there are buckets."""

    places: Floats
    values: Floats

    def __len__(self) -> int:
        return len(self.places) - 1

    def __call__(self, at: Floats) -> Floats:
        """The value at each point."""
        return np.interp(at, self.places, self.values)


def held_by(ranges: ProbedRanges, at: Floats) -> Integers:
    """How many of the ranges hold each point, exactly."""
    begun = np.searchsorted(np.sort(ranges.low), at, side="right")
    return begun - np.searchsorted(np.sort(ranges.high), at, side="left")


def optimal(ranges: ProbedRanges, buckets: int, *, steps: int = 4000) -> StepFunction:
    """The least mean squared relative error with so many buckets, of f brought down to so many steps."""
    exact = count_steps(ranges.low, ranges.high)
    starts, widths = cut_pieces(exact.starts, ranges)
    values = exact(starts)
    starts, values, weights = _fewer(starts, values, widths / np.maximum(values, 1) ** 2, steps)
    _, choice = _table(values, weights, min(buckets, len(values)))
    cuts = starts[bucket_starts(choice, len(choice) - 1)]
    return _fitted(exact, cuts, ranges)[0]


def ssi_histogram(ranges: ProbedRanges, buckets: int) -> StepFunction:
    """Buckets for the halves of stabbing groups, at most so many altogether."""
    exact, cuts = _proposed(ranges, PROPOSED * buckets)
    fine, weights = _fitted(exact, cuts, ranges)
    _, choice = _table(fine.values, weights, min(buckets, len(fine)))
    return _fitted(exact, fine.starts[bucket_starts(choice, len(choice) - 1)], ranges)[0]


def ssi_lines(ranges: ProbedRanges, buckets: int) -> LineFunction:
    """Lines between places that the halves of stabbing groups propose, at most so many altogether.

    Places are chosen as if lines were chords of f, and then get the values of the least error. Where f comes from
    nothing or falls to nothing it may jump: that takes a bucket of no width to speak of.
    """
    exact, cuts = _proposed(ranges, PROPOSED * buckets)
    span = ranges.most - ranges.least
    places = np.append(cut_pieces(cuts, ranges)[0], ranges.most)
    jumps = places[(exact(places) == 0) != (exact(places - span * _NARROW) == 0)] - span * _NARROW
    places = np.unique(np.concatenate((places, jumps[jumps > ranges.least])))
    known = np.append(exact(places[:-1]), exact(np.array([ranges.most - span * _NARROW])))
    at = (places - ranges.least) / span
    errors = np.zeros((len(at), len(at)))
    chord_errors(at, known, _integrals(exact, places, ranges), 2 * _NARROW, errors)
    cost = np.empty((min(buckets, len(at) - 1) + 1, len(at)))
    choice = np.zeros(cost.shape, np.int64)
    chord_costs(errors, cost, choice)
    chosen = np.array([*bucket_starts(choice, int(cost[:, -1].argmin())), len(at) - 1])
    parts = _integrals(exact, places[chosen], ranges)
    return LineFunction(places[chosen], _least_squares(np.diff(at[chosen]), parts))


def _proposed(ranges: ProbedRanges, proposed: int) -> tuple[StepFunction, Floats]:
    """f itself, and cuts that the halves of its stabbing groups propose, about so many."""
    by = np.argsort(ranges.low, kind="stable")
    low, high = ranges.low[by], ranges.high[by]
    exact = count_steps(low, high)
    runs = np.empty(len(low), np.int64)
    count = greedy_groups(low, high, runs)
    bounds = np.searchsorted(runs, np.arange(count + 1))
    halves = list[tuple[Floats, Floats, Integers]]()
    for k in range(count):
        own = slice(int(bounds[k]), int(bounds[k + 1]))
        point = np.full(own.stop - own.start, high[own].min())
        for half in (count_steps(low[own], point), count_steps(point, high[own])):
            starts, widths = cut_pieces(half.starts, ranges)
            values = half(starts)
            starts, widths, values = starts[values > 0], widths[values > 0], values[values > 0]
            if len(starts):
                weights = widths / np.maximum(exact(starts), 1) ** 2
                starts, values, weights = _fewer(starts, values, weights, STEPS)
                cost, choice = _table(values, weights, min(proposed, len(values)))
                cost[0, -1] = (weights * values**2).sum()
                halves.append((np.append(starts, half.starts[-1]), cost[:, -1], choice))
    given = _shared([cost for _, cost, _ in halves], proposed)
    cuts = [
        starts[[*bucket_starts(choice, share), -1]]
        for (starts, _, choice), share in zip(halves, given, strict=True)
        if share
    ]
    return exact, np.concatenate([np.zeros(0), *cuts])


def _integrals(exact: StepFunction, places: Floats, ranges: ProbedRanges) -> Floats:
    """What `chord_errors` asks for, between each of these places and the next; the whole line is 1 long."""
    span = ranges.most - ranges.least
    starts, widths = cut_pieces(np.concatenate((places, exact.starts)), ranges)
    values = exact(starts)
    piece = np.searchsorted(places, starts, side="right") - 1
    begins = (starts - places[piece]) / span
    ends, weights = begins + widths / span, 1 / np.maximum(values, 1) ** 2
    lengths, first, second = (weights * (ends**k - begins**k) / k for k in (1, 2, 3))
    terms = (lengths, lengths * values, lengths * values**2, first, first * values, second)
    return np.stack([np.bincount(piece, term, len(places) - 1) for term in terms])


def _least_squares(wide: Floats, parts: Floats) -> Floats:
    """Values at the ends of pieces so wide, none negative, such that lines between them have the least error.

    The normal equations of two hat functions for each piece, from its integrals.
    """
    # What lies on a jump is too little to be reckoned with.
    parts = np.where(wide > 2 * _NARROW, parts, 0.0)
    matrix, right = np.zeros((len(wide) + 1, len(wide) + 1)), np.zeros(len(wide) + 1)
    place = np.arange(len(wide))
    up = parts[5] / wide**2
    across = parts[3] / wide - up
    matrix[place, place] += parts[0] - parts[3] / wide - across
    matrix[place + 1, place + 1] += up
    matrix[place, place + 1] += across
    matrix[place + 1, place] += across
    right[:-1] += parts[1] - parts[4] / wide
    right[1:] += parts[4] / wide
    # Weights of places differ by 1/f²: without scale the heavy ones would drown the others.
    scale = np.sqrt(np.maximum(matrix.diagonal(), 1e-300))
    solved: Floats = np.linalg.lstsq(matrix / np.outer(scale, scale), right / scale)[0]
    return np.maximum(solved / scale, 0.0)


def _fewer(starts: Floats, values: Floats, weights: Floats, most: int) -> tuple[Floats, Floats, Floats]:
    """Neighbouring steps joined until there are at most so many, finer where much is asked or f changes by much."""
    if len(starts) <= most:
        return starts, values, weights
    turns = np.abs(np.diff(np.log(np.maximum(values, 0.5)), prepend=np.log(max(values[0], 0.5))))
    along = np.cumsum(weights) / weights.sum() + np.cumsum(turns) / max(turns.sum(), 1e-300)
    cell = np.minimum((along / along[-1] * most).astype(np.int64), most - 1)
    _, first, inverse = np.unique(cell, return_index=True, return_inverse=True)
    weight: Floats = np.bincount(inverse, weights).astype(np.float64)
    return starts[first], np.bincount(inverse, weights * values) / weight, weight


def _table(values: Floats, weights: Floats, buckets: int) -> tuple[Floats, Integers]:
    cost = np.empty((buckets + 1, len(values) + 1))
    choice = np.zeros((buckets + 1, len(values) + 1), np.int64)
    bucket_costs(values, weights, cost, choice)
    return cost, choice


def _shared(costs: list[Floats], buckets: int) -> list[int]:
    """How many buckets each half gets: one after the other to the half in which it saves most."""
    given = [0] * len(costs)
    for _ in range(buckets):
        gains = [cost[k] - cost[k + 1] if k + 1 < len(cost) else 0.0 for cost, k in zip(costs, given, strict=True)]
        best = int(np.argmax(gains)) if gains else -1
        if best < 0 or gains[best] <= 0:
            break
        given[best] += 1
    return given


def _fitted(exact: StepFunction, cuts: Floats, ranges: ProbedRanges) -> tuple[StepFunction, Floats]:
    """The pieces between cuts, each with the value of the least mean squared relative error for f, and its weight."""
    starts, widths = cut_pieces(np.concatenate((cuts, exact.starts)), ranges)
    values = exact(starts)
    begins, _ = cut_pieces(cuts, ranges)
    piece = np.searchsorted(begins, starts, side="right") - 1
    weights = widths / np.maximum(values, 1) ** 2
    weight: Floats = np.bincount(piece, weights).astype(np.float64)
    return StepFunction(begins, np.bincount(piece, weights * values) / weight), weight
