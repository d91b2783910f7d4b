"""Range sharding of joins: the part of the rows that one shard keeps.

Design
    Joins that compare the same columns lie on one *line*: of a band it is the values themselves, of an equality the
    keys scattered from 0 to 1. It is cut (`matching.shard.Cuts`); a shard owns the left rows between its bounds and
    has a copy of each right row that may be a partner of one that it owns. All shards know all joins of the line. So a
    pair is found by the shard that owns its left row and by no other, and a row goes to few shards.

    How far right rows are copied is the line's *window*: the differences that its joins may ask for. Joins beyond it,
    such as those open on one side, are not of the line: one shard keeps each, and has all rows for them.

    Bounds and window are the same for all shards; they are given from outside and change all at once.
"""

from dataclasses import dataclass

import msgspec
import numpy as np

from slackwater.core.query import Join
from slackwater.processing.base import Flags
from slackwater.processing.joined.lower import FamilyShape, Range
from slackwater.processing.joined.partners import KeyNumbers
from slackwater.processing.matching.base import JoinRows, JoinSide
from slackwater.processing.matching.shard import Cuts


class ComparedColumns(msgspec.Struct, frozen=True, order=True):
    """The columns that joins compare."""

    left: str
    right: str
    left_column: str
    right_column: str
    band: bool

    @property
    def shape(self) -> FamilyShape:
        """That of its joins without ranges of their own."""
        return FamilyShape(self.left, self.right, self.left_column, self.right_column, self.band)


def line_of(shape: FamilyShape) -> ComparedColumns:
    """The line that a family lies on."""
    return ComparedColumns(shape.left, shape.right, shape.left_column, shape.right_column, shape.band)


def line_of_query(query: Join) -> ComparedColumns:
    """The line that a join lies on."""
    return ComparedColumns(query.left, query.right, query.left_column, query.right_column, query.band is not None)


class LineCuts(msgspec.Struct, frozen=True):
    """Where a line is cut, and the window of its joins; for keys the window is nothing wide."""

    line: ComparedColumns
    bounds: tuple[float, ...]
    least: float = 0.0
    most: float = 0.0

    def holds(self, band: Range) -> bool:
        """Whether a join is of the line."""
        return self.least <= band[0] and band[1] <= self.most


@dataclass(frozen=True, slots=True)
class ShardPart:
    """Which of the shards this is, and the lines that are cut.

    >>> line = ComparedColumns("unit", "target", "pos", "pos", True)
    >>> part = ShardPart(0, (LineCuts(line, (10.0,), -3.0, 5.0),))
    >>> part.cuts(line.shape, (-3.0, 5.0)) is None, part.cuts(line.shape, (-3.0, 6.0)) is None
    (False, True)
    """

    shard: int
    lines: tuple[LineCuts, ...]

    def cuts(self, shape: FamilyShape, band: Range) -> LineCuts | None:
        """How a join is spread; None where it is kept by one shard."""
        line = line_of(shape)
        return next((one for one in self.lines if one.line == line and one.holds(band)), None)


class OwnRows:
    """Of the rows of a family, those that a shard has."""

    def __init__(self, shard: int, cuts: LineCuts, keys: KeyNumbers) -> None:
        self._shard, self._line, self._keys = shard, cuts, keys
        self._cuts = Cuts(np.array(cuts.bounds))

    def __call__(self, side: JoinSide, rows: JoinRows) -> JoinRows:
        """Those of these."""
        own = self._own(side, rows)
        return JoinRows(rows.ids[own], rows.join[own], rows.attributes[own])

    def _own(self, side: JoinSide, rows: JoinRows) -> Flags:
        line = self._line
        places = rows.join if line.line.band else self._keys.places(rows.join)
        own: Flags
        if side is JoinSide.LEFT:
            own = self._cuts.owners(places, rows.ids) == self._shard
            return own
        if line.line.band:
            first, last = self._cuts.reached(places, line.least, line.most)
        else:
            first, last = self._cuts.readers(places, places)
        own = (first <= self._shard) & (self._shard <= last)
        return own
