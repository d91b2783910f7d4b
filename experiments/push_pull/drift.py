"""Drifting workload: an ordered stream of events, the pushed ranges, and the protocol of relabelling triggers.

One number attribute; ranges are closed. The triggers decide when labels are made anew (`dynnaive`, `dynprop`,
`density`, `periodic`) and over what (`windowed`).

Contract
    1. A trigger looks at the events on which the present labels were made, at those since, and at the labels; it keeps
    nothing
       itself. The same arguments give the same answer.
    2. A trigger never fires on no events.
    3. What is pushed is a set of disjoint closed ranges. A query within one of them is answered at home, any other is
    pulled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from slackwater.core.errors import PlanningError
from slackwater.planning.push_pull.base import Flags, Floats


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Queries for low..high and updates of a value (low = high), with their costs, in order."""

    asks: Flags
    low: Floats
    high: Floats
    cost: Floats

    def __post_init__(self) -> None:
        if not len(self.asks) == len(self.low) == len(self.high) == len(self.cost):
            raise PlanningError("every event has two ends and a cost")
        if (self.low > self.high).any() or (self.low[~self.asks] != self.high[~self.asks]).any():
            raise PlanningError("a query goes from its low end to its high one, an update is at one value")

    def __len__(self) -> int:
        return len(self.asks)

    def part(self, start: int, end: int) -> "Events":
        """Some of them, in order."""
        return self.where(np.arange(max(start, 0), min(end, len(self))))

    def where(self, chosen: np.typing.NDArray[np.int64]) -> "Events":
        """Those of these numbers."""
        return Events(self.asks[chosen], self.low[chosen], self.high[chosen], self.cost[chosen])

    @classmethod
    def joined(cls, parts: Sequence["Events"]) -> "Events":
        """Several, one after the other."""
        return cls(
            np.concatenate([np.zeros(0, np.bool_), *(part.asks for part in parts)]),
            np.concatenate([np.zeros(0), *(part.low for part in parts)]),
            np.concatenate([np.zeros(0), *(part.high for part in parts)]),
            np.concatenate([np.zeros(0), *(part.cost for part in parts)]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """The pushed ranges: disjoint, closed and in order."""

    low: Floats
    high: Floats

    @classmethod
    def nothing(cls) -> "Cover":
        """Everything is pulled."""
        return cls(np.zeros(0), np.zeros(0))

    @classmethod
    def of(cls, low: Floats, high: Floats) -> "Cover":
        """The union of closed ranges.

        >>> cover = Cover.of(np.array([5.0, 1.0, 2.0]), np.array([6.0, 2.0, 3.0]))
        >>> cover.low.tolist(), cover.high.tolist()
        ([1.0, 5.0], [3.0, 6.0])
        """
        if not len(low):
            return cls.nothing()
        order = np.argsort(low, kind="stable")
        low, high = low[order], np.maximum.accumulate(high[order])
        begins = np.concatenate(([True], low[1:] > high[:-1]))
        return cls(low[begins], high[np.concatenate((np.flatnonzero(begins)[1:] - 1, [len(low) - 1]))])

    def covers(self, low: Floats, high: Floats) -> Flags:
        """Which of these closed ranges lie within one of the pushed ones."""
        if not len(self.low):
            return np.zeros(len(low), np.bool_)
        at = np.searchsorted(self.low, low, "right") - 1
        return (at >= 0) & (high <= self.high[np.maximum(at, 0)])

    def paid(self, events: Events) -> Floats:
        """What each event costs: an update where it is pushed, a query where it is not answered at home."""
        inside = self.covers(events.low, events.high)
        return np.where(events.asks != inside, events.cost, 0.0)


class Trigger(Protocol):
    """Decides when labels are made anew."""

    def fires(self, labelled: Events, since: Events, cover: Cover) -> bool:
        """True when labels made on the first events are due to be made anew on the second."""
        ...
