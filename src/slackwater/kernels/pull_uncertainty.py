"""Uncertainty scheduler, simulated: a whole run over a trace in one compiled loop.

Design
    Queries lie one after the other: items and weights of query q from `starts[q]` to `starts[q + 1]`. Every tick:
    judge the tick that is `longest` + 1 past and move the prices of violation; then rounds of (what is known of items
    and queries, pick the items that are worth their cost, pull them, learn) until a round picks nothing; then the
    errors that the pulls have left are compared with the bounds. The mathematics stand where the plain scheduler does
    them: `planning.pulling.uncertainty`, `item_model`, `shared_clock`, `kinship`, `tails` and `prices`. That scheduler,
    driven tick by tick, is the plain twin of this loop.

`wake` of a live scheduler has no part here: a simulation asks at every tick.
"""

import math

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled
from slackwater.kernels.pull_risk import ROUGHER, gain_of, likeness, risk, shared

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

STAYING = np.array([1.0, 0.99, 0.95, 0.85, 0.6, 0.0])
"""How much of a distance from the line stays after a tick, by model; the second half has a slope."""
RATE, DISCOUNT, WORST = 0.02, 0.99, 8.0
HALF_LIFE, LEAST_SPREAD = 400.0, 100.0
LEARNING_PULLS, LEARNING_CYCLE = 20, 5
DEGREES, RETURN, CLOCK_DISCOUNT, CLOCK_WORST = 8.0, 0.9, 0.995, 20.0
LEAST_STEP, MOST_STEP, LEAST_PACE, MOST_PACE = 0.2, 30.0, 0.02, 400.0
CALIBRATION, MOST_SQUARE = 0.02, 16.0
TRUSTED = 4
FIRST_PRICE, SETTLING, HORIZON, FADING = 0.05, 100, 250.0, 0.999
RISING_TIME, FALLING_TIME, RECENT, EASE, LARGEST_ERROR = 100.0, 200.0, 100.0, 0.25, 1.5
LOWEST_COMMON, HIGHEST_COMMON = -12.0, 8.0
OWN_STEP, OWN_REACH = 0.1, 14.0
UNLIKELY = 1e-3
FIRST_LOADING, LOADING_STEP, LARGEST_LOADING = 0.3, 0.01, 0.95
LEAST_OVERLAP, LARGEST_SURPRISE = 0.3, 3.0
FIRST_WILD, WILD_STEP, LEAST_WILD, MOST_WILD = 0.02, 0.005, 1e-4, 0.3


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


@compiled
def slope(sums: Floats) -> float:
    """The slope of the line through the faded values; 0 until they are spread over enough time."""
    middle = sums[1] / sums[0]
    spread = sums[2] / sums[0] - middle * middle
    if spread <= LEAST_SPREAD:
        return 0.0
    return float((sums[4] / sums[0] - middle * sums[3] / sums[0]) / spread)


@compiled
def simulate(
    trace: Floats,
    starts: Integers,
    items: Integers,
    weights: Floats,
    within: Floats,
    fidelity: Floats,
    costs: Floats,
    longest: int,
    warm: int,
    fixed_price: float,
    pulls: Integers,
    broken: Integers,
    errors: Floats,
    over_time: Integers,
    estimated: Floats,
) -> None:
    """Count pulls by item, and ticks outside the bound and Σ|error| / B by query, from tick `warm` on.

    `over_time[t]` becomes the number of queries outside at tick t, `estimated[q]` what the scheduler thinks it
    delivered in all. `fixed_price` above 0 is the price of a tick of violation for all queries, without feedback.
    """
    ticks, n = trace.shape
    queries = len(within)
    half = len(STAYING)
    models = 2 * half
    size = longest + 2
    # Which queries hold an item, and at which place.
    first = np.zeros(n + 1, np.int64)
    for k in range(len(items)):
        first[items[k] + 1] += 1
    held = 0
    cost = 0.0
    for i in range(n):
        if first[i + 1] > 0:
            held += 1
        cost += costs[i]
        first[i + 1] += first[i]
    cost /= n
    holder = np.empty(len(items), np.int64)
    place = np.empty(len(items), np.int64)
    filled = first[:-1].copy()
    for q in range(queries):
        for k in range(starts[q], starts[q + 1]):
            holder[filled[items[k]]] = q
            place[filled[items[k]]] = k
            filled[items[k]] += 1
    powers = np.ones((half, size))
    growth = np.zeros((half, size))
    for e in range(half):
        for t in range(1, size):
            powers[e, t] = powers[e, t - 1] * STAYING[e]
            growth[e, t] = growth[e, t - 1] + powers[e, t - 1] * powers[e, t - 1]
    value = np.zeros(n)
    last = np.full(n, -1, np.int64)
    learnt = np.zeros(n, np.int64)
    scale = np.full((n, models), -1.0)
    score = np.zeros((n, models))
    sums = np.zeros((n, 5))
    pace = np.ones(size)
    paced = np.zeros((half, size))
    clock_score = 0.0
    calibrated = np.ones(64)
    off = np.full((n, size), np.nan)
    off_variance = np.zeros((n, size))
    left = np.ones((n, size))
    right = np.ones((n, size))
    loading = np.full(n, FIRST_LOADING)
    surprise = np.zeros(n)
    since = np.full(n, -1, np.int64)
    wild = FIRST_WILD
    root, common_part = np.zeros(n), np.zeros(n)
    kept = np.zeros(queries)
    judged = np.zeros(queries)
    lost = np.zeros(queries)
    counted = np.zeros(queries)
    debt = np.zeros(queries)
    soon = np.zeros((queries, size))
    expected = np.zeros(queries)
    own = np.zeros(queries)
    base = np.zeros(queries)
    price = np.zeros(queries)
    common, recent, settled = 0.0, 1.0, 0
    for q in range(queries):
        base[q] = math.log(FIRST_PRICE * cost / (1.0 - fidelity[q]) / (len(items) / held))
        price[q] = math.exp(base[q]) if fixed_price <= 0.0 else fixed_price
        soon[q, :] = 1.0 - fidelity[q]
    mean, variance = np.zeros(n), np.zeros(n)
    query_mean, query_variance, chance = np.zeros(queries), np.zeros(queries), np.zeros(queries)
    gain, waited = np.zeros(n), np.zeros(n)
    picked, unsure = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for now in range(ticks):
        for i in range(n):
            waited[i] += gain[i]
        # The tick that can be judged now.
        tick = now - longest - 1
        if tick >= 0:
            ratio, wanted, told = 0.0, 0.0, 0
            slot = tick % size
            for q in range(queries):
                a, b = 0.0, 0.0
                for k in range(starts[q], starts[q + 1]):
                    a += weights[k] * off[items[k], slot]
                    b += weights[k] * weights[k] * off_variance[items[k], slot]
                if a != a:
                    continue
                for k in range(starts[q], starts[q + 1]):
                    i = items[k]
                    if off_variance[i, slot] <= 0.0:
                        continue
                    for k2 in range(starts[q], k):
                        j = items[k2]
                        if off_variance[j, slot] <= 0.0:
                            continue
                        alike = likeness(left[i, slot], right[i, slot], left[j, slot], right[j, slot])
                        deviations = math.sqrt(off_variance[i, slot] * off_variance[j, slot])
                        b += 2.0 * weights[k] * weights[k2] * loading[i] * loading[j] * alike * deviations
                p = risk(a, max(b, 0.0), within[q], wild)
                kept[q] += 1.0 - p
                judged[q] += 1.0
                if tick < SETTLING:
                    continue
                allowed = 1.0 - fidelity[q]
                lost[q] = lost[q] * FADING + p
                counted[q] = counted[q] * FADING + 1.0
                wish = (allowed * (counted[q] + HORIZON) - lost[q]) / HORIZON / allowed
                ratio += max(soon[q, (now - 1) % size], p) / allowed
                wanted += min(max(wish, 0.0), 2.0)
                debt[q] += p - allowed
                expected[q] -= soon[q, slot] - allowed
                soon[q, slot] = allowed
                own[q] = min(max(OWN_STEP * (debt[q] + max(expected[q], 0.0)), -OWN_REACH), OWN_REACH)
                told += 1
            if told > 0:
                settled += 1
                recent += (ratio / told - recent) / min(float(settled), RECENT)
                error = math.log((recent + EASE) / (wanted / told + EASE))
                error = min(max(error, -LARGEST_ERROR), LARGEST_ERROR)
                common += error / (RISING_TIME if error > 0.0 else FALLING_TIME)
                common = min(max(common, LOWEST_COMMON), HIGHEST_COMMON)
                if fixed_price <= 0.0:
                    for q in range(queries):
                        price[q] = math.exp(base[q] + common + own[q])
            for i in range(n):
                off[i, slot] = np.nan
        if now > 0:
            pace[now % size] = 1.0 + RETURN * (pace[(now - 1) % size] - 1.0)
        clocked = clock_score > 0.0
        while True:
            # What is known of items and queries.
            for e in range(half):
                for t in range(1, size):
                    paced[e, t] = paced[e, t - 1] + powers[e, t - 1] * powers[e, t - 1] * pace[(now - t + 1) % size]
            for i in range(n):
                mean[i] = 0.0
                variance[i] = 0.0
                common_part[i] = 0.0
                age = now - last[i]
                if last[i] < 0 or age == 0 or learnt[i] == 0:
                    continue
                best = score[i, 0]
                for e in range(1, models):
                    best = max(best, score[i, e])
                level = sums[i, 3] / sums[i, 0]
                rise = slope(sums[i])
                centre = sums[i, 1] / sums[i, 0]
                total, a, b = 0.0, 0.0, 0.0
                for e in range(models):
                    likely = math.exp(score[i, e] - best)
                    if likely < UNLIKELY:
                        continue
                    f = e % half
                    then, there = level, level
                    if e >= half:
                        then = level + rise * (0.0 - centre)
                        there = level + rise * (age - centre)
                    m = there + powers[f, age] * (value[i] - then) - value[i]
                    v = scale[i, e] * (paced[f, age] if clocked else growth[f, age])
                    total += likely
                    a += likely * m
                    b += likely * (v + m * m)
                a /= total
                mean[i] = a
                variance[i] = max(b / total - a * a, 0.0) * calibrated[lag_class(age)]
                root[i] = math.sqrt(float(age))
                common_part[i] = loading[i] * math.sqrt(variance[i])
            for q in range(queries):
                a, b = 0.0, 0.0
                for k in range(starts[q], starts[q + 1]):
                    a += weights[k] * mean[items[k]]
                    b += weights[k] * weights[k] * variance[items[k]]
                for k in range(starts[q], starts[q + 1]):
                    i = items[k]
                    if common_part[i] == 0.0:
                        continue
                    for k2 in range(starts[q], k):
                        j = items[k2]
                        if common_part[j] == 0.0:
                            continue
                        overlap = root[i] / root[j] if root[i] < root[j] else root[j] / root[i]
                        b += 2.0 * weights[k] * weights[k2] * common_part[i] * common_part[j] * overlap
                query_mean[q] = a
                query_variance[q] = max(b, 0.0)
                chance[q] = risk(a, query_variance[q], within[q], wild)
            # Pick: first what is overdue or still to be learnt, then what is worth its cost.
            count = 0
            for i in range(n):
                if first[i + 1] == first[i] or last[i] == now:
                    continue
                age = now - last[i]
                if (
                    last[i] < 0
                    or age >= longest
                    or (learnt[i] < LEARNING_PULLS and age >= 2 ** ((learnt[i] + i) % LEARNING_CYCLE))
                ):
                    picked[count] = i
                    count += 1
            done = 0
            while True:
                while done < count:
                    i = picked[done]
                    for h in range(first[i], first[i + 1]):
                        q = holder[h]
                        w = weights[place[h]]
                        query_mean[q] -= w * mean[i]
                        part = w * w * variance[i]
                        if common_part[i] != 0.0:
                            part += 2.0 * w * shared(i, q, starts, items, weights, common_part, root)
                        query_variance[q] = max(query_variance[q] - part, 0.0)
                        chance[q] = risk(query_mean[q], query_variance[q], within[q], wild)
                    mean[i] = 0.0
                    variance[i] = 0.0
                    common_part[i] = 0.0
                    done += 1
                most, choice = 1.0, -1
                for i in range(n):
                    gain[i] = 0.0
                    unsure[i] = 0
                    if (mean[i] == 0.0 and variance[i] == 0.0) or last[i] == now:
                        continue
                    # At best a pull takes away all the risk: most items need no closer look to lose against the best.
                    bound = 0.0
                    for h in range(first[i], first[i + 1]):
                        bound += price[holder[h]] * chance[holder[h]]
                    if (bound * (now - last[i]) - waited[i]) / costs[i] <= most:
                        unsure[i] = 1
                        continue
                    g = gain_of(
                        *(i, first, holder, place, starts, items, weights, within, price, chance),
                        *(query_mean, query_variance, mean[i], variance[i], common_part, root, wild),
                    )
                    gain[i] = g
                    worth = (g * (now - last[i]) - waited[i]) / costs[i]
                    if worth > most:
                        most = worth
                        choice = i
                if choice < 0:
                    # Nothing more to pull: what waiting costs is told exactly, for the ticks to come.
                    for i in range(n):
                        if unsure[i] == 1:
                            gain[i] = gain_of(
                                *(i, first, holder, place, starts, items, weights, within, price, chance),
                                *(query_mean, query_variance, mean[i], variance[i], common_part, root, wild),
                            )
                    break
                picked[count] = choice
                count += 1
            if count == 0:
                break
            # Pull and learn.
            for c in range(count):
                i = picked[c]
                new = trace[now, i]
                if now >= warm:
                    pulls[i] += 1
                age = now - last[i]
                change = new - value[i]
                if last[i] >= 0 and age > 0:
                    level = sums[i, 3] / sums[i, 0]
                    rise = slope(sums[i])
                    centre = sums[i, 1] / sums[i, 0]
                    learnt[i] += 1
                    tiny = 1e-18 * value[i] * value[i] + 1e-200
                    top = 0
                    for e in range(1, models):
                        if score[i, e] > score[i, top]:
                            top = e
                    square, zed = -1.0, 0.0
                    for e in range(models):
                        f = e % half
                        then, there = level, level
                        if e >= half:
                            then = level + rise * (0.0 - centre)
                            there = level + rise * (age - centre)
                        m = there + powers[f, age] * (value[i] - then) - value[i]
                        missed = (change - m) * (change - m)
                        spread = paced[f, age] if clocked else growth[f, age]
                        if scale[i, e] < 0.0:
                            scale[i, e] = missed / spread
                            continue
                        v = scale[i, e] * spread + tiny
                        if e == top and learnt[i] > TRUSTED:
                            by_clock = scale[i, e] * paced[f, age] + tiny
                            by_tick = scale[i, e] * growth[f, age] + tiny
                            clock_score = CLOCK_DISCOUNT * clock_score + (
                                -0.5 * math.log(by_clock) - min(0.5 * missed / by_clock, CLOCK_WORST)
                            )
                            clock_score -= -0.5 * math.log(by_tick) - min(0.5 * missed / by_tick, CLOCK_WORST)
                            kind = lag_class(age)
                            seen = missed / (by_clock if clocked else by_tick)
                            calibrated[kind] += CALIBRATION * (min(seen, MOST_SQUARE) - calibrated[kind])
                            square = missed / by_clock / calibrated[kind]
                            zed = math.copysign(math.sqrt(seen / calibrated[kind]), change - m)
                        score[i, e] = DISCOUNT * score[i, e] - 0.5 * math.log(v) - min(0.5 * missed / v, WORST)
                        scale[i, e] += max(RATE, 1.0 / learnt[i]) * (missed / spread - scale[i, e])
                    if square >= 0.0:
                        step = min(max((DEGREES + square) / (DEGREES + 1.0), LEAST_STEP), MOST_STEP)
                        for t in range(last[i] + 1, now + 1):
                            pace[t % size] = min(max(pace[t % size] * step, LEAST_PACE), MOST_PACE)
                        # How wild surprises are, and what items have in common.
                        calm = 0.5 * zed * zed * (1.0 + (ROUGHER * ROUGHER - 1.0) * wild)
                        ease = (1.0 - wild) * math.exp(-calm)
                        rough = wild / ROUGHER * math.exp(-calm / (ROUGHER * ROUGHER))
                        share = rough / (ease + rough) if ease + rough > 0.0 else 1.0
                        wild = min(max(wild + WILD_STEP * (share - wild), LEAST_WILD), MOST_WILD)
                        zed = min(max(zed, -LARGEST_SURPRISE), LARGEST_SURPRISE)
                        for j in range(n):
                            if j == i or since[j] < 0:
                                continue
                            over = min(now, last[j]) - max(last[i], since[j])
                            if over <= 0:
                                continue
                            overlap = over / math.sqrt(float((now - last[i]) * (last[j] - since[j])))
                            if overlap < LEAST_OVERLAP:
                                continue
                            miss = zed * surprise[j] - loading[i] * loading[j] * overlap
                            mine = loading[i] + LOADING_STEP * miss * loading[j] * overlap
                            other = loading[j] + LOADING_STEP * miss * loading[i] * overlap
                            loading[i] = min(max(mine, -LARGEST_LOADING), LARGEST_LOADING)
                            loading[j] = min(max(other, -LARGEST_LOADING), LARGEST_LOADING)
                        surprise[i] = zed
                        since[i] = last[i]
                    top = 0
                    for e in range(1, models):
                        if score[i, e] > score[i, top]:
                            top = e
                    f = top % half
                    v = max(scale[i, top], 0.0)
                    if clocked:
                        v *= paced[f, age] / growth[f, age]
                    for t in range(last[i] + 1, now):
                        before, after = t - last[i], now - t
                        left[i, t % size], right[i, t % size] = float(before), float(after)
                        then, there, at = level, level, level
                        if top >= half:
                            then = level + rise * (0.0 - centre)
                            at = level + rise * (before - centre)
                            there = level + rise * (age - centre)
                        whole = growth[f, age]
                        from_then = powers[f, before] * growth[f, after] / whole
                        from_now = powers[f, after] * growth[f, before] / whole
                        off[i, t % size] = at + from_then * (value[i] - then) + from_now * (new - there) - value[i]
                        off_variance[i, t % size] = (
                            v * growth[f, before] * growth[f, after] / whole * calibrated[lag_class(min(before, after))]
                        )
                off[i, now % size] = 0.0
                off_variance[i, now % size] = 0.0
                passed = float(age) if last[i] >= 0 else 0.0
                fade = 0.5 ** (passed / HALF_LIFE)
                s0, s1, s2 = sums[i, 0] * fade, sums[i, 1] * fade, sums[i, 2] * fade
                s3, s4 = sums[i, 3] * fade, sums[i, 4] * fade
                sums[i, 0] = s0 + 1.0
                sums[i, 1] = s1 - passed * s0
                sums[i, 2] = s2 - 2.0 * passed * s1 + passed * passed * s0
                sums[i, 3] = s3 + new
                sums[i, 4] = s4 - passed * s3
                value[i] = new
                last[i] = now
                waited[i] = 0.0
                gain[i] = 0.0
        for i in range(n):
            if last[i] == now:
                gain[i] = 0.0
        for q in range(queries):
            if now >= SETTLING:
                expected[q] += chance[q] - soon[q, now % size]
                soon[q, now % size] = chance[q]
            error = 0.0
            for k in range(starts[q], starts[q + 1]):
                error += weights[k] * (trace[now, items[k]] - value[items[k]])
            if abs(error) > within[q]:
                over_time[now] += 1
                if now >= warm:
                    broken[q] += 1
            if now >= warm and within[q] > 0.0:
                errors[q] += abs(error) / within[q]
    for q in range(queries):
        estimated[q] = kept[q] / judged[q] if judged[q] > 0.0 else np.nan
