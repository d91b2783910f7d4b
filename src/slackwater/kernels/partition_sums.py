"""Partition sums: the least Σ over the partitions of each set, by a programme over subsets, 3ⁿ/2 steps in all.

f(S) = min over the parts T of S that hold S's lowest item of b_T + f(S − T). `lowest_sum_plainly` is the twin.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@compiled
def lowest_sum(values: Floats, sums: Floats, choices: Integers) -> None:
    """Write the least Σ `values` over the partitions of each set, and the part that holds its lowest item."""
    sums[0] = 0.0
    for whole in range(1, len(values)):
        low = whole & -whole
        others = whole ^ low
        best, choice = np.inf, 0
        some = others
        while True:
            total = values[low | some] + sums[others ^ some]
            if total < best:
                best, choice = total, low | some
            if some == 0:
                break
            some = (some - 1) & others
        sums[whole] = best
        choices[whole] = choice


@compiled
def follow_choices(choices: Integers, whole: int, parts: Integers) -> int:
    """Follow the choices; return the number of parts."""
    count = 0
    while whole:
        part = choices[whole]
        if part == 0:
            return 0
        parts[count] = part
        count += 1
        whole ^= part
    return count


def lowest_sum_plainly(values: Mapping[int, float], whole: int) -> float:
    """The least Σ `values` over the partitions of a set into parts that have one.

    >>> lowest_sum_plainly({0b01: 2.0, 0b10: 2.0, 0b11: 3.0}, 0b11)
    3.0
    """
    if whole == 0:
        return 0.0
    low = whole & -whole
    fitting = [part for part in values if part & low and part & whole == part]
    return min((values[part] + lowest_sum_plainly(values, whole ^ part) for part in fitting), default=float("inf"))
