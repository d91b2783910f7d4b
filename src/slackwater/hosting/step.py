"""Step: the combined effect of a run of records. The ends of steps are the observable moments."""

from dataclasses import dataclass

from slackwater.core.hosts import HostKind
from slackwater.core.query import StandingQuery
from slackwater.core.rights import EVERY_ROW, Grant
from slackwater.core.schema import TableSchema
from slackwater.core.types import Position
from slackwater.processing.base import Notifications


@dataclass(frozen=True, slots=True)
class Registration:
    """A standing query in force: number, owner, name, text, log position of its last registration, epoch and host."""

    number: int
    owner: str
    name: str | None
    text: str
    position: Position
    epoch: int = 0
    host: HostKind = HostKind.NODE
    rights: Grant = EVERY_ROW
    """What its owner may see of its tables; the query is conjoined with it."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Tables and registrations that changed, in this order, and the notifications at its end.

    A query does not begin and end in one step, and is not mentioned in the notifications of the step in which it
    begins.
    """

    notifications: Notifications
    defined: tuple[TableSchema, ...] = ()
    registered: tuple[tuple[Registration, StandingQuery], ...] = ()
    unregistered: tuple[Registration, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def position(self) -> Position:
        """Where it ends."""
        return self.notifications.position
