"""Log extent: lineage and end of a log at one moment, and how a place relates to them.

A state that was made from a log is of use where the log holds its place. Of the present incarnation the end may not be
known yet: a reader may see less of the log than the maker of the state did, or the log was restored and no writer has
opened it since. Such a place is *ahead*: its holder waits until the log shows more, or another incarnation begins.

>>> from slackwater.core.lineage import Lineage
>>> extent = LogExtent(Lineage().begin(7, Position(0)).begin(8, Position(80)), Position(90))
>>> [extent.relation(Place(*place)).value for place in ((7, Position(80)), (7, Position(81)), (8, Position(91)))]
['held', 'foreign', 'ahead']
"""

from dataclasses import dataclass
from enum import Enum

from slackwater.core.lineage import Lineage, Place
from slackwater.core.types import Position
from slackwater.log.base import Log


class PlaceRelation(Enum):
    """How a place relates to a log: held, ahead of what the log shows yet, or of another history."""

    HELD = "held"
    AHEAD = "ahead"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class LogExtent:
    """Lineage and end of a log at one moment."""

    lineage: Lineage
    end: Position

    @classmethod
    def of(cls, log: Log) -> "LogExtent":
        """Look at a log."""
        # The end first: an end that is seen later may lie in an incarnation that this lineage does not list.
        end = log.end
        return cls(log.lineage, end)

    def relation(self, place: Place) -> PlaceRelation:
        """How a place relates to the log; before its first record all logs are alike."""
        if place.position == 0 or self.lineage.holds(place, self.end):
            return PlaceRelation.HELD
        return PlaceRelation.AHEAD if place.incarnation == self.lineage.current else PlaceRelation.FOREIGN

    def place(self, position: Position) -> Place:
        """The place of the state before a position."""
        return self.lineage.place(position)
