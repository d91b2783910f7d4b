"""Item models of the pull scheduler: mean and variance of changes since the last pulls, of items and of queries.

The mathematics stand with the plain twins: `planning.pulling.item_model`, `shared_clock`, `common_factor` and
`heavy_tails`. `pull_updates` has what a pull teaches the models.
"""

import math

from slackwater.kernels.jit import compiled
from slackwater.kernels.pull_risk import risk
from slackwater.kernels.pull_tables import (
    ClockTable,
    Floats,
    ItemTable,
    KnownTable,
    PullConstants,
    PulledQueries,
    lag_class,
)


@compiled
def slope(sums: Floats, least_spread: float) -> float:
    """The slope of the line through the faded values; 0 until they are spread over enough time."""
    middle = sums[1] / sums[0]
    spread = sums[2] / sums[0] - middle * middle
    if spread <= least_spread:
        return 0.0
    return float((sums[4] / sums[0] - middle * sums[3] / sums[0]) / spread)


@compiled
def know_items(
    items: ItemTable, clock: ClockTable, now: int, clocked: bool, c: PullConstants, known: KnownTable
) -> None:
    """Mean and variance of the change of each item since its last pull, over its models by their likelihood."""
    half, size = clock.paced.shape
    models = 2 * half
    for e in range(half):
        for t in range(1, size):
            clock.paced[e, t] = (
                clock.paced[e, t - 1]
                + clock.powers[e, t - 1] * clock.powers[e, t - 1] * clock.pace[(now - t + 1) % size]
            )
    for i in range(len(items.value)):
        known.mean[i] = 0.0
        known.variance[i] = 0.0
        known.common[i] = 0.0
        age = now - items.last[i]
        if items.last[i] < 0 or age == 0 or items.learnt[i] == 0:
            continue
        best = items.score[i, 0]
        for e in range(1, models):
            best = max(best, items.score[i, e])
        level = items.sums[i, 3] / items.sums[i, 0]
        rise = slope(items.sums[i], c.least_spread)
        centre = items.sums[i, 1] / items.sums[i, 0]
        total, a, b = 0.0, 0.0, 0.0
        for e in range(models):
            likely = math.exp(items.score[i, e] - best)
            if likely < c.unlikely:
                continue
            f = e % half
            then, there = level, level
            if e >= half:
                then = level + rise * (0.0 - centre)
                there = level + rise * (age - centre)
            m = there + clock.powers[f, age] * (items.value[i] - then) - items.value[i]
            v = items.scale[i, e] * (clock.paced[f, age] if clocked else clock.growth[f, age])
            total += likely
            a += likely * m
            b += likely * (v + m * m)
        a /= total
        known.mean[i] = a
        known.variance[i] = max(b / total - a * a, 0.0) * clock.calibrated[lag_class(age)]
        known.root[i] = math.sqrt(float(age))
        known.common[i] = items.loading[i] * math.sqrt(known.variance[i])


@compiled
def know_queries(table: PulledQueries, wild: float, known: KnownTable) -> None:
    """Mean, variance and risk of each query's error, from its items and what they have in common."""
    for q in range(len(table.within)):
        a, b = 0.0, 0.0
        for k in range(table.starts[q], table.starts[q + 1]):
            a += table.weights[k] * known.mean[table.items[k]]
            b += table.weights[k] * table.weights[k] * known.variance[table.items[k]]
        for k in range(table.starts[q], table.starts[q + 1]):
            i = table.items[k]
            if known.common[i] == 0.0:
                continue
            for k2 in range(table.starts[q], k):
                j = table.items[k2]
                if known.common[j] == 0.0:
                    continue
                overlap = (
                    known.root[i] / known.root[j] if known.root[i] < known.root[j] else known.root[j] / known.root[i]
                )
                b += 2.0 * table.weights[k] * table.weights[k2] * known.common[i] * known.common[j] * overlap
        known.query_mean[q] = a
        known.query_variance[q] = max(b, 0.0)
        known.chance[q] = risk(a, known.query_variance[q], table.within[q], wild)
