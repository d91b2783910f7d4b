"""Lane protocol: a host of operators as the server sees it, with the sessions of its subscribers.

Contract
    A lane has sessions of its own: what a client subscribes to decides which lane it is sent to. `start` tells them of
    what is kept already, before anybody connects; `work` is run for as long as the node runs, and what ends it ends the
    node. `told` hears what every step of the node's own engine means, in order. A lane that cannot know how old its
    answers are says so to its sessions, whose leases then run out; `doubt` is for a log that cannot be read.
"""

from abc import ABC
from collections.abc import Coroutine
from typing import Any, ClassVar

from slackwater.core.hosts import HostKind
from slackwater.server.session_host import Sessions
from slackwater.sessions.events import Doubted, Event, Tick


class Lane(ABC):
    """One host; see the module for what is promised."""

    host: ClassVar[HostKind]

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions

    def start(self) -> None:  # noqa: B027
        """Tell the sessions of what is kept already."""

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """What has to be run for it."""
        return [self.sessions.run(Tick())]

    def told(self, events: list[Event]) -> None:  # noqa: B027
        """The node's engine has applied a step."""

    def doubt(self, why: str | None) -> None:
        """The log cannot be read for longer than a lease, or can again."""
        self.sessions.handle(Doubted(why))

    def notified(self, number: int) -> int:
        """How often a query had something to say since this process began, as far as that is known here."""
        return 0
