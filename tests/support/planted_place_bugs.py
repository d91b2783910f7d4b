"""Planted bugs of places: each makes a state of another history pass for one of the log."""

from collections.abc import Callable

from slackwater.core.lineage import Place
from slackwater.log.extent import LogExtent, PlaceRelation

Relation = Callable[[LogExtent, Place], PlaceRelation]


def old_incarnation_accepted(self: LogExtent, place: Place) -> PlaceRelation:
    """An incarnation that the log does not list passes for one that it lists."""
    listed = any(one.number == place.incarnation for one in self.lineage.incarnations)
    held = self.lineage.holds(place, self.end) if listed else place.position <= self.end
    return PlaceRelation.HELD if held else PlaceRelation.FOREIGN


def end_not_checked(self: LogExtent, place: Place) -> PlaceRelation:
    """A position past the end of its incarnation passes for one before it."""
    listed = any(one.number == place.incarnation for one in self.lineage.incarnations)
    held = place.position == 0 or (listed and place.position <= self.end)
    return PlaceRelation.HELD if held else PlaceRelation.FOREIGN


BUGS: list[Relation] = [old_incarnation_accepted, end_not_checked]
