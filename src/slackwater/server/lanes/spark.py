"""Spark lane: sessions over the publication log of a Spark host.

The host is another process and may be slow, or dead. While it is behind the log for more than a lease, the distance of
its values from the present truth is unknown. Then the leases of clients are not renewed.

The host may also have made its publications from another history than that of the server's log: before a restore from a
copy, or from another log. Only what the log holds is taken in, so every position served is one of the incarnation that
the sessions name. What the node has not seen of the log yet waits; while the rest is of another history, the lane is in
doubt. When the host begins the publication log anew, or the log lost what was taken in, all sessions end: clients come
again to a replica that begins anew.
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from slackwater.core.errors import PositionGone, SlackwaterError
from slackwater.core.hosts import HostKind
from slackwater.hosting.publication_log import PublicationReader, PublicationsReplaced
from slackwater.hosting.replica import Replica
from slackwater.log.extent import LogExtent
from slackwater.processing.base import Notifications
from slackwater.server.channel_host import ChannelHost
from slackwater.server.lanes.base import Lane
from slackwater.server.lanes.views import ReplicaView
from slackwater.server.session_host import Sessions
from slackwater.sessions.engine import count_queries, events_of
from slackwater.sessions.events import Append, Applied, Doubted, QueryRegistered, Tick
from slackwater.sessions.registrar import Registrar
from slackwater.sessions.rules import SessionRules
from slackwater.sessions.state import ServerState

_report = logging.getLogger("slackwater.server")

LOOK_SECONDS = 0.005
"""Poll interval of the publication log."""


TROUBLE_SECONDS = 1.0
SEEN_SECONDS = 0.02
"""How exactly it is known when the log reached a position."""


class SparkLane(Lane):
    """Lane over the publication log of a Spark host."""

    host = HostKind.SPARK

    def __init__(
        self,
        folder: Path,
        name: str,
        generation: int,
        rules: SessionRules,
        registrar: Registrar,
        append: Callable[[Append], None],
        reached: Callable[[], int],
        extent: Callable[[], LogExtent],
        channels: ChannelHost | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._who = (name, generation)
        self._extent = extent
        self._replaced: str | None = None
        """Why the replica must begin anew."""
        self._reader = PublicationReader(folder, extent)
        try:
            self._reader.catch_up()
        except (PositionGone, PublicationsReplaced):
            # The host is at work on it this very moment.
            self._reader = PublicationReader(folder, extent)
        self._rules = rules
        self._reached = reached
        self._notified: Counter[int] = Counter()
        """Notifications of each query since this process began."""
        self.engine = ReplicaView(self._reader.replica, registrar)
        self._channels = channels
        super().__init__(Sessions(self._state(), append, channels))
        self.away: str | None = None
        """Why the log itself cannot be read."""
        self._trouble: str | None = None
        self._doubt: str | None = None
        self._seen: deque[tuple[float, int]] = deque()
        """When the log was seen to reach where; those that the host has not come to."""

    def _state(self) -> ServerState:
        place = None if self._channels is None else self._channels.place
        return ServerState(*self._who, self._rules, self.engine, place)

    def start(self) -> None:
        """Give the sessions the present registrations."""
        replica = self.engine.replica
        for one in replica.registrations.values():
            query = replica.queries[one.number]
            self.sessions.handle(QueryRegistered(one, query))
        self.sessions.handle(Applied(Notifications(replica.position)))

    async def follow(self) -> None:
        """Follow the publication log. An error puts this lane in doubt and affects no other lane."""
        while True:
            try:
                if self._replaced is not None:
                    self._begin_again()
                await self._follow()
            except (PositionGone, PublicationsReplaced) as error:
                _report.warning("the Spark host is followed from anew: %s", error)
                self._drop(str(error))
                await asyncio.sleep(LOOK_SECONDS)
            except (SlackwaterError, OSError) as error:
                if self._trouble is None:
                    _report.error("the Spark host cannot be followed: %s", error)
                self._trouble = f"the Spark host cannot be followed: {error}"
                self._judge()
                await asyncio.sleep(TROUBLE_SECONDS)

    async def _follow(self) -> None:
        while True:
            publication = self._reader.next()
            self._trouble = None
            if publication is None:
                self._judge()
                await asyncio.sleep(LOOK_SECONDS)
                continue
            replica = self._reader.replica
            replica.follow(publication)
            for said in publication.steps:
                replica.step(said)
                count_queries(self._notified, said.step.notifications)
                for event in events_of(said.step):
                    self.sessions.handle(event)
                await asyncio.sleep(0)
            replica.position = publication.end
            self._judge()

    def _drop(self, why: str) -> None:
        """Serve nothing of the present replica any more; clients reconnect."""
        self._replaced = why
        self._serve(Replica(), why)

    def _begin_again(self) -> None:
        """Restart from the latest snapshot that belongs to the log."""
        self._reader = PublicationReader(self._folder, self._extent)
        self._replaced = None
        self._serve(self._reader.replica, "answers are there again")

    def _serve(self, replica: Replica, why: str) -> None:
        """Begin sessions anew over this replica."""
        self.sessions.farewell_to_all(f"{why}; come again")
        self.engine.replica = replica
        self.sessions.state = self._state()
        self._doubt = None
        self._seen.clear()
        self.start()
        self._judge()

    def doubt(self, why: str | None) -> None:
        """Without the log the host's delay behind it is unknown."""
        self.away = why

    def notified(self, number: int) -> int:
        """Number of notifications of a query, counted from publications."""
        return self._notified[number]

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """Background task of the lane, run while the node runs."""
        return [self.follow(), self.sessions.run(Tick())]

    def _judge(self) -> None:
        """Compare the host's position with the log, and set or clear the doubt."""
        now, end = time.monotonic(), self._reached()
        while self._seen and self._seen[0][1] <= self.engine.position:
            self._seen.popleft()
        if end > self.engine.position and (
            not self._seen or (end > self._seen[-1][1] and now - self._seen[-1][0] > SEEN_SECONDS and not self._doubt)
        ):
            self._seen.append((now, end))
        doubt = self.away or self._replaced or self._trouble or self._reader.doubt
        if self._seen and (now - self._seen[0][0]) * 1_000_000 > self._rules.lease:
            doubt = f"the Spark host is {end - self.engine.position} positions behind the log"
        if doubt != self._doubt:
            self.sessions.handle(Doubted(doubt))
        self._doubt = doubt
