"""Adjacency lists in one arena: the queries of each item with the item's weight, growing and shrinking in place.

Design
    All lists live in one arena. List i occupies `rooms[i]` places from `starts[i]` on, of which `lengths[i]` are used.
    A list that is full moves to the end of the arena with twice the room, so adding costs a constant on average and
    every list can be read in one sweep. Removing puts the last entry into the gap: the order in a list means nothing.
    What moving leaves behind is won back by `pack`. Beside every entry stands a factor, in an arena of its own.

`linked_plainly` is its twin over dictionaries of sets.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Entries = npt.NDArray[np.int32]

FIRST_ROOM = 4


@compiled
def link(
    starts: Integers,
    lengths: Integers,
    rooms: Integers,
    arena: Entries,
    factors: Floats,
    top: int,
    items: Integers,
    own: Floats,
    entries: Entries,
) -> tuple[int, int]:
    """Add an entry to the list of each of these items, with a factor of its own; stops where the arena is full.

    Returns the new top of the arena and how many items were served.
    """
    for k in range(len(items)):
        item = items[k]
        length = lengths[item]
        if length == rooms[item]:
            room = max(FIRST_ROOM, 2 * length)
            if top + room > len(arena):
                return top, k
            start = starts[item]
            for at in range(length):
                arena[top + at] = arena[start + at]
                factors[top + at] = factors[start + at]
            starts[item] = top
            rooms[item] = room
            top += room
        arena[starts[item] + length] = entries[k]
        factors[starts[item] + length] = own[k]
        lengths[item] = length + 1
    return top, len(items)


@compiled
def unlink(starts: Integers, lengths: Integers, arena: Entries, factors: Floats, items: Integers, entry: int) -> None:
    """Take an entry out of the lists of these items."""
    for k in range(len(items)):
        item = items[k]
        start = starts[item]
        last = start + lengths[item] - 1
        for at in range(start, last + 1):
            if arena[at] == entry:
                arena[at] = arena[last]
                factors[at] = factors[last]
                lengths[item] -= 1
                break


@compiled
def link_all(
    starts: Integers, lengths: Integers, arena: Entries, factors: Floats, items: Integers, own: Floats, entries: Entries
) -> None:
    """Add many entries, each to one list that has room for it."""
    for k in range(len(items)):
        at = starts[items[k]] + lengths[items[k]]
        arena[at], factors[at] = entries[k], own[k]
        lengths[items[k]] += 1


@compiled
def pack(
    starts: Integers,
    lengths: Integers,
    rooms: Integers,
    arena: Entries,
    factors: Floats,
    packed: Entries,
    packed_factors: Floats,
) -> int:
    """Copy all lists to another arena, side by side and with a little room; returns its top."""
    top = 0
    for item in range(len(starts)):
        length = lengths[item]
        for at in range(length):
            packed[top + at] = arena[starts[item] + at]
            packed_factors[top + at] = factors[starts[item] + at]
        starts[item] = top
        rooms[item] = length + length // 4 if length else 0
        top += rooms[item]
    return top


class Adjacency:
    """The lists, and the arena that grows with them."""

    def __init__(self) -> None:
        self.starts: Integers = np.zeros(0, np.int64)
        self.lengths: Integers = np.zeros(0, np.int64)
        self.rooms: Integers = np.zeros(0, np.int64)
        self.arena: Entries = np.zeros(1024, np.int32)
        self.factors: Floats = np.zeros(1024)
        self._top = 0

    def reach(self, items: int) -> None:
        """Make room for a list of every item below this number."""
        if items > len(self.starts):
            more = np.zeros(max(items, 2 * len(self.starts)) - len(self.starts), np.int64)
            self.starts = np.concatenate([self.starts, more])
            self.lengths = np.concatenate([self.lengths, more])
            self.rooms = np.concatenate([self.rooms, more])

    def add(self, items: Integers, factors: Floats, entries: Entries) -> None:
        """Add an entry to the list of each of these items, with a factor of its own."""
        while len(items):
            self._top, served = link(
                self.starts, self.lengths, self.rooms, self.arena, self.factors, self._top, items, factors, entries
            )
            items, factors, entries = items[served:], factors[served:], entries[served:]
            if len(items):
                self._make_room(int(2 * self.lengths[items[0]]) + FIRST_ROOM)

    def fill(self, items: Integers, factors: Floats, entries: Entries) -> None:
        """Add entry k to the list of item k, for all of them at once; the lists are empty so far."""
        self.rooms = np.bincount(items, minlength=len(self.starts))
        self.starts = np.cumsum(self.rooms) - self.rooms
        self._top = len(items)
        self.arena = np.zeros(max(len(items), len(self.arena)), np.int32)
        self.factors = np.zeros(len(self.arena))
        link_all(self.starts, self.lengths, self.arena, self.factors, items, factors, entries)

    def remove(self, items: Integers, entry: int) -> None:
        """Take an entry out of the lists of these items."""
        unlink(self.starts, self.lengths, self.arena, self.factors, items, entry)

    def _make_room(self, needed: int) -> None:
        used = int(self.lengths.sum())
        room = max(len(self.arena), 2 * (used + used // 4) + needed)
        arena, factors = np.zeros(room, np.int32), np.zeros(room)
        self._top = pack(self.starts, self.lengths, self.rooms, self.arena, self.factors, arena, factors)
        self.arena, self.factors = arena, factors


def linked_plainly(steps: list[tuple[bool, list[int], int]]) -> dict[int, set[int]]:
    """The lists after adding (True) and removing (False) entries.

    >>> linked_plainly([(True, [0, 1], 7), (True, [1], 8), (False, [1], 7)])
    {0: {7}, 1: {8}}
    """
    lists: dict[int, set[int]] = {}
    for adding, items, entry in steps:
        for item in items:
            if adding:
                lists.setdefault(item, set()).add(entry)
            else:
                lists[item].discard(entry)
    return lists
