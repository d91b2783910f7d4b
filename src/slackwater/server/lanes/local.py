"""Local lane: queries that the node itself runs."""

from slackwater.core.hosts import HostKind
from slackwater.server.lanes.base import Lane
from slackwater.server.session_host import Sessions
from slackwater.sessions.engine import NodeEngine
from slackwater.sessions.events import Applied, Event


class LocalLane(Lane):
    """Sessions over the node's own engine."""

    host = HostKind.NODE

    def __init__(self, engine: NodeEngine, sessions: Sessions) -> None:
        super().__init__(sessions)
        self._engine = engine

    def start(self) -> None:
        """Give the sessions the present registrations."""
        self.told([*self._engine.registered(), Applied(self._engine.nothing())])

    def told(self, events: list[Event]) -> None:
        """Hand the events of a step to the sessions."""
        for event in events:
            self.sessions.handle(event)

    def notified(self, number: int) -> int:
        """Number of notifications of a query, from the engine."""
        return self._engine.notified[number]
