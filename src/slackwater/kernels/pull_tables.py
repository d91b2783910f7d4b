"""Pull scheduler tables: flat arrays of queries, items, clock, past and prices that its kernels share."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class PullConstants(NamedTuple):
    """The constants of the scheduler; `planning.pulling.model_constants` has their values and what each does."""

    staying: Floats
    rate: float
    discount: float
    worst: float
    half_life: float
    least_spread: float
    learning_pulls: int
    learning_cycle: int
    degrees: float
    returning: float
    clock_discount: float
    clock_worst: float
    most_step: float
    least_pace: float
    most_pace: float
    calibration: float
    most_square: float
    trusted: int
    first_price: float
    settling: int
    horizon: float
    fading: float
    rising_time: float
    falling_time: float
    recent: float
    ease: float
    largest_error: float
    lowest_common: float
    highest_common: float
    own_step: float
    own_reach: float
    unlikely: float
    first_loading: float
    loading_step: float
    largest_loading: float
    least_overlap: float
    largest_surprise: float
    first_wild: float
    wild_step: float
    least_wild: float
    most_wild: float


class PulledQueries(NamedTuple):
    """Queries one after the other: query q has the places from `starts[q]` to `starts[q + 1]`.

    The queries that hold item i are `holder[first[i]:first[i + 1]]`, at the places `place[…]`.
    """

    starts: Integers
    items: Integers
    weights: Floats
    within: Floats
    fidelity: Floats
    first: Integers
    holder: Integers
    place: Integers


class ItemTable(NamedTuple):
    """What is learnt of items: the bank of models, the line, loadings and the last surprise."""

    value: Floats
    last: Integers
    learnt: Integers
    scale: Floats
    score: Floats
    sums: Floats
    loading: Floats
    surprise: Floats
    since: Integers


class ClockTable(NamedTuple):
    """The shared clock: paces of the last ticks in a ring, growth of variance with and without them, calibration."""

    pace: Floats
    powers: Floats
    growth: Floats
    paced: Floats
    calibrated: Floats


class PastTable(NamedTuple):
    """The bridges of the last ticks, in a ring: how far off each item was, with the ticks to either pull."""

    off: Floats
    variance: Floats
    left: Floats
    right: Floats


class PriceTable(NamedTuple):
    """The fidelity account and the price of each query."""

    kept: Floats
    judged: Floats
    lost: Floats
    counted: Floats
    debt: Floats
    soon: Floats
    expected: Floats
    own: Floats
    base: Floats
    price: Floats


class KnownTable(NamedTuple):
    """What is known in one round: the change of each item, and mean, variance and risk of each query."""

    mean: Floats
    variance: Floats
    root: Floats
    common: Floats
    query_mean: Floats
    query_variance: Floats
    chance: Floats


@compiled
def table_queries(
    starts: Integers, items: Integers, weights: Floats, within: Floats, fidelity: Floats, n: int
) -> PulledQueries:
    """Queries over n items, with the queries that hold each item."""
    first = np.zeros(n + 1, np.int64)
    for k in range(len(items)):
        first[items[k] + 1] += 1
    for i in range(n):
        first[i + 1] += first[i]
    holder = np.empty(len(items), np.int64)
    place = np.empty(len(items), np.int64)
    filled = first[:-1].copy()
    for q in range(len(within)):
        for k in range(starts[q], starts[q + 1]):
            holder[filled[items[k]]] = q
            place[filled[items[k]]] = k
            filled[items[k]] += 1
    return PulledQueries(starts, items, weights, within, fidelity, first, holder, place)


@compiled
def table_clock(staying: Floats, size: int) -> ClockTable:
    """A clock whose ticks all have their usual pace."""
    half = len(staying)
    powers = np.ones((half, size))
    growth = np.zeros((half, size))
    for e in range(half):
        for t in range(1, size):
            powers[e, t] = powers[e, t - 1] * staying[e]
            growth[e, t] = growth[e, t - 1] + powers[e, t - 1] * powers[e, t - 1]
    return ClockTable(np.ones(size), powers, growth, np.zeros((half, size)), np.ones(64))


@compiled
def lag_class(ticks: int) -> int:
    """0 for one tick, 1 for 2 and 3, 2 for 4 to 7, and so on.

    >>> [lag_class(ticks) for ticks in (1, 2, 3, 4, 60)]
    [0, 1, 1, 2, 5]
    """
    found = 0
    while ticks > 1:
        ticks //= 2
        found += 1
    return found
