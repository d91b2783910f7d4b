"""Test bench of a server state with caching clients."""

from typing import Any

from simulation.workload import TABLE
from slackwater.core.extent import Interval
from slackwater.core.query import Selection
from slackwater.core.region import Box, Region, Side
from slackwater.core.region_codec import plain_region
from slackwater.dissemination.messages import (
    Ack,
    Ask,
    Frame,
    Subscribe,
    Subscribed,
)
from slackwater.kinds.registry import plain_query
from slackwater.log import Registered
from slackwater.sessions.limits import ServerLimits
from tests.support.state_bench import Bench

CACHE = "CACHE desk OF items LIMIT 50"


COLUMNS = tuple(column.name for column in TABLE.columns)


WIDE = ServerLimits(held_facts=50, recent_keys=50)


def between(low: float, high: float) -> Region:
    return Region((Box.of(Side("price", Interval(low, high))),))


class CacheBench(Bench):
    """A bench with a client whose cache is granted, and labels as they come."""

    def __init__(self, limits: ServerLimits = WIDE, rows: int = 9) -> None:
        super().__init__(limits)
        self.change(*((key, float(key)) for key in range(rows)))
        self.open()
        self.say(Subscribe(1, CACHE))
        self.grant()
        (self.number,) = [fact.query for frame in self.frames() for fact in frame.facts if isinstance(fact, Subscribed)]
        self.acknowledge()

    def frames(self) -> list[Frame]:
        return [message for message in self.take() if isinstance(message, Frame)]

    def acknowledge(self) -> None:
        assert self.state is not None
        for _ in range(2):
            self.say(Ack(self.state.sessions[1].sequence, 200))

    def label(self, region: Region, epoch: int) -> None:
        query = plain_query(Selection("items", COLUMNS, region))
        self.append(Registered("items", CACHE, "p", None, self.number, epoch, query))

    def ask(self, region: Region, ref: int = 1, **named: Any) -> Frame:
        self.say(Ask(ref, "items", plain_region(region), **named))
        (frame,) = self.frames()
        return frame
