"""Coordinate axis: values of one attribute as whole numbers and back, with open ends, nulls and categories.

Design
    The values of an axis are put in order. The k-th of K has coordinate 2k + 1, the gap before it 2k, the gap after the
    last 2K, and null 2K + 1. Every extent is then one range of coordinates or, for categories, several: an open end
    begins in the gap beside its value, an unbounded one in the outermost gap. A value that is not on the axis lies in
    a gap; what the extent holds of the values that are on it is right all the same. Values without an order (BOOLEAN)
    stand in any fixed one, since only sets of them are ever asked for. `all but these categories` is what lies between
    them, null excluded.

    The way back (`extents`) is for axes that hold every value that was asked for. It takes as few extents as there can
    be: one for each range that is not a single value, one for all single values together, one for everything but some
    values, one for null.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.types import Scalar


@dataclass(frozen=True, slots=True)
class Axis:
    """Some values of one attribute, in order, as coordinates."""

    column: str
    values: tuple[Scalar, ...]
    coordinate: Mapping[Scalar, int]

    @classmethod
    def of(cls, column: str, values: Iterable[Scalar]) -> "Axis":
        """Put values in order."""
        distinct = tuple(sorted(set(values), key=_key))
        return cls(column, distinct, {value: 2 * k + 1 for k, value in enumerate(distinct)})

    @property
    def null(self) -> int:
        """Where null is."""
        return 2 * len(self.values) + 1

    def at(self, value: Scalar | None) -> int:
        """The coordinate of a value, or of the gap it lies in.

        >>> axis = Axis.of("price", [3, 5])
        >>> [axis.at(value) for value in (1, 3, 4, 5, None)]
        [0, 1, 2, 3, 5]
        """
        if value is None:
            return self.null
        found = self.coordinate.get(value)
        if found is not None:
            return found
        try:
            return 2 * bisect_left(self.values, value)  # of one kind, or we hear of it
        except TypeError:
            return 2 * bisect_left(self.values, _key(value), key=_key)

    def value(self, coordinate: int) -> Scalar | None:
        """The value that has this coordinate."""
        return None if coordinate == self.null else self.values[coordinate // 2]

    def ranges(self, extent: Extent | None) -> list[tuple[int, int]]:
        """What an extent is in coordinates, as ranges that do not meet."""
        last = self.null - 1
        match extent:
            case None:
                return [(0, self.null)]
            case Missing():
                return [(self.null, self.null)]
            case Interval():
                # An open end that lies in a gap leaves out the gap: nothing of the axis is there.
                low = 0 if extent.low is None else self.at(extent.low) + extent.low_open
                high = last if extent.high is None else self.at(extent.high) - extent.high_open
                return [(low, high)] if low <= high else []
            case Categories():
                inside = sorted(self.coordinate[value] for value in extent.values if value in self.coordinate)
                if not extent.complement:
                    return [(at, at) for at in inside]
                edges = [-1, *inside, last + 1]
                return [(a + 1, b - 1) for a, b in pairwise(edges) if a + 1 <= b - 1]

    def extents(self, ranges: Sequence[tuple[int, int]]) -> list[Extent | None]:
        """Ranges that do not meet, in order, as the fewest extents; None is a column that may be anything.

        >>> axis = Axis.of("price", [3, 5, 7])
        >>> [str(extent) for extent in axis.extents([(0, 0), (2, 6)])]
        ['not {3}']
        >>> [str(extent) for extent in axis.extents([(0, 1), (3, 3), (5, 5)])]
        ['(-∞, 3]', '{5, 7}']
        """
        return [self._extent(part) for part in self.parts(ranges)]

    def parts(self, ranges: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        """The ranges dealt out so that each part is one extent, and the parts are as few as can be."""
        if list(ranges) == [(0, self.null)]:
            return [[(0, self.null)]]
        last = self.null - 1
        known = [(low, min(high, last)) for low, high in ranges if low <= last]
        null = [[(self.null, self.null)]] if ranges and ranges[-1][1] == self.null else []
        if not known:
            return null
        if all(low == high and low % 2 for low, high in self._absent(known)):
            return [known, *null]
        points = [(low, high) for low, high in known if low == high and low % 2]
        return [*([one] for one in known if one not in points), *([points] if points else []), *null]

    def _absent(self, known: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """What lies between the ranges, null apart."""
        edges = [(-1, -1), *known, (self.null, self.null)]
        between = [(high + 1, low - 1) for (_, high), (low, _) in pairwise(edges)]
        return [(low, high) for low, high in between if low <= high]

    def _extent(self, part: Sequence[tuple[int, int]]) -> Extent | None:
        [(low, high), *others] = part
        if high == self.null:
            return None if low == 0 else Missing()
        if not others and (low, high) == (0, self.null - 1):
            return Interval()
        if low == high and low % 2:
            return Categories(frozenset(self.values[at // 2] for at, _ in part))
        absent = self._absent(part)
        if all(first == last and first % 2 for first, last in absent):
            return Categories(frozenset(self.values[at // 2] for at, _ in absent), complement=True)
        return self._interval(low, high)

    def _interval(self, low: int, high: int) -> Interval:
        return Interval(
            None if low == 0 else self.values[(low - 1) // 2],
            None if high == self.null - 1 else self.values[high // 2],
            low % 2 == 0,
            high % 2 == 0,
        )


def values_of(extent: Extent | None) -> tuple[Scalar, ...]:
    """The values that an extent names: its ends, or its categories."""
    match extent:
        case Interval():
            return tuple(end for end in (extent.low, extent.high) if end is not None)
        case Categories():
            return tuple(extent.values)
    return ()


def _key(value: Scalar) -> tuple[int, float, str]:
    if isinstance(value, str):
        return 2, 0.0, value
    return (0 if isinstance(value, bool) else 1), value, ""
