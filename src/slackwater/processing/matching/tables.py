"""Slot tables: rows and queries in columns, looked up by the slot that an index returns."""

import numpy as np

from slackwater.core.errors import MatchingError
from slackwater.kernels.id_table import look_up, put, take_out
from slackwater.processing.base import Floats, Integers


class SlotTable:
    """Which slot a number has; slots that are given back are given out again.

    >>> slots = SlotTable("query")
    >>> slots.give(np.array([70, -5])).tolist(), slots.find(np.array([-5])).tolist()
    ([0, 1], [1])
    >>> slots.take(np.array([70])).tolist(), slots.give(np.array([8, 9])).tolist()
    ([0], [0, 2])
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._keys, self._places = np.zeros(16, np.int64), np.full(16, -1, np.int64)
        self._free, self._spare = np.zeros(0, np.int64), 0
        """Slots given back, with their count, so that taking thousands one at a time copies nothing."""
        self._count = 0
        self.ever = 0
        """How many slots there have ever been: every slot is below this."""

    def __len__(self) -> int:
        return self._count

    def find(self, numbers: Integers) -> Integers:
        """The slots of numbers that are there."""
        out = np.empty(len(numbers), np.int64)
        if look_up(self._keys, self._places, numbers, out) != len(numbers):
            raise MatchingError(f"{self._what} {numbers[out < 0][0]} is not there")
        return out

    def give(self, numbers: Integers) -> Integers:
        """Slots for numbers that are not there yet, each once; refused as a whole otherwise."""
        out = np.empty(len(numbers), np.int64)
        if look_up(self._keys, self._places, numbers, out):
            raise MatchingError(f"{self._what} {numbers[out >= 0][0]} is there already: take it away first")
        self._once(numbers)
        again = min(self._spare, len(numbers))
        fresh = len(numbers) - again
        self._spare -= again
        slots = np.concatenate((self._free[self._spare : self._spare + again], np.arange(self.ever, self.ever + fresh)))
        self.ever += fresh
        self._count += len(numbers)
        if self._count * 10 > len(self._keys) * 7:
            self._grow()
        put(self._keys, self._places, numbers, slots)
        return slots

    def take(self, numbers: Integers) -> Integers:
        """Give the slots of numbers back; refused as a whole if one is not there."""
        slots = self.find(numbers)
        self._once(numbers)
        take_out(self._keys, self._places, numbers)
        self._free = grown_integers(self._free, self._spare + len(slots))
        self._free[self._spare : self._spare + len(slots)] = slots
        self._spare += len(slots)
        self._count -= len(numbers)
        return slots

    def all(self) -> Integers:
        """The slots in use, in rising order."""
        return np.sort(self._places[self._places >= 0])

    def _once(self, numbers: Integers) -> None:
        if len(numbers) > 1:
            ordered = np.sort(numbers)
            twice = ordered[1:][ordered[1:] == ordered[:-1]]
            if len(twice):
                raise MatchingError(f"{self._what} {twice[0]} stands twice in one batch")

    def _grow(self) -> None:
        there = self._places >= 0
        keys, places = self._keys[there], self._places[there]
        size = len(self._keys)
        while self._count * 10 > size * 7:
            size *= 2
        self._keys, self._places = np.zeros(size, np.int64), np.full(size, -1, np.int64)
        put(self._keys, self._places, keys, places)


def grown(column: Floats, size: int) -> Floats:
    """The column with room for at least `size` slots."""
    if len(column) >= size:
        return column
    larger = np.zeros((max(size, len(column) * 3 // 2), *column.shape[1:]), column.dtype)
    larger[: len(column)] = column
    return larger


def grown_integers(column: Integers, size: int) -> Integers:
    """The same for whole numbers."""
    if len(column) >= size:
        return column
    larger = np.zeros(max(size, len(column) * 3 // 2), np.int64)
    larger[: len(column)] = column
    return larger


class RowTable:
    """The rows of one side."""

    def __init__(self, attributes: int) -> None:
        self.slots = SlotTable("row")
        self.ids = np.zeros(0, np.int64)
        self.join = np.zeros(0)
        self.attributes = np.zeros((0, attributes))

    def add(self, ids: Integers, join: Floats, attributes: Floats) -> Integers:
        """Have rows; returns their slots."""
        slots = self.slots.give(ids)
        size = self.slots.ever
        self.ids, self.join = grown_integers(self.ids, size), grown(self.join, size)
        self.attributes = grown(self.attributes, size)
        self.ids[slots], self.join[slots], self.attributes[slots] = ids, join, attributes
        return slots


class QueryTable:
    """The standing joins: the band, and the ranges of the attributes of both sides, as low and high."""

    def __init__(self, left: int, right: int) -> None:
        self.slots = SlotTable("query")
        self.numbers = np.zeros(0, np.int64)
        self.low, self.high = np.zeros(0), np.zeros(0)
        self.lows = (np.zeros((0, left)), np.zeros((0, right)))
        self.highs = (np.zeros((0, left)), np.zeros((0, right)))

    def __len__(self) -> int:
        return len(self.slots)

    def add(
        self, numbers: Integers, low: Floats, high: Floats, lows: tuple[Floats, Floats], highs: tuple[Floats, Floats]
    ) -> Integers:
        """Have queries; returns their slots."""
        slots = self.slots.give(numbers)
        size = self.slots.ever
        self.numbers = grown_integers(self.numbers, size)
        self.low, self.high = grown(self.low, size), grown(self.high, size)
        self.lows = (grown(self.lows[0], size), grown(self.lows[1], size))
        self.highs = (grown(self.highs[0], size), grown(self.highs[1], size))
        self.numbers[slots], self.low[slots], self.high[slots] = numbers, low, high
        for side in (0, 1):
            self.lows[side][slots], self.highs[side][slots] = lows[side], highs[side]
        return slots
