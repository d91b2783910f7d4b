"""Tally merge: two tallies in order of key added in one pass.

`add_tallies` is compiled, `add_tallies_plainly` is its twin over dictionaries.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@compiled
def add_tallies(
    keys: Integers, weights: Floats, more_keys: Integers, more_weights: Floats, out_keys: Integers, out_weights: Floats
) -> int:
    """Write every key once, in order, with the sum of its weights, and return how many there are.

    Keys of each tally must increase; there must be room for all of both.
    """
    i, j, count = 0, 0, 0
    while i < len(keys) or j < len(more_keys):
        if j == len(more_keys) or (i < len(keys) and keys[i] < more_keys[j]):
            out_keys[count] = keys[i]
            out_weights[count] = weights[i]
            i += 1
        elif i == len(keys) or more_keys[j] < keys[i]:
            out_keys[count] = more_keys[j]
            out_weights[count] = more_weights[j]
            j += 1
        else:
            out_keys[count] = keys[i]
            out_weights[count] = weights[i] + more_weights[j]
            i += 1
            j += 1
        count += 1
    return count


def add_tallies_plainly(one: dict[int, float], other: dict[int, float]) -> dict[int, float]:
    """The sum of two tallies, in order of key.

    >>> add_tallies_plainly({1: 2.0, 5: 1.0}, {3: 1.0, 5: 4.0})
    {1: 2.0, 3: 1.0, 5: 5.0}
    """
    return {key: one.get(key, 0.0) + other.get(key, 0.0) for key in sorted({*one, *other})}
