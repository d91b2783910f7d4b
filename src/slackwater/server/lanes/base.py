"""Lane protocol: a host of operators as the server sees it, with the sessions of its subscribers.

Contract
    A lane has sessions of its own: what a client subscribes to decides its lane. `start` gives them the
    present registrations, before any client connects; `work` is run for as long as the node runs, and its end ends
    the node. `told` receives the events of every step of the node's own engine, in order. A lane that cannot know
    how old its answers are puts its sessions in doubt, whose leases then run out; `doubt` is for an unreadable log.
"""

from abc import ABC
from collections.abc import Coroutine
from typing import Any, ClassVar

from slackwater.core.hosts import HostKind
from slackwater.server.session_host import Sessions
from slackwater.sessions.events import Doubted, Event, Tick


class Lane(ABC):
    """One host of operators; the module states its contract."""

    host: ClassVar[HostKind]

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions

    def start(self) -> None:  # noqa: B027
        """Give the sessions the present registrations."""

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """Background task of the lane, run while the node runs."""
        return [self.sessions.run(Tick())]

    def told(self, events: list[Event]) -> None:  # noqa: B027
        """Receive the events of a step that the node's engine applied."""

    def doubt(self, why: str | None) -> None:
        """Set the reason why the log cannot be read for longer than a lease; None once it can."""
        self.sessions.handle(Doubted(why))

    def notified(self, number: int) -> int:
        """Number of notifications of a query since this process began, as far as it is known here."""
        return 0
