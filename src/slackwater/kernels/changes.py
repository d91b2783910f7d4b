"""Change sums: moments of the differences between neighbouring ticks, item by item.

Design
    Ticks are grouped by item: rows `starts[g]..starts[g+1]−1` are those of item g, in order of time. A change spans
    two neighbouring ticks and belongs to the moment of the later one. It is a *gap* when the two are more than
    `longest_gap` apart; gaps are summed apart. With a half-life h (0: none) a change at t weighs 2^(−(T−t)/h), where
    T is the item's last tick in these rows, so that the sums are as at T.

`sum_changes` is compiled, `sum_changes_plainly` is its twin over Python values.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CHANGES, WEIGHT, ELAPSED, SUMDIFF, DRIFT, SQUARE, LARGEST, GAPS, GAP_WEIGHT, GAP_ELAPSED, GAP_SUMDIFF = range(11)
COLUMNS = 11
"""The columns of the sums. CHANGES, GAPS and LARGEST never fade; ELAPSED is in microseconds."""


@compiled
def sum_changes(
    starts: Integers, times: Integers, values: Floats, longest_gap: int, half_life: float, sums: Floats
) -> None:
    """Write the sums of item g to `sums[g]`, which must be zeros."""
    for g in range(len(starts) - 1):
        end = starts[g + 1]
        weight, elapsed, sumdiff, drift, square, largest = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        gaps, gap_weight, gap_elapsed, gap_sumdiff = 0, 0.0, 0.0, 0.0
        changes = 0
        for i in range(starts[g] + 1, end):
            step = times[i] - times[i - 1]
            change = values[i] - values[i - 1]
            size = abs(change)
            w = 1.0
            if half_life > 0.0:
                w = 2.0 ** (-(times[end - 1] - times[i]) / half_life)
            if step > longest_gap:
                gaps += 1
                gap_weight += w
                gap_elapsed += w * step
                gap_sumdiff += w * size
            else:
                changes += 1
                weight += w
                elapsed += w * step
                sumdiff += w * size
                drift += w * change
                square += w * change * change
                largest = max(largest, size)
        sums[g, 0] = changes
        sums[g, 1] = weight
        sums[g, 2] = elapsed
        sums[g, 3] = sumdiff
        sums[g, 4] = drift
        sums[g, 5] = square
        sums[g, 6] = largest
        sums[g, 7] = gaps
        sums[g, 8] = gap_weight
        sums[g, 9] = gap_elapsed
        sums[g, 10] = gap_sumdiff


def sum_changes_plainly(
    times: Sequence[int], values: Sequence[float], longest_gap: int, half_life: float
) -> list[float]:
    """The sums of one item.

    >>> sum_changes_plainly([0, 10, 20, 99], [1.0, 4.0, 2.0, 9.0], 50, 0.0)
    [2, 2.0, 20.0, 5.0, 1.0, 13.0, 3.0, 1, 1.0, 79.0, 7.0]
    """
    small: list[tuple[float, int, float]] = []
    wide: list[tuple[float, int, float]] = []
    for i in range(1, len(times)):
        weight = 2.0 ** (-(times[-1] - times[i]) / half_life) if half_life else 1.0
        step = times[i] - times[i - 1]
        (wide if step > longest_gap else small).append((weight, step, values[i] - values[i - 1]))
    return [
        len(small),
        sum((w for w, _, _ in small), 0.0),
        sum((w * step for w, step, _ in small), 0.0),
        sum((w * abs(change) for w, _, change in small), 0.0),
        sum((w * change for w, _, change in small), 0.0),
        sum((w * change * change for w, _, change in small), 0.0),
        max((abs(change) for _, _, change in small), default=0.0),
        len(wide),
        sum((w for w, _, _ in wide), 0.0),
        sum((w * step for w, step, _ in wide), 0.0),
        sum((w * abs(change) for w, _, change in wide), 0.0),
    ]
