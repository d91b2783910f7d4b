"""Partial sums: the parts of a planned sum added up to one value, without I/O.

Promise
    1.  What is shown is the sum of the parts of *one* plan, each as its own subscription shows it:
        |value − Σ truthₖ(asₖ)| ≤ C, where truthₖ is part k of the sum in truth and asₖ the position, in the log of its
        aggregator, as of which part k is shown. The bounds of a plan's parts add up to no more than C, and each part
        keeps its own. This holds also of what is not certain.
    2.  It is *certain* while every part of that plan is. `why` names the part that is not.
    3.  No asₖ goes back as long as the plan is the same.
    4.  Another plan is taken up when all its parts have come and are certain in the same moment; until then the one
        before serves. Parts that both have are kept. Then the parts of the one before are dropped.
    5.  Of two plans that come, the one as of the later position counts. A plan that is late changes nothing, and
        neither does a plan told again. Positions are those of one history: where the log of the node that plans was
        restored from a copy, its plans count from an earlier position on.

The positions of two parts are of two logs and cannot be compared. Each stands for one position of the log above, and
these differ by as much as the aggregators are apart: a lease or two. For one common position, aggregators would have to
say with each frame which position above it stands for, and the client to keep values of the quicker parts until the
slowest has come to theirs, so that everybody waits for the slowest.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from slackwater.client.live.events import Shown
from slackwater.core.errors import ProtocolError
from slackwater.core.lineage import FORMER
from slackwater.dissemination.messages import WireRow

Look: TypeAlias = Callable[[int], Shown]
"""The current state of a part, by its place."""


@dataclass(frozen=True, slots=True)
class SumPart:
    """A part as a plan names it; `nodes` are the addresses of its aggregator, none for the node that planned."""

    aggregator: str
    nodes: tuple[str, ...]
    sql: str
    within: float


def part_of(row: WireRow) -> SumPart:
    """A part as a node writes it into a row: place, aggregator, addresses apart by spaces, text, bound, and more."""
    match row:
        case (int(), str() as aggregator, str() as nodes, str() as sql, int() | float() as within, *_):
            return SumPart(aggregator, tuple(nodes.split()), sql, float(within))
        case _:
            raise ProtocolError(f"a part of a plan cannot be read: {row!r:.200}")


@dataclass(frozen=True, slots=True)
class SubscribePart:
    """Subscribe to a part; it is known by its place from then on, which is never used again."""

    place: int
    part: SumPart


@dataclass(frozen=True, slots=True)
class UnsubscribePart:
    """It is not wanted any more."""

    place: int


Step: TypeAlias = SubscribePart | UnsubscribePart


@dataclass(frozen=True, slots=True)
class _Plan:
    """A plan with the places of its parts; `which` is the number and the epoch of its registration."""

    which: tuple[int, int]
    places: tuple[int, ...]


class PartialSum:
    """One planned sum. `bound` is that of the whole, known with the first plan."""

    def __init__(self) -> None:
        self.parts: dict[int, SumPart] = {}
        """All requested parts, by place."""
        self.bound = 0.0
        self.plans = 0
        """How many plans were put in force."""
        self._current: _Plan | None = None
        self._coming: _Plan | None = None
        self._position = -1
        self._incarnation = FORMER
        self._places = 0
        self._last: Shown | None = None
        """The state shown when all parts were last there."""

    @property
    def which(self) -> tuple[int, int] | None:
        """Number and epoch of the plan in force."""
        return None if self._current is None else self._current.which

    @property
    def places(self) -> tuple[int, ...]:
        """The parts that are added up."""
        return () if self._current is None else self._current.places

    def plan(
        self,
        which: tuple[int, int],
        position: int,
        bound: float,
        parts: Iterable[SumPart],
        incarnation: int = FORMER,
    ) -> list[Step]:
        """Take a plan, as of a position in the history of the planner's log that its incarnation names."""
        latest, parts = self._coming or self._current, list(parts)
        if incarnation != self._incarnation:
            # Where the log was replaced, its positions are others, and a number may stand for another plan.
            self._incarnation = incarnation
            if self.late(position):
                self._position = -1
            if latest is not None and [self.parts[place] for place in latest.places] != parts:
                latest = None
        if self.late(position) or (latest is not None and latest.which == which):
            self._position = max(self._position, position)
            return []
        self._position = position
        self.bound = bound
        free = {part: place for place, part in self.parts.items()}
        out: list[Step] = []
        places = []
        for part in parts:
            place = free.pop(part, None)
            if place is None:
                self._places += 1
                place = self._places
                self.parts[place] = part
                out.append(SubscribePart(place, part))
            places.append(place)
        self._coming = _Plan(which, tuple(places))
        return out + self._drop_unused()

    def late(self, position: int) -> bool:
        """Whether a plan is as of an earlier position than one that has come."""
        return position < self._position

    def look(self, shown: Look) -> list[Step]:
        """Something may have changed: take the next plan up if it is complete."""
        if self._coming is None or not self.complete(self._coming.places, shown):
            return []
        self._current, self._coming = self._coming, None
        self.plans += 1
        return self._drop_unused()

    def complete(self, places: Iterable[int], shown: Look) -> bool:
        """Whether all parts of a plan are in."""
        return all(shown(place).certain for place in places)

    def _drop_unused(self) -> list[Step]:
        used = {place for plan in (self._current, self._coming) if plan is not None for place in plan.places}
        unused = [place for place in self.parts if place not in used]
        for place in unused:
            del self.parts[place]
        return [UnsubscribePart(place) for place in unused]

    def shown(self, shown: Look, waiting: str) -> Shown:
        """The state for the program; `waiting` is the reason why there is no plan yet, or no news of it."""
        if self._current is None:
            coming = () if self._coming is None else self._coming.places
            why = self._doubt(coming, shown) or waiting
            return Shown(None, None, self.bound, 1.0, None, False, why)
        places = self._current.places
        parts = [shown(place) for place in places]
        values = [part.value for part in parts if part.value is not None]
        # Each part is looked at once: it is dear where many sums are shown.
        why = self._doubt(places, dict(zip(places, parts, strict=True)).__getitem__)
        if self._last is not None and any(part.as_of is None for part in parts):
            # A part was taken away, and what is left is no sum of anything.
            return replace(self._last, certain=False, why=why)
        positions = tuple(
            (self.parts[place].aggregator, part.as_of)
            for place, part in zip(places, parts, strict=True)
            if part.as_of is not None
        )
        number, epoch = self._current.which
        # A sum over no rows is nothing, as everywhere; what is added is added without rounding in between.
        value = math.fsum(values) if values else None
        self._last = Shown(value, None, self.bound, 1.0, None, not why, why, number, epoch, positions)
        return self._last

    def _doubt(self, places: Iterable[int], shown: Look) -> str:
        for place in places:
            one = shown(place)
            if not one.certain:
                return f"the part at {self.parts[place].aggregator or 'the node itself'} is not certain: {one.why}"
        return ""
