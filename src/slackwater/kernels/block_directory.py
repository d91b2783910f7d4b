"""Block directory of a sorted list: blocks taken into use and given back, their first entries and their maxima."""

import numpy as np

from slackwater.kernels.jit import compiled
from slackwater.kernels.sorted_blocks import Packed


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
