"""Push/pull problem: queries of a client and changes of a server, and the cost of labelling each region.

A client asks *queries*, each for the rows in some boxes, and every answer has to be of the latest data. Rows are
*updated* at places of the space. Each place is labelled PUSH (the server sends every update there, so the client's
copy is current) or PULL (the client does not know). A query that touches no PULL place is answered at home; any other
sends one *remainder query* for its PULL part.

Contract
    1. What is paid: the cost of every update one of whose places is PUSH, once (a row that moves has two places); the
       setup cost of every query that touches a PULL place, once; and for every PULL place the *transfer*, what its data
       cost in all remainder queries. This is `Workload.cost`, and nothing else is ever called a cost.
    2. A place is a point where something changed or is stored. What lies between places is PUSH for nothing. A workload
       whose places are regions (`partition`) gives a region one label; a query touches a region as soon as it touches
       any part of it.
    3. A labeller answers with one label for each place, and with the cost by `Workload.cost`. One that makes
    regions of
       its own reports the cost of whole regions, which is never less.
    4. A labeller that calls itself exact is never above any other labelling of the same workload.
    5. The same workload gives the same labelling; nothing is drawn at random.

Cost models (`cost_models.py`)
    M1 a message costs 1; M2 every event has its own cost; M3 a message of size s costs α + β·s. All three come down to
    the three costs above: M1 and M2 have no transfer.

References
    A. Bagchi, A. Chaudhary, M. T. Goodrich, C. Li, M. Shmueli-Scheuer, Achieving communication efficiency through
    push-pull partitioning of semantic spaces to disseminate dynamic information, IEEE TKDE 18(10), 2006, sections
    II and III: regions, labels and their cost.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from slackwater.core.errors import PlanningError
from slackwater.kernels.box_coverage import touch_any

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """Boxes in whole coordinates, low..high both included; box b belongs to query `owners[b]`, those of one together.

    A query without boxes touches nothing and costs nothing.
    """

    setup: Floats
    owners: Integers
    lows: Integers
    highs: Integers

    def __post_init__(self) -> None:
        if self.lows.ndim != 2 or self.lows.shape != self.highs.shape or len(self.lows) != len(self.owners):
            raise PlanningError("boxes need an owner each, and as many low ends as high ends along every axis")
        if len(self.owners) and not 0 <= self.owners.min() <= self.owners.max() < len(self.setup):
            raise PlanningError("a box belongs to a query that is not there")
        if 1 + int(np.count_nonzero(np.diff(self.owners))) > max(1, int(np.count_nonzero(self._boxes()))):
            raise PlanningError("the boxes of a query stand together")
        if (self.lows > self.highs).any():
            raise PlanningError("a box whose low end is above its high end holds nothing; leave it out")
        _not_negative("the setup cost of a query", self.setup)

    def __len__(self) -> int:
        return len(self.setup)

    @property
    def whole(self) -> bool:
        """Whether no query has more than one box."""
        return len(self.owners) == int(np.count_nonzero(self._boxes()))

    def _boxes(self) -> Flags:
        """Which queries have boxes."""
        answer = np.zeros(len(self.setup), np.bool_)
        answer[self.owners] = True
        return answer


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Updates that take a row from one place to another: one message when either is PUSH."""

    places: Integers
    costs: Floats

    def __post_init__(self) -> None:
        if self.places.shape != (len(self.costs), 2):
            raise PlanningError("a move goes from one place to one other and has one cost")
        _not_negative("the cost of a move", self.costs)

    @classmethod
    def none(cls) -> "Moves":
        """No row moves."""
        return cls(np.zeros((0, 2), np.int64), np.zeros(0))

    def __len__(self) -> int:
        return len(self.costs)


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Queries and changes: the boxes of queries, and for each place its cost of pushing and of pulling."""

    queries: Queries
    places: Integers
    push: Floats
    transfer: Floats
    moves: Moves

    def __post_init__(self) -> None:
        if self.places.ndim != 2 or self.places.shape[1] != self.queries.lows.shape[1]:
            raise PlanningError("places and boxes need the same axes")
        if not len(self.places) == len(self.push) == len(self.transfer):
            raise PlanningError("every place has a cost of pushing and a cost of transfer")
        if len(self.moves) and not 0 <= self.moves.places.min() <= self.moves.places.max() < len(self.places):
            raise PlanningError("a move goes to a place that is not there")
        _not_negative("the cost of pushing a place", self.push)
        _not_negative("the cost of transfer", self.transfer)

    @property
    def axes(self) -> int:
        """How many attributes there are."""
        return int(self.places.shape[1])

    @property
    def line(self) -> bool:
        """Whether this is one attribute with ranges in one piece and rows that stay: what the line algorithms take."""
        return self.axes == 1 and self.queries.whole and not len(self.moves)

    def pulled_queries(self, push: Flags) -> Flags:
        """Which queries send a remainder query under these labels."""
        queries, pulled = self.queries, self.places[~push]
        if self.axes > 1:
            return touch_any(queries.owners, queries.lows, queries.highs, pulled, len(queries))
        before, after = count_on_a_line(pulled[:, 0], queries.lows[:, 0], queries.highs[:, 0])
        touched = before < after
        answer = np.zeros(len(queries), np.bool_)
        answer[queries.owners[touched]] = True
        return answer

    def cost(self, push: Flags) -> float:
        """Return the total cost under these labels."""
        if push.shape != (len(self.places),) or push.dtype != np.bool_:
            raise PlanningError(f"there are {len(self.places)} places to label, true for PUSH")
        moved = push[self.moves.places].any(axis=1)
        return float(
            self.push[push].sum()
            + self.moves.costs[moved].sum()
            + self.queries.setup[self.pulled_queries(push)].sum()
            + self.transfer[~push].sum()
        )


@dataclass(frozen=True, slots=True, eq=False)
class Labelling:
    """A label for each place (true is PUSH) and what it costs; `at_least` is a proven lower bound, 0 where none is."""

    push: Flags
    cost: float
    at_least: float = 0.0

    @classmethod
    def of(cls, workload: Workload, push: Flags, at_least: float = 0.0) -> "Labelling":
        """Price these labels."""
        return cls(push, workload.cost(push), at_least)


class Labeller(Protocol):
    """Decides; the contract stands at the top of this file."""

    def __call__(self, workload: Workload) -> Labelling:
        """Label the places of a workload."""
        ...


def count_on_a_line(places: Integers, lows: Integers, highs: Integers) -> tuple[Integers, Integers]:
    """How many places lie before each range, and how many up to its end; by a table where coordinates are dense."""
    least = min(int(array.min(initial=0)) for array in (places, lows))
    most = max(int(array.max(initial=0)) for array in (places, highs))
    if most - least <= 8 * (len(places) + len(lows)) + 1024:
        table = np.zeros(most - least + 2, np.int64)
        np.cumsum(np.bincount(places - least, minlength=most - least + 1), out=table[1:])
        return table[lows - least], table[highs - least + 1]
    ordered = np.sort(places)
    return np.searchsorted(ordered, lows), np.searchsorted(ordered, highs, "right")


def _not_negative(what: str, costs: Floats) -> None:
    if not ((costs >= 0) & np.isfinite(costs)).all():
        raise PlanningError(f"{what} is 0 or more and finite")
