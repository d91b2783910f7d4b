"""Open-addressing hash table: the caller's numbers mapped to small ones in two flat arrays.

Open addressing with linear probing; the places are a power of two, at most seven tenths full. Deleting moves later
entries of the same run back, so that nothing is ever marked as dead. `places` has −1 where there is nothing.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]


@compiled
def home(key: int, mask: int) -> int:
    """Where a key would like to stand (Fibonacci hashing; numbers that follow each other do not crowd)."""
    mixed = np.uint64(key) * np.uint64(11400714819323198485)
    return int(np.int64(mixed >> np.uint64(20)) & mask)


@compiled
def look_up(keys: Integers, places: Integers, wanted: Integers, out: Integers) -> int:
    """Write the small number of each key, −1 for a key that is not there; returns how many are there."""
    mask, found = len(keys) - 1, 0
    for k in range(len(wanted)):
        at = home(wanted[k], mask)
        out[k] = -1
        while places[at] >= 0:
            if keys[at] == wanted[k]:
                out[k] = places[at]
                found += 1
                break
            at = (at + 1) & mask
    return found


@compiled
def put(keys: Integers, places: Integers, new: Integers, numbers: Integers) -> None:
    """Enter keys that are not there; the caller has made room."""
    mask = len(keys) - 1
    for k in range(len(new)):
        at = home(new[k], mask)
        while places[at] >= 0:
            at = (at + 1) & mask
        keys[at] = new[k]
        places[at] = numbers[k]


@compiled
def take_out(keys: Integers, places: Integers, gone: Integers) -> None:
    """Forget keys that are there."""
    mask = len(keys) - 1
    for k in range(len(gone)):
        at = home(gone[k], mask)
        while keys[at] != gone[k] or places[at] < 0:
            at = (at + 1) & mask
        hole = at
        while True:
            at = (at + 1) & mask
            if places[at] < 0:
                break
            # An entry may move into the hole unless that is before its home.
            wanted = home(keys[at], mask)
            if ((at - wanted) & mask) >= ((at - hole) & mask):
                keys[hole], places[hole] = keys[at], places[at]
                hole = at
        places[hole] = -1
