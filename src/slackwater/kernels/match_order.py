"""Match order: what a probe found for each row, in any order of rows, brought into the order of rows."""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@compiled
def arrange(
    offsets: Integers, lengths: Integers, found: Integers, numbers: Integers, starts: Integers, out: Integers
) -> None:
    """Bring what was found, row by row somewhere, into the order of rows, as numbers in rising order."""
    at = 0
    for row in range(len(lengths)):
        starts[row] = at
        for k in range(lengths[row]):
            number = numbers[found[offsets[row] + k]]
            # A few at a time: put each where it belongs. Many: sort once.
            if lengths[row] <= 24:
                j = at + k
                while j > at and out[j - 1] > number:
                    out[j] = out[j - 1]
                    j -= 1
                out[j] = number
            else:
                out[at + k] = number
        if lengths[row] > 24:
            out[at : at + lengths[row]].sort()
        at += lengths[row]
    starts[len(lengths)] = at


@compiled
def interleave(offsets: Integers, lengths: Integers, found: Integers, places: Integers, out: Integers) -> None:
    """Copy what was found for each row to its place."""
    for row in range(len(lengths)):
        for k in range(lengths[row]):
            out[places[row] + k] = found[offsets[row] + k]
