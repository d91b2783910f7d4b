"""Prices of violation in the pull scheduler: judge a tick that is past, and move the prices by feedback.

The mathematics stand with the plain twin, `planning.pulling.prices`.
"""

import math

import numpy as np

from slackwater.kernels.jit import compiled
from slackwater.kernels.pull_risk import likeness, risk
from slackwater.kernels.pull_tables import Floats, PastTable, PriceTable, PullConstants, PulledQueries


@compiled
def judge_tick(
    table: PulledQueries,
    past: PastTable,
    prices: PriceTable,
    loading: Floats,
    tick: int,
    now: int,
    wild: float,
    fixed: bool,
    feedback: Floats,
    c: PullConstants,
) -> None:
    """Judge the tick that all items have been pulled since; `feedback` is (common price, recent violations, ticks)."""
    size = past.off.shape[1]
    ratio, wanted, told = 0.0, 0.0, 0
    slot = tick % size
    for q in range(len(table.within)):
        a, b = 0.0, 0.0
        for k in range(table.starts[q], table.starts[q + 1]):
            a += table.weights[k] * past.off[table.items[k], slot]
            b += table.weights[k] * table.weights[k] * past.variance[table.items[k], slot]
        if a != a:
            continue
        for k in range(table.starts[q], table.starts[q + 1]):
            i = table.items[k]
            if past.variance[i, slot] <= 0.0:
                continue
            for k2 in range(table.starts[q], k):
                j = table.items[k2]
                if past.variance[j, slot] <= 0.0:
                    continue
                alike = likeness(past.left[i, slot], past.right[i, slot], past.left[j, slot], past.right[j, slot])
                deviations = math.sqrt(past.variance[i, slot] * past.variance[j, slot])
                b += 2.0 * table.weights[k] * table.weights[k2] * loading[i] * loading[j] * alike * deviations
        p = risk(a, max(b, 0.0), table.within[q], wild)
        prices.kept[q] += 1.0 - p
        prices.judged[q] += 1.0
        if tick < c.settling:
            continue
        allowed = 1.0 - table.fidelity[q]
        prices.lost[q] = prices.lost[q] * c.fading + p
        prices.counted[q] = prices.counted[q] * c.fading + 1.0
        wish = (allowed * (prices.counted[q] + c.horizon) - prices.lost[q]) / c.horizon / allowed
        ratio += max(prices.soon[q, (now - 1) % size], p) / allowed
        wanted += min(max(wish, 0.0), 2.0)
        prices.debt[q] += p - allowed
        prices.expected[q] -= prices.soon[q, slot] - allowed
        prices.soon[q, slot] = allowed
        prices.own[q] = min(
            max(c.own_step * (prices.debt[q] + max(prices.expected[q], 0.0)), -c.own_reach), c.own_reach
        )
        told += 1
    if told > 0:
        feedback[2] += 1.0
        feedback[1] += (ratio / told - feedback[1]) / min(feedback[2], c.recent)
        error = math.log((feedback[1] + c.ease) / (wanted / told + c.ease))
        error = min(max(error, -c.largest_error), c.largest_error)
        feedback[0] += error / (c.rising_time if error > 0.0 else c.falling_time)
        feedback[0] = min(max(feedback[0], c.lowest_common), c.highest_common)
        if not fixed:
            for q in range(len(table.within)):
                prices.price[q] = math.exp(prices.base[q] + feedback[0] + prices.own[q])
    for i in range(len(past.off)):
        past.off[i, slot] = np.nan
