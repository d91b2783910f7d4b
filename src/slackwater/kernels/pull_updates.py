"""Model updates of the pull scheduler: what a pull teaches of an item, of the shared clock and of the ticks before it.

The mathematics stand with the plain twins: `planning.pulling.item_model`, `shared_clock`, `common_factor` and
`heavy_tails`.
"""

import math

from slackwater.kernels.jit import compiled
from slackwater.kernels.pull_models import slope
from slackwater.kernels.pull_risk import ROUGHER
from slackwater.kernels.pull_tables import (
    ClockTable,
    ItemTable,
    PastTable,
    PullConstants,
    lag_class,
)


@compiled
def score_models(
    items: ItemTable,
    clock: ClockTable,
    i: int,
    now: int,
    new: float,
    clocked: bool,
    clock_score: float,
    c: PullConstants,
) -> tuple[float, float, float]:
    """Score the models of an item by the value that a pull at `now` found, and move the paces since the last pull.

    Gives the clock's score, z² by the clock (−1 while too little is known) and the surprise z.
    """
    half, size = clock.paced.shape
    models = 2 * half
    age = now - items.last[i]
    change = new - items.value[i]
    level = items.sums[i, 3] / items.sums[i, 0]
    rise = slope(items.sums[i], c.least_spread)
    centre = items.sums[i, 1] / items.sums[i, 0]
    items.learnt[i] += 1
    tiny = 1e-18 * items.value[i] * items.value[i] + 1e-200
    top = 0
    for e in range(1, models):
        if items.score[i, e] > items.score[i, top]:
            top = e
    square, zed = -1.0, 0.0
    for e in range(models):
        f = e % half
        then, there = level, level
        if e >= half:
            then = level + rise * (0.0 - centre)
            there = level + rise * (age - centre)
        m = there + clock.powers[f, age] * (items.value[i] - then) - items.value[i]
        missed = (change - m) * (change - m)
        spread = clock.paced[f, age] if clocked else clock.growth[f, age]
        if items.scale[i, e] < 0.0:
            items.scale[i, e] = missed / spread
            continue
        v = items.scale[i, e] * spread + tiny
        if e == top and items.learnt[i] > c.trusted:
            by_clock = items.scale[i, e] * clock.paced[f, age] + tiny
            by_tick = items.scale[i, e] * clock.growth[f, age] + tiny
            clock_score = c.clock_discount * clock_score + (
                -0.5 * math.log(by_clock) - min(0.5 * missed / by_clock, c.clock_worst)
            )
            clock_score -= -0.5 * math.log(by_tick) - min(0.5 * missed / by_tick, c.clock_worst)
            kind = lag_class(age)
            seen = missed / (by_clock if clocked else by_tick)
            clock.calibrated[kind] += c.calibration * (min(seen, c.most_square) - clock.calibrated[kind])
            square = missed / by_clock / clock.calibrated[kind]
            zed = math.copysign(math.sqrt(seen / clock.calibrated[kind]), change - m)
        items.score[i, e] = c.discount * items.score[i, e] - 0.5 * math.log(v) - min(0.5 * missed / v, c.worst)
        items.scale[i, e] += max(c.rate, 1.0 / items.learnt[i]) * (missed / spread - items.scale[i, e])
    if square >= 0.0:
        step = min((c.degrees + square) / (c.degrees + 1.0), c.most_step)
        for t in range(items.last[i] + 1, now + 1):
            clock.pace[t % size] = min(max(clock.pace[t % size] * step, c.least_pace), c.most_pace)
    return clock_score, square, zed


@compiled
def learn_surprise(items: ItemTable, i: int, now: int, surprise: float, wild: float, c: PullConstants) -> float:
    """Learn how wild surprises are, which is the result, and what the item has in common with the others."""
    zed = surprise
    calm = 0.5 * zed * zed * (1.0 + (ROUGHER * ROUGHER - 1.0) * wild)
    ease = (1.0 - wild) * math.exp(-calm)
    rough = wild / ROUGHER * math.exp(-calm / (ROUGHER * ROUGHER))
    share = rough / (ease + rough) if ease + rough > 0.0 else 1.0
    wild = min(max(wild + c.wild_step * (share - wild), c.least_wild), c.most_wild)
    zed = min(max(zed, -c.largest_surprise), c.largest_surprise)
    for j in range(len(items.value)):
        if j == i or items.since[j] < 0:
            continue
        over = min(now, items.last[j]) - max(items.last[i], items.since[j])
        if over <= 0:
            continue
        overlap = over / math.sqrt(float((now - items.last[i]) * (items.last[j] - items.since[j])))
        if overlap < c.least_overlap:
            continue
        miss = zed * items.surprise[j] - items.loading[i] * items.loading[j] * overlap
        mine = items.loading[i] + c.loading_step * miss * items.loading[j] * overlap
        other = items.loading[j] + c.loading_step * miss * items.loading[i] * overlap
        items.loading[i] = min(max(mine, -c.largest_loading), c.largest_loading)
        items.loading[j] = min(max(other, -c.largest_loading), c.largest_loading)
    items.surprise[i] = zed
    items.since[i] = items.last[i]
    return wild


@compiled
def bridge_past(
    items: ItemTable, clock: ClockTable, past: PastTable, i: int, now: int, new: float, clocked: bool, c: PullConstants
) -> None:
    """How far off the item was at each tick between its last pull and the one at `now`, by its best model."""
    half, size = clock.paced.shape
    models = 2 * half
    age = now - items.last[i]
    level = items.sums[i, 3] / items.sums[i, 0]
    rise = slope(items.sums[i], c.least_spread)
    centre = items.sums[i, 1] / items.sums[i, 0]
    top = 0
    for e in range(1, models):
        if items.score[i, e] > items.score[i, top]:
            top = e
    f = top % half
    v = max(items.scale[i, top], 0.0)
    if clocked:
        v *= clock.paced[f, age] / clock.growth[f, age]
    for t in range(items.last[i] + 1, now):
        before, after = t - items.last[i], now - t
        past.left[i, t % size], past.right[i, t % size] = float(before), float(after)
        then, there, at = level, level, level
        if top >= half:
            then = level + rise * (0.0 - centre)
            at = level + rise * (before - centre)
            there = level + rise * (age - centre)
        whole = clock.growth[f, age]
        from_then = clock.powers[f, before] * clock.growth[f, after] / whole
        from_now = clock.powers[f, after] * clock.growth[f, before] / whole
        past.off[i, t % size] = at + from_then * (items.value[i] - then) + from_now * (new - there) - items.value[i]
        past.variance[i, t % size] = (
            v
            * clock.growth[f, before]
            * clock.growth[f, after]
            / whole
            * clock.calibrated[lag_class(min(before, after))]
        )


@compiled
def see_value(items: ItemTable, past: PastTable, i: int, now: int, new: float, c: PullConstants) -> None:
    """Keep a pulled value: it joins the line, and is right at its tick."""
    size = past.off.shape[1]
    age = now - items.last[i]
    past.off[i, now % size] = 0.0
    past.variance[i, now % size] = 0.0
    passed = float(age) if items.last[i] >= 0 else 0.0
    fade = 0.5 ** (passed / c.half_life)
    s0, s1, s2 = items.sums[i, 0] * fade, items.sums[i, 1] * fade, items.sums[i, 2] * fade
    s3, s4 = items.sums[i, 3] * fade, items.sums[i, 4] * fade
    items.sums[i, 0] = s0 + 1.0
    items.sums[i, 1] = s1 - passed * s0
    items.sums[i, 2] = s2 - 2.0 * passed * s1 + passed * passed * s0
    items.sums[i, 3] = s3 + new
    items.sums[i, 4] = s4 - passed * s3
    items.value[i] = new
    items.last[i] = now
