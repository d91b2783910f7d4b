"""Adaptive grid counts: sparse cells that coarsen by themselves, exact under merging.

Design
    Each slot (an item, an attribute) has a level and a number of occupied cells, at most `most`. When there are more,
    the slot goes up a level: neighbouring cells fall together. The level is the smallest that fits, not below what
    the largest thing seen asks for.

Mathematics
    Let f_L map a thing to its cell at level L, with f_{L+1} = up ∘ f_L. The number of occupied cells never grows with
    L and never falls when things are added. So the smallest level that fits a history is at least that of each of its
    pieces, and going up from the pieces' levels ends at exactly the level, and the counts, that the whole history
    would have had. Order and cuts do not matter.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slackwater.kernels.tallies import add_tallies
from slackwater.statistics.rules import Flags, Floats, Integers

KEY_BITS = 41
"""Keys are whole numbers from 0 to 2^41 − 1, so that slot and key fit into one number to sort by."""
LOWEST_DYADIC = -1022
"""The lowest level where widths are powers of two: the smallest normal double. A slot of zeros stays there."""

Up = Callable[[Integers, Integers], Integers]
"""(keys, how many levels each goes up) → keys."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells in order of (slot, key); `levels` has an entry for each slot."""

    levels: Integers
    slots: Integers
    keys: Integers
    weights: Floats

    @classmethod
    def empty(cls, levels: Integers) -> "Cells":
        """No cells at these levels."""
        return cls(levels, np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))

    def lengths(self) -> Integers:
        """How many cells each slot has."""
        return np.bincount(self.slots, minlength=len(self.levels)).astype(np.int64)

    def moved(self, places: Integers, lowest: Integers) -> "Cells":
        """The same cells with slot s renamed to `places[s]`, among slots that otherwise have level `lowest`."""
        levels = lowest.copy()
        levels[places] = self.levels
        same = np.array_equal(places, np.arange(len(places)))
        return Cells(levels, self.slots if same else places[self.slots], self.keys, self.weights)

    def faded(self, factors: Floats) -> "Cells":
        """All weights of a slot multiplied by its factor."""
        if np.all(factors == 1.0):
            return self
        return Cells(self.levels, self.slots, self.keys, self.weights * factors[self.slots])

    def raised(self, levels: Integers, up: Up) -> "Cells":
        """The same counts at levels that are not lower; cells may then occur twice until they are gathered."""
        if np.array_equal(levels, self.levels):
            return self
        return Cells(levels, self.slots, up(self.keys, (levels - self.levels)[self.slots]), self.weights)

    def fitted(self, most: int, up: Up) -> "Cells":
        """Gather equal cells, and go up where there are more than `most`."""
        cells = self.gathered()
        while True:
            crowded = cells.lengths() > most
            if not crowded.any():
                return cells
            cells = cells.raised(cells.levels + crowded, up).gathered()

    def gathered(self) -> "Cells":
        """Every cell once, in order."""
        packed = self._packed()
        if np.all(packed[1:] > packed[:-1]):
            return self
        if np.all(self.weights == 1.0):
            packed = np.sort(packed)
            starts = np.flatnonzero(_first_of_equals(packed))
            weights = np.diff(np.append(starts, len(packed))).astype(np.float64)
        else:
            order = np.argsort(packed, kind="stable")
            packed = packed[order]
            starts = np.flatnonzero(_first_of_equals(packed))
            weights = np.add.reduceat(self.weights[order], starts)
        return self._unpacked(packed[starts], weights)

    def __add__(self, other: "Cells") -> "Cells":
        if not np.array_equal(self.levels, other.levels):
            raise ValueError("cells are added at equal levels")
        one, more = self.gathered(), other.gathered()
        room = len(one.keys) + len(more.keys)
        packed, weights = np.empty(room, np.int64), np.empty(room)
        count = add_tallies(one._packed(), one.weights, more._packed(), more.weights, packed, weights)
        return self._unpacked(packed[:count], weights[:count])

    def _packed(self) -> Integers:
        return (self.slots << KEY_BITS) | self.keys

    def _unpacked(self, packed: Integers, weights: Floats) -> "Cells":
        return Cells(self.levels, packed >> KEY_BITS, packed & ((1 << KEY_BITS) - 1), weights)


def _first_of_equals(ordered: Integers) -> Flags:
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first
