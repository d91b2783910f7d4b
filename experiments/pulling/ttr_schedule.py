"""Predicted-change scheduler, simulated: a whole run over a trace in one compiled loop.

Design
    Queries lie one after the other: items and weights of query q from `starts[q]` to `starts[q + 1]`. Every tick:
    step the chains, judge the tick that is `longest` + 1 past, at the end of a window move the safety factors,
    choose, pull, learn, compare errors with bounds. The plain twin is
    `planning.pulling.published.predicted_change.PredictedChange` with `MarkovModel` and one of the choices, driven
    tick by tick.
"""

import math

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

DATA_INCOHERENCY, POSITIVE_NEGATIVE, LARGEST, LARGEST_FOR_MANY = range(4)


@compiled
def query_error(starts: Integers, items: Integers, weights: Floats, q: int, changes: Floats) -> float:
    """Σ w·change over the items of a query, in their order."""
    total = 0.0
    for k in range(starts[q], starts[q + 1]):
        total += weights[k] * changes[items[k]]
    return total


@compiled
def choose(
    choice: int,
    ratio: float,
    starts: Integers,
    items: Integers,
    weights: Floats,
    limits: Floats,
    changes: Floats,
    chosen: Integers,
) -> None:
    """Set `chosen[i]` to 1 for the items to pull; `changes` is used up on the way."""
    queries = len(limits)
    if choice == 0:
        for q in range(queries):
            n = starts[q + 1] - starts[q]
            whole = 0.0
            for k in range(starts[q], starts[q + 1]):
                whole += abs(weights[k])
            for k in range(starts[q], starts[q + 1]):
                w = abs(weights[k])
                bound = limits[q] / w if n == 1 else limits[q] * (whole - w) / (whole * w * (n - 1))
                if abs(changes[items[k]]) > bound:
                    chosen[items[k]] = 1
    elif choice == 1:
        for q in range(queries):
            error = query_error(starts, items, weights, q, changes)
            while abs(error) > limits[q]:
                side = 1.0 if error > 0 else -1.0
                best, largest = -1, 0.0
                for k in range(starts[q], starts[q + 1]):
                    contribution = side * weights[k] * changes[items[k]]
                    if largest < contribution < side * error:
                        best, largest = items[k], contribution
                if best < 0:
                    for k in range(starts[q], starts[q + 1]):
                        if side * weights[k] * changes[items[k]] > 0:
                            chosen[items[k]] = 1
                            changes[items[k]] = 0.0
                    break
                chosen[best] = 1
                changes[best] = 0.0
                error = query_error(starts, items, weights, q, changes)
    elif choice == 2:
        for q in range(queries):
            if abs(query_error(starts, items, weights, q, changes)) <= limits[q]:
                continue
            most = 0.0
            for k in range(starts[q], starts[q + 1]):
                most = max(most, abs(weights[k] * changes[items[k]]))
            for k in range(starts[q], starts[q + 1]):
                if changes[items[k]] != 0.0 and abs(weights[k] * changes[items[k]]) >= ratio * most:
                    chosen[items[k]] = 1
                    changes[items[k]] = 0.0
    else:
        broken = False
        for q in range(queries):
            if abs(query_error(starts, items, weights, q, changes)) > limits[q]:
                broken = True
                break
        if not broken:
            return
        sums = np.zeros(len(changes))
        for k in range(len(items)):
            sums[items[k]] += weights[k]
        most = 0.0
        for i in range(len(changes)):
            most = max(most, abs(changes[i] * sums[i]))
        for i in range(len(changes)):
            each = abs(changes[i] * sums[i])
            if each > 0.0 and each >= ratio * most:
                chosen[i] = 1


@compiled
def simulate(
    trace: Floats,
    starts: Integers,
    items: Integers,
    weights: Floats,
    within: Floats,
    fidelity: Floats,
    spacings: Floats,
    choice: int,
    ratio: float,
    reach: int,
    prior: float,
    smoothing: float,
    literal: bool,
    uniforms: Floats,
    window: int,
    first_gamma: float,
    learning_rate: float,
    fixed: float,
    longest: int,
    warm: int,
    pulls: Integers,
    broken: Integers,
    errors: Floats,
    over_time: Integers,
    estimated: Floats,
) -> None:
    """Count pulls by item, and ticks outside the bound and Σ|error| / B by query, from tick `warm` on.

    `uniforms` has a row for each tick where steps are drawn, and none where the expectation is taken. `fixed` above 0
    keeps the safety factor there.
    """
    ticks, n = trace.shape
    queries = len(within)
    states = 2 * reach + 1
    size = longest + 2
    draw = len(uniforms) > 0
    held = np.zeros(n, np.int64)
    for k in range(len(items)):
        held[items[k]] = 1
    counts = np.zeros((n, states, states))
    state = np.full(n, reach, np.int64)
    place = np.full(n, reach, np.int64)
    weight = np.zeros((n, states))
    weight[:, reach] = 1.0
    stepped = np.zeros(states)
    correction, chain, change = np.zeros(n), np.zeros(n), np.zeros(n)
    value = np.zeros(n)
    last = np.full(n, -1, np.int64)
    off = np.full((n, size), np.nan)
    kept, counted = np.zeros(queries), np.zeros(queries)
    factor = np.full(queries, fixed if fixed > 0.0 else 1.0)
    gamma = np.full(queries, first_gamma)
    difference = np.zeros(queries)
    limits, changes = np.zeros(queries), np.zeros(n)
    chosen = np.zeros(n, np.int64)
    for now in range(ticks):
        for i in range(n):
            step = 0.0
            if draw:
                step = (place[i] - reach) * spacings[i]
                total = prior
                for y in range(states):
                    total += counts[i, place[i], y]
                left = uniforms[now, i] * total
                drawn = reach
                for y in range(states):
                    left -= counts[i, place[i], y] + (prior if y == reach else 0.0)
                    if left < 0.0:
                        drawn = y
                        break
                place[i] = drawn
            else:
                for x in range(states):
                    step += weight[i, x] * (x - reach)
                step *= spacings[i]
                stepped[:] = 0.0
                for x in range(states):
                    if weight[i, x] == 0.0:
                        continue
                    total = prior
                    for y in range(states):
                        total += counts[i, x, y]
                    share = weight[i, x] / total
                    for y in range(states):
                        stepped[y] += share * counts[i, x, y]
                    stepped[reach] += share * prior
                weight[i] = stepped
            chain[i] += step
            change[i] += step + correction[i]
        tick = now - longest - 1
        if tick >= 0:
            slot = tick % size
            for q in range(queries):
                error = 0.0
                for k in range(starts[q], starts[q + 1]):
                    error += weights[k] * off[items[k], slot]
                if error == error:
                    counted[q] += 1.0
                    if abs(error) <= within[q]:
                        kept[q] += 1.0
            for i in range(n):
                off[i, slot] = np.nan
        if now > 0 and now % window == 0 and fixed <= 0.0:
            for q in range(queries):
                if counted[q] <= 0.0:
                    continue
                found = 100.0 * (kept[q] / counted[q] - fidelity[q])
                factor[q] = min(max(factor[q] * math.exp(gamma[q] * found), 1e-3), 1e3)
                gamma[q] = gamma[q] / learning_rate if found * difference[q] > 0.0 else gamma[q] * learning_rate
                difference[q] = found
        for i in range(n):
            chosen[i] = 0
            changes[i] = change[i]
            if held[i] == 1 and (last[i] < 0 or now - last[i] >= longest):
                chosen[i] = 1
                changes[i] = 0.0
        for q in range(queries):
            limits[q] = factor[q] * within[q]
        choose(choice, ratio, starts, items, weights, limits, changes, chosen)
        for i in range(n):
            if chosen[i] == 0:
                continue
            new = trace[now, i]
            if now >= warm:
                pulls[i] += 1
            if last[i] >= 0:
                passed = now - last[i]
                moved = new - value[i]
                y = min(max(math.floor(moved / passed / spacings[i] + 0.5), -reach), reach) + reach
                counts[i, state[i], y] += 1.0
                counts[i, y, y] += passed - 1.0
                missed = moved - (change[i] if literal else chain[i])
                correction[i] = smoothing * missed / passed + (1.0 - smoothing) * correction[i]
                state[i] = y
                for t in range(last[i] + 1, now):
                    off[i, t % size] = moved * (t - last[i]) / passed
            off[i, now % size] = 0.0
            place[i] = state[i]
            chain[i] = 0.0
            change[i] = 0.0
            weight[i, :] = 0.0
            weight[i, state[i]] = 1.0
            value[i] = new
            last[i] = now
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
        estimated[q] = kept[q] / counted[q] if counted[q] > 0.0 else np.nan
