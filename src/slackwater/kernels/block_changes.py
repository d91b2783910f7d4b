"""Insertion and deletion in a sorted list of blocks: a full block is cut in two, nearly empty neighbours become one."""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.block_directory import close_place, copy_entries, open_place, refresh_key, refresh_top
from slackwater.kernels.jit import compiled
from slackwater.kernels.sorted_blocks import Packed, find_block, find_in_block

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


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
