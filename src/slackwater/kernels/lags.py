"""Lag moments: moments of an item's values and of its lagged pairs (x_{t−k}, x_t), item by item.

Design
    Rows are grouped by item and in order of time. A run is a stretch of ticks without a gap; the pair of lag k counts
    only when both ends lie in one run. Two passes, first the means and then the sums around them, so that values far
    from zero, or one far from the others, cost no digits. Weights fade as in `changes`: a value and a pair belong to
    the moment of the (later) tick.

    What a later or earlier piece needs to count the pairs across the seam is kept too: up to L values from the front
    of the first run with their times (`head`), and up to L values from the end of the last run, the last one first
    (`tail`).

`sum_lags` is compiled, `sum_lags_plainly` is its twin over Python values.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

WEIGHT, MEAN, CENTRED, LOW, HIGH = range(5)
PAIR_WEIGHT, MEAN_BEFORE, MEAN_AFTER, BEFORE_BEFORE, BEFORE_AFTER, AFTER_AFTER = range(6)


@compiled
def sum_lags(
    starts: Integers,
    times: Integers,
    values: Floats,
    longest_gap: int,
    half_life: float,
    sums: Floats,
    pairs: Floats,
    head: Floats,
    head_times: Integers,
    tail: Floats,
    lengths: Integers,
) -> None:
    """Write item g's moments to `sums[g]`, the pairs of lag k to `pairs[g, k−1]`; all outputs must be zeros.

    `lengths[g]` becomes (gaps, values in `head[g]`, values in `tail[g]`).
    """
    lags = pairs.shape[1]
    for g in range(len(starts) - 1):
        start, end = starts[g], starts[g + 1]
        origin = values[start]
        total, first = 0.0, 0.0
        low, high = origin, origin
        gaps, run = 0, 0
        for i in range(start, end):
            if i > start and times[i] - times[i - 1] > longest_gap:
                gaps += 1
                run = 0
            w = 1.0
            if half_life > 0.0:
                w = 2.0 ** (-(times[end - 1] - times[i]) / half_life)
            value = values[i]
            low = min(low, value)
            high = max(high, value)
            total += w
            first += w * (value - origin)
            for k in range(min(run, lags)):
                pairs[g, k, 0] += w
                pairs[g, k, 1] += w * (values[i - 1 - k] - origin)
                pairs[g, k, 2] += w * (value - origin)
            if gaps == 0 and run < lags:
                head[g, run] = value
                head_times[g, run] = times[i]
                lengths[g, 1] = run + 1
            run += 1
        mean = origin + first / total
        for k in range(lags):
            if pairs[g, k, 0] > 0.0:
                pairs[g, k, 1] = origin + pairs[g, k, 1] / pairs[g, k, 0]
                pairs[g, k, 2] = origin + pairs[g, k, 2] / pairs[g, k, 0]
        lengths[g, 0] = gaps
        lengths[g, 2] = min(run, lags)
        for k in range(min(run, lags)):
            tail[g, k] = values[end - 1 - k]
        centred = 0.0
        run = 0
        for i in range(start, end):
            if i > start and times[i] - times[i - 1] > longest_gap:
                run = 0
            w = 1.0
            if half_life > 0.0:
                w = 2.0 ** (-(times[end - 1] - times[i]) / half_life)
            value = values[i]
            centred += w * (value - mean) * (value - mean)
            for k in range(min(run, lags)):
                before = values[i - 1 - k] - pairs[g, k, 1]
                after = value - pairs[g, k, 2]
                pairs[g, k, 3] += w * before * before
                pairs[g, k, 4] += w * before * after
                pairs[g, k, 5] += w * after * after
            run += 1
        sums[g, 0] = total
        sums[g, 1] = mean
        sums[g, 2] = centred
        sums[g, 3] = low
        sums[g, 4] = high


def sum_lags_plainly(
    times: Sequence[int], values: Sequence[float], longest_gap: int, half_life: float, lags: int
) -> tuple[list[float], list[list[float]]]:
    """The moments of one item and of its pairs of lag 1..lags.

    >>> moments, pairs = sum_lags_plainly([0, 1, 2], [1.0, 2.0, 6.0], 10, 0.0, 1)
    >>> moments
    [3.0, 3.0, 14.0, 1.0, 6.0]
    >>> pairs
    [[2.0, 1.5, 4.0, 0.5, 2.0, 8.0]]
    """
    weights = [2.0 ** (-(times[-1] - time) / half_life) if half_life else 1.0 for time in times]
    mean = sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)
    centred = sum(w * (value - mean) ** 2 for w, value in zip(weights, values, strict=True))
    run = [0]
    for i in range(1, len(times)):
        run.append(run[-1] + (times[i] - times[i - 1] > longest_gap))
    pairs = []
    for k in range(1, lags + 1):
        found = [(weights[i], values[i - k], values[i]) for i in range(k, len(times)) if run[i - k] == run[i]]
        total = sum(w for w, _, _ in found)
        before = sum(w * x for w, x, _ in found) / total if total else 0.0
        after = sum(w * y for w, _, y in found) / total if total else 0.0
        pairs.append(
            [
                float(total),
                before,
                after,
                sum((w * (x - before) ** 2 for w, x, _ in found), 0.0),
                sum((w * (x - before) * (y - after) for w, x, y in found), 0.0),
                sum((w * (y - after) ** 2 for w, _, y in found), 0.0),
            ]
        )
    return [sum(weights), mean, centred, min(values), max(values)], pairs
