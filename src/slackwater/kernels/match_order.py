"""Match order: what a probe found for each row, in any order of rows, brought into the order of rows.

The queries of a row are written in rising order of their numbers. Few are put where they belong one by one. Many that
are not in order yet are marked in a bitmap over the numbers from the least to the greatest found, which is then read:
two steps a query and one for 64 numbers. Numbers that lie far apart are sorted.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled, trailing_zeros

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_FEW = 24
_SPREAD = 2048
"""Numbers for each one found up to which a bitmap is quicker than sorting."""


@compiled
def arrange(
    offsets: Integers, lengths: Integers, found: Integers, numbers: Integers, starts: Integers, out: Integers
) -> None:
    """Bring what was found, row by row somewhere, into the order of rows, as numbers in rising order."""
    at = 0
    one, bits = np.uint64(1), np.zeros(0, np.uint64)
    for row in range(len(lengths)):
        starts[row] = at
        length, offset = lengths[row], offsets[row]
        if length <= _FEW:
            for k in range(length):
                number, j = numbers[found[offset + k]], at + k
                while j > at and out[j - 1] > number:
                    out[j] = out[j - 1]
                    j -= 1
                out[j] = number
            at += length
            continue
        least = most = former = numbers[found[offset]]
        falls = 0
        for k in range(length):
            number = numbers[np.uint64(found[np.uint64(offset + k)])]
            out[np.uint64(at + k)] = number
            falls += int(number < former)
            least, most, former = min(least, number), max(most, number), number
        if not falls:
            at += length
            continue
        # Of numbers so far apart that their difference overflows, it is negative.
        spread = most - least
        if not 0 <= spread < _SPREAD * length:
            out[at : at + length].sort()
            at += length
            continue
        if len(bits) <= spread >> 6:
            bits = np.zeros(2 * (spread >> 6) + 64, np.uint64)
        for k in range(at, at + length):
            number = np.uint64(out[np.uint64(k)] - least)
            bits[number >> np.uint64(6)] |= one << (number & np.uint64(63))
        for k in range((spread >> 6) + 1):
            word, first = bits[k], least + (k << 6)
            bits[k] = 0
            while word:
                out[np.uint64(at)] = first + trailing_zeros(word)
                at += 1
                word &= word - one
    starts[len(lengths)] = at


@compiled
def interleave(offsets: Integers, lengths: Integers, found: Integers, places: Integers, out: Integers) -> None:
    """Copy what was found for each row to its place."""
    for row in range(len(lengths)):
        for k in range(lengths[row]):
            out[places[row] + k] = found[offsets[row] + k]
