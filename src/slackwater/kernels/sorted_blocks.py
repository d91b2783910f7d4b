"""Blocked sorted list: sorted blocks of entries under a directory, as in a two-level B+ tree.

Design
    An entry is (first, second, slot), in this order, and carries `width` more numbers. Entries stand in blocks of a
    fixed size, column by column; a block that is full is cut in two, one that runs empty is given back. The directory
    has the blocks in order and, beside each other, their first entries, so that a search reads a few lines of the
    directory and then one block. A block knows the greatest of each number that its entries carry: what cannot be in
    it is passed over without looking. There is nothing to merge later and nothing marked as dead: every answer is exact
    at once.

    A change moves half a block at most, and the directory once in half a block's worth of changes.

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
def refresh_top(packed: Packed, block: int) -> None:
    """The greatest of what the entries of a block carry, anew."""
    for column in range(packed.carried.shape[1]):
        top = -np.inf
        for k in range(packed.sizes[block]):
            top = max(top, packed.carried[block, column, k])
        packed.tops[block, column] = top


@compiled
def refresh_key(packed: Packed, place: int) -> None:
    """The first entry of a block, anew in the directory."""
    block = packed.order[place]
    packed.keys_first[place] = packed.first[block, 0]
    packed.keys_second[place] = packed.second[block, 0]
    packed.keys_slot[place] = packed.slots[block, 0]


@compiled
def copy_entries(packed: Packed, source: int, start: int, end: int, target: int, at: int) -> None:
    """Copy entries of one block to another."""
    for k in range(end - start):
        packed.first[target, at + k] = packed.first[source, start + k]
        packed.second[target, at + k] = packed.second[source, start + k]
        packed.slots[target, at + k] = packed.slots[source, start + k]
    for column in range(packed.carried.shape[1]):
        for k in range(end - start):
            packed.carried[target, column, at + k] = packed.carried[source, column, start + k]


@compiled
def open_place(packed: Packed, place: int) -> None:
    """Put a new, empty block into the directory at this place."""
    meta = packed.meta
    if meta[2] > 0:
        meta[2] -= 1
        block = packed.free[meta[2]]
    else:
        block = meta[1]
        meta[1] += 1
    for k in range(meta[0], place, -1):
        packed.order[k] = packed.order[k - 1]
        packed.keys_first[k] = packed.keys_first[k - 1]
        packed.keys_second[k] = packed.keys_second[k - 1]
        packed.keys_slot[k] = packed.keys_slot[k - 1]
    packed.order[place] = block
    packed.sizes[block] = 0
    packed.tops[block] = -np.inf
    meta[0] += 1


@compiled
def close_place(packed: Packed, place: int) -> None:
    """Take the block at this place out of the directory."""
    meta = packed.meta
    block = packed.order[place]
    packed.sizes[block] = 0
    packed.free[meta[2]] = block
    meta[2] += 1
    meta[0] -= 1
    for k in range(place, meta[0]):
        packed.order[k] = packed.order[k + 1]
        packed.keys_first[k] = packed.keys_first[k + 1]
        packed.keys_second[k] = packed.keys_second[k + 1]
        packed.keys_slot[k] = packed.keys_slot[k + 1]


@compiled
def insert_entries(packed: Packed, first: Floats, second: Floats, slots: Integers, carried: Floats) -> None:
    """Insert entries; `carried` is entries × width. There must be room for a block more for each entry."""
    room = packed.first.shape[1]
    for k in range(len(first)):
        if packed.meta[0] == 0:
            open_place(packed, 0)
        place = find_block(packed, first[k], second[k], slots[k])
        block = packed.order[place]
        if packed.sizes[block] == room:
            open_place(packed, place + 1)
            half, new = room // 2, packed.order[place + 1]
            copy_entries(packed, block, half, room, new, 0)
            packed.sizes[new], packed.sizes[block] = room - half, half
            refresh_top(packed, block)
            refresh_top(packed, new)
            refresh_key(packed, place + 1)
            place = find_block(packed, first[k], second[k], slots[k])
            block = packed.order[place]
        at = find_in_block(packed, block, first[k], second[k], slots[k])
        for j in range(packed.sizes[block], at, -1):
            packed.first[block, j] = packed.first[block, j - 1]
            packed.second[block, j] = packed.second[block, j - 1]
            packed.slots[block, j] = packed.slots[block, j - 1]
        packed.first[block, at] = first[k]
        packed.second[block, at] = second[k]
        packed.slots[block, at] = slots[k]
        for column in range(carried.shape[1]):
            for j in range(packed.sizes[block], at, -1):
                packed.carried[block, column, j] = packed.carried[block, column, j - 1]
            packed.carried[block, column, at] = carried[k, column]
            packed.tops[block, column] = max(packed.tops[block, column], carried[k, column])
        packed.sizes[block] += 1
        packed.meta[3] += 1
        if at == 0:
            refresh_key(packed, place)


@compiled
def join_blocks(packed: Packed, place: int) -> None:
    """Make one block of this and the next where both together fill no more than half a block."""
    if place < 0 or place + 1 >= packed.meta[0]:
        return
    block, other = packed.order[place], packed.order[place + 1]
    size, more = packed.sizes[block], packed.sizes[other]
    if size + more > packed.first.shape[1] // 2:
        return
    copy_entries(packed, other, 0, more, block, size)
    packed.sizes[block] = size + more
    refresh_top(packed, block)
    close_place(packed, place + 1)


@compiled
def delete_entries(packed: Packed, first: Floats, second: Floats, slots: Integers) -> int:
    """Delete entries; returns how many were found."""
    found = 0
    for k in range(len(first)):
        if packed.meta[0] == 0:
            break
        place = find_block(packed, first[k], second[k], slots[k])
        block = packed.order[place]
        at = find_in_block(packed, block, first[k], second[k], slots[k])
        size = packed.sizes[block]
        if (
            at == size
            or packed.first[block, at] != first[k]
            or packed.second[block, at] != second[k]
            or packed.slots[block, at] != slots[k]
        ):
            continue
        found += 1
        packed.meta[3] -= 1
        if size == 1:
            close_place(packed, place)
            continue
        for j in range(at, size - 1):
            packed.first[block, j] = packed.first[block, j + 1]
            packed.second[block, j] = packed.second[block, j + 1]
            packed.slots[block, j] = packed.slots[block, j + 1]
        for column in range(packed.carried.shape[1]):
            was = packed.carried[block, column, at]
            for j in range(at, size - 1):
                packed.carried[block, column, j] = packed.carried[block, column, j + 1]
            if was == packed.tops[block, column]:
                packed.tops[block, column] = -np.inf
        packed.sizes[block] = size - 1
        for column in range(packed.carried.shape[1]):
            if packed.tops[block, column] == -np.inf:
                refresh_top(packed, block)
                break
        if at == 0:
            refresh_key(packed, place)
        if size - 1 <= packed.first.shape[1] // 8:
            join_blocks(packed, place)
            join_blocks(packed, place - 1)
    return found


@compiled
def fill_blocks(packed: Packed, first: Floats, second: Floats, slots: Integers, carried: Floats, fill: int) -> None:
    """Write sorted entries into an empty list, `fill` to a block."""
    count, place = len(first), 0
    for start in range(0, count, fill):
        end = min(start + fill, count)
        for k in range(start, end):
            packed.first[place, k - start] = first[k]
            packed.second[place, k - start] = second[k]
            packed.slots[place, k - start] = slots[k]
            for column in range(carried.shape[1]):
                packed.carried[place, column, k - start] = carried[k, column]
        packed.sizes[place] = end - start
        packed.order[place] = place
        refresh_top(packed, place)
        refresh_key(packed, place)
        place += 1
    packed.meta[0] = packed.meta[1] = place
    packed.meta[2] = 0
    packed.meta[3] = count


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


@compiled
def group_starts(packed: Packed, groups: Integers, places: Integers, offsets: Integers) -> None:
    """Where the entries of each group begin, in a list whose first number is a group."""
    for k in range(len(groups)):
        places[k], offsets[k] = locate(packed, groups[k], -np.inf, -1)
