"""Lowering: a join compiled to its family's shape and the numeric ranges of its own.

Ranges are closed at both ends, as matchers have them: an open end is the next double inside. What ranges hold are
numbers, times in microseconds; beyond 2⁵³ whole numbers are compared as doubles.
"""

import math
from dataclasses import dataclass

from slackwater.core.extent import Interval
from slackwater.core.query import Join
from slackwater.core.region import Region
from slackwater.processing.matching.base import JoinSide, MatcherShape

Range = tuple[float, float]


@dataclass(frozen=True, slots=True, order=True)
class FamilyShape:
    """Shape of a family of joins: tables, compared columns and columns with ranges."""

    left: str
    right: str
    left_column: str
    right_column: str
    band: bool
    left_attributes: tuple[str, ...] = ()
    right_attributes: tuple[str, ...] = ()

    def table(self, side: JoinSide) -> str:
        """The table of a side."""
        return self.left if side is JoinSide.LEFT else self.right

    def column(self, side: JoinSide) -> str:
        """The column of a side that is compared with the other."""
        return self.left_column if side is JoinSide.LEFT else self.right_column

    def attributes(self, side: JoinSide) -> tuple[str, ...]:
        """The columns of a side that there are ranges for."""
        return self.left_attributes if side is JoinSide.LEFT else self.right_attributes

    @property
    def matched(self) -> MatcherShape:
        """The same as matchers see it."""
        return MatcherShape(self.band, len(self.left_attributes), len(self.right_attributes))


@dataclass(frozen=True, slots=True)
class JoinRanges:
    """The band of one join, and its ranges in the order of the family's attributes."""

    band: Range
    left: tuple[Range, ...]
    right: tuple[Range, ...]

    def of(self, side: JoinSide) -> tuple[Range, ...]:
        """Those of a side."""
        return self.left if side is JoinSide.LEFT else self.right

    @property
    def possible(self) -> bool:
        """Whether anything can lie in all of them."""
        return all(
            low <= high and low < math.inf and high > -math.inf for low, high in (self.band, *self.left, *self.right)
        )


def lowered(query: Join) -> tuple[FamilyShape, JoinRanges | None]:
    """The family of a join, and its own ranges; None where no pair can be in its answer.

    >>> shape, ranges = lowered(Join("unit", "target", "pos", "pos", ("unit.id",), Interval(-3.0, 5.0, high_open=True)))
    >>> shape.band, ranges.band
    (True, (-3.0, 4.999999999999999))
    """
    left, right = _sides(query.left_region), _sides(query.right_region)
    shape = FamilyShape(
        query.left,
        query.right,
        query.left_column,
        query.right_column,
        query.band is not None,
        tuple(left or ()),
        tuple(right or ()),
    )
    if left is None or right is None:
        return shape, None
    band = (0.0, 0.0) if query.band is None else _closed(query.band)
    ranges = JoinRanges(band, tuple(left.values()), tuple(right.values()))
    return shape, ranges if ranges.possible else None


def _sides(region: Region) -> dict[str, Range] | None:
    """The ranges of a region's one box, in the order of their columns; None where there is no box."""
    if not region.boxes:
        return None
    [box] = region.boxes
    ranges = {}
    for side in sorted(box.sides, key=lambda side: side.column):
        assert isinstance(side.extent, Interval)
        ranges[side.column] = _closed(side.extent)
    return ranges


def _closed(interval: Interval) -> Range:
    low = -math.inf if interval.low is None else _number(interval.low)
    high = math.inf if interval.high is None else _number(interval.high)
    return (
        math.nextafter(low, math.inf) if interval.low_open else low,
        math.nextafter(high, -math.inf) if interval.high_open else high,
    )


def _number(end: bool | int | float | str) -> float:
    assert not isinstance(end, str)
    return float(end)
