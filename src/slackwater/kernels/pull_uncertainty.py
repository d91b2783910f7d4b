"""A whole run of the scheduler by uncertainty over a trace, compiled.

Design
    Queries lie one after the other: items and weights of query q from `starts[q]` to `starts[q + 1]`. Every tick:
    judge the tick that is `longest` + 1 past and move the prices of violation; then rounds of (what is known of items
    and queries, pick the items that are worth their cost, pull them, learn) until a round picks nothing; then the
    errors that the pulls have left are compared with the bounds. The mathematics stand where the plain scheduler does
    them: `planning.pulling.uncertainty`, `item_model`, `shared_clock` and `prices`. That scheduler, driven tick by
    tick, is the plain twin of this loop.

`wake` of a live scheduler has no part here: a simulation asks at every tick.
"""

import math

import numpy as np
import numpy.typing as npt

from slackwater.kernels.compiled import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

STAYING = np.array([1.0, 0.99, 0.95, 0.85, 0.6, 0.0])
"""How much of a distance from the line stays after a tick, by model; the second half has a slope."""
RATE, DISCOUNT, WORST = 0.06, 0.99, 8.0
HALF_LIFE, LEAST_SPREAD = 400.0, 100.0
LEARNING_PULLS, LEARNING_CYCLE = 20, 5
DEGREES, RETURN, CLOCK_DISCOUNT, CLOCK_WORST = 8.0, 0.9, 0.995, 20.0
LEAST_STEP, MOST_STEP, LEAST_PACE, MOST_PACE = 0.2, 30.0, 0.02, 400.0
CALIBRATION, MOST_SQUARE = 0.02, 16.0
TRUSTED = 4
FIRST_PRICE, SETTLING, HORIZON, FADING = 0.05, 100, 250.0, 0.999
RISING_TIME, FALLING_TIME, RECENT, EASE, LARGEST_ERROR = 100.0, 200.0, 100.0, 0.25, 1.5
LOWEST_COMMON, HIGHEST_COMMON = -12.0, 8.0
OWN_STEP, OWN_REACH = 0.15, 8.0
NEGLIGIBLE, UNLIKELY = 1e-7, 1e-3


@compiled
def tail(x: float) -> float:
    """The chance that a standard normal is beyond √2·x, to a relative 1.2e-7: ½·erfc, three times as fast.

    A rational Chebyshev fit of Press et al., Numerical Recipes, 6.2.

    >>> abs(tail(1.5) / (0.5 * math.erfc(1.5)) - 1) < 2e-7
    True
    """
    t = 1.0 / (1.0 + 0.5 * abs(x))
    inner = -0.82215223 + t * 0.17087277
    inner = 1.48851587 + t * inner
    inner = -1.13520398 + t * inner
    inner = 0.27886807 + t * inner
    inner = -0.18628806 + t * inner
    inner = 0.09678418 + t * inner
    inner = 0.37409196 + t * inner
    inner = 1.00002368 + t * inner
    half = 0.5 * t * math.exp(-x * x - 1.26551223 + t * inner)
    return half if x >= 0.0 else 1.0 - half


@compiled
def risk(mean: float, variance: float, within: float) -> float:
    """The chance that a normal error is beyond the bound.

    >>> round(risk(0.0, 1.0, 1.96), 3)
    0.05
    """
    if variance <= 0.0:
        return 1.0 if abs(mean) > within else 0.0
    scale = math.sqrt(2.0 * variance)
    return tail((within - mean) / scale) + tail((within + mean) / scale)


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
def gain_of(
    item: int,
    first: Integers,
    holder: Integers,
    place: Integers,
    weights: Floats,
    within: Floats,
    price: Floats,
    chance: Floats,
    query_mean: Floats,
    query_variance: Floats,
    mean: float,
    variance: float,
) -> float:
    """By how much a pull would lower the cost of this tick: Σ price · (chance − chance with the item fresh)."""
    g = 0.0
    for h in range(first[item], first[item + 1]):
        q = holder[h]
        if chance[q] < NEGLIGIBLE:
            continue
        w = weights[place[h]]
        rest = max(query_variance[q] - w * w * variance, 1e-12 * query_variance[q])
        g += price[q] * (chance[q] - risk(query_mean[q] - w * mean, rest, within[q]))
    return g


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
    kept = np.zeros(queries)
    judged = np.zeros(queries)
    lost = np.zeros(queries)
    counted = np.zeros(queries)
    own = np.zeros(queries)
    base = np.zeros(queries)
    price = np.zeros(queries)
    common, recent, settled = 0.0, 1.0, 0
    for q in range(queries):
        base[q] = math.log(FIRST_PRICE * cost / (1.0 - fidelity[q]) / (len(items) / held))
        price[q] = math.exp(base[q]) if fixed_price <= 0.0 else fixed_price
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
                p = risk(a, b, within[q])
                kept[q] += 1.0 - p
                judged[q] += 1.0
                if tick < SETTLING:
                    continue
                allowed = 1.0 - fidelity[q]
                lost[q] = lost[q] * FADING + p
                counted[q] = counted[q] * FADING + 1.0
                wish = (allowed * (counted[q] + HORIZON) - lost[q]) / HORIZON / allowed
                ratio += p / allowed
                wanted += min(max(wish, 0.0), 2.0)
                own[q] = min(max(own[q] + OWN_STEP * (p - allowed), -OWN_REACH), OWN_REACH)
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
            for q in range(queries):
                a, b = 0.0, 0.0
                for k in range(starts[q], starts[q + 1]):
                    a += weights[k] * mean[items[k]]
                    b += weights[k] * weights[k] * variance[items[k]]
                query_mean[q] = a
                query_variance[q] = b
                chance[q] = risk(a, b, within[q])
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
                        query_variance[q] = max(query_variance[q] - w * w * variance[i], 0.0)
                        chance[q] = risk(query_mean[q], query_variance[q], within[q])
                    mean[i] = 0.0
                    variance[i] = 0.0
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
                        *(i, first, holder, place, weights, within, price, chance),
                        *(query_mean, query_variance, mean[i], variance[i]),
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
                                *(i, first, holder, place, weights, within, price, chance),
                                *(query_mean, query_variance, mean[i], variance[i]),
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
                    square = -1.0
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
                        score[i, e] = DISCOUNT * score[i, e] - 0.5 * math.log(v) - min(0.5 * missed / v, WORST)
                        scale[i, e] += max(RATE, 1.0 / learnt[i]) * (missed / spread - scale[i, e])
                    if square >= 0.0:
                        step = min(max((DEGREES + square) / (DEGREES + 1.0), LEAST_STEP), MOST_STEP)
                        for t in range(last[i] + 1, now + 1):
                            pace[t % size] = min(max(pace[t % size] * step, LEAST_PACE), MOST_PACE)
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
