"""Blocked sorted list: sorted blocks of entries under a directory, as in a two-level B+ tree.

Design
    An entry is (first, second, slot), in this order, and carries `width` more numbers. Entries stand in blocks of a
    fixed size, column by column; a block that is full is cut in two, one that runs empty is given back. The directory
    has the blocks in order and, beside each other, their first entries, so that a search reads a few lines of the
    directory and then one block. A block knows the greatest of each number that its entries carry: what cannot be in
    it is passed over without looking. There is nothing to merge later and nothing marked as dead: every answer is exact
    at once.

    A change (`block_changes`) moves half a block at most, and the directory (`block_directory`) once in half a block's
    worth of changes.

    `Packed` is a plain tuple of arrays, so that kernels can take it; `PackedOrder` in
    `slackwater.processing.matching.order` grows the arrays. `meta` holds the number of blocks in use, of blocks ever
    used, of blocks given back, and of entries.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

BLOCKS, EVER, FREE, ENTRIES = range(4)


class Packed(NamedTuple):
    """The arrays of a sorted list; blocks × entries unless noted."""

    first: Floats
    second: Floats
    slots: Integers
    carried: Floats
    """Blocks × width × entries."""
    tops: Floats
    """Blocks × width: the greatest of what the entries carry."""
    sizes: Integers
    order: Integers
    """The blocks in order: the directory, with the first entries of its blocks in the next three."""
    keys_first: Floats
    keys_second: Floats
    keys_slot: Integers
    free: Integers
    meta: Integers


@compiled
def find_block(packed: Packed, first: float, second: float, slot: int) -> int:
    """The place in the directory of the last block that begins at or before this entry; 0 where none does."""
    low, high = 0, packed.meta[0]
    while low < high:
        middle = (low + high) >> 1
        key = packed.keys_first[middle]
        if key < first:
            before = True
        elif key > first:
            before = False
        else:
            other = packed.keys_second[middle]
            before = other < second or (other == second and packed.keys_slot[middle] <= slot)
        if before:
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)


@compiled
def find_in_block(packed: Packed, block: int, first: float, second: float, slot: int) -> int:
    """How many entries of a block are before this entry."""
    low, high = 0, packed.sizes[block]
    while low < high:
        middle = (low + high) >> 1
        key = packed.first[block, middle]
        if key < first:
            before = True
        elif key > first:
            before = False
        else:
            other = packed.second[block, middle]
            before = other < second or (other == second and packed.slots[block, middle] < slot)
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def locate(packed: Packed, first: float, second: float, slot: int) -> tuple[int, int]:
    """Where the first entry at or after this one stands: place of its block and offset; place = blocks at the end."""
    if packed.meta[0] == 0:
        return 0, 0
    place = find_block(packed, first, second, slot)
    block = packed.order[place]
    offset = find_in_block(packed, block, first, second, slot)
    if offset == packed.sizes[block]:
        return place + 1, 0
    return place, offset


@compiled
def group_starts(packed: Packed, groups: Integers, places: Integers, offsets: Integers) -> None:
    """Where the entries of each group begin, in a list whose first number is a group."""
    for k in range(len(groups)):
        places[k], offsets[k] = locate(packed, groups[k], -np.inf, -1)


@compiled
def read_out(packed: Packed, first: Floats, second: Floats, slots: Integers, carried: Floats) -> None:
    """Write all entries, in order, to flat arrays."""
    k = 0
    for place in range(packed.meta[0]):
        block = packed.order[place]
        for j in range(packed.sizes[block]):
            first[k] = packed.first[block, j]
            second[k] = packed.second[block, j]
            slots[k] = packed.slots[block, j]
            for column in range(carried.shape[1]):
                carried[k, column] = packed.carried[block, column, j]
            k += 1
