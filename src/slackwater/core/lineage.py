"""Lineage of a log: its incarnations, and which places of a state belong to its history.

A position counts records, so after a restore from a copy the same positions hold other records. What tells the two
histories apart is the *incarnation*: each opening of a log by a writer ends the incarnation before it, at the end that
the writer found, and begins one of its own under a random number. A *place* is an incarnation and a position. The state
at a place belongs to a log if the log lists the incarnation and the position is not past that incarnation's end.

Two logs that list an incarnation hold the same records up to the smaller of its ends: they were one log until then. A
copy of a log opens under another number than the log goes on with, so nothing that is written later is mistaken.

>>> log = Lineage().begin(7, Position(0)).begin(8, Position(100))
>>> held = Place(7, Position(90))
>>> restored = Lineage().begin(7, Position(0)).begin(9, Position(80))
>>> log.holds(held), restored.holds(held), restored.holds(Place(7, Position(80)))
(True, False, True)
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from slackwater.core.types import Position

FORMER = 0
"""The incarnation of everything that was written before logs listed their incarnations."""
LARGEST_INCARNATION = 2**63 - 1
MOST_INCARNATIONS = 1024
"""Incarnations that a log lists; of more openings those go first that appended nothing, then the oldest. A place in one
that is not listed is of no known history."""

PlainLineage: TypeAlias = list[tuple[int, int]]
"""A lineage as it is stored and sent: number and first position of each incarnation."""


@dataclass(frozen=True, slots=True)
class Incarnation:
    """The records that one writer appended: from `start` to the start of the next."""

    number: int
    start: Position


@dataclass(frozen=True, slots=True)
class Place:
    """A position in the history of an incarnation: the resume token of everything that is made from a log."""

    incarnation: int
    position: Position


BEGINNING = Place(FORMER, Position(0))
"""The place before the first record of any log."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The incarnations of a log, the present one last."""

    incarnations: tuple[Incarnation, ...] = ()

    @property
    def current(self) -> int:
        """The number of the present incarnation."""
        return self.incarnations[-1].number if self.incarnations else FORMER

    def begin(self, number: int, end: Position) -> "Lineage":
        """The lineage once a writer has opened the log and found this end."""
        known = self.incarnations or ((Incarnation(FORMER, Position(0)),) if end > 0 else ())
        listed = [*known, Incarnation(number, end)]
        if len(listed) > MOST_INCARNATIONS:
            # Sessions name the present incarnation, also one that appends nothing; of these the oldest go first.
            ends = [*(one.start for one in listed[1:]), None]
            empty = next((k for k, one in enumerate(listed) if one.start == ends[k]), 0)
            del listed[empty]
        return replace(self, incarnations=tuple(listed))

    def upto(self, end: Position) -> "Lineage":
        """The lineage as it was when the log ended here, in an incarnation that had begun."""
        return replace(self, incarnations=tuple(one for one in self.incarnations if one.start <= end))

    def place(self, position: Position) -> Place:
        """The place of the state before a position: in the incarnation whose record came last before it."""
        for one in reversed(self.incarnations):
            if one.start < position:
                return Place(one.number, position)
        return Place(self.incarnations[0].number if self.incarnations else FORMER, position)

    def end_of(self, number: int) -> Position | None:
        """Where an incarnation that is not the present one ends; None for the present one, and for one not listed."""
        for one, following in zip(self.incarnations, self.incarnations[1:], strict=False):
            if one.number == number:
                return following.start
        return None

    def holds(self, place: Place, end: Position | None = None) -> bool:
        """True if the state at a place belongs to this history. `end`: of the log, where the present one has an end."""
        if not self.incarnations:
            return place.incarnation == FORMER and (end is None or place.position <= end)
        if place.incarnation == self.current:
            return end is None or place.position <= end
        known = self.end_of(place.incarnation)
        return known is not None and place.position <= known

    def kept(self, place: Place) -> Position:
        """How far the state at a place belongs to this history: up to which position it may be relied on.

        >>> log = Lineage().begin(7, Position(0)).begin(9, Position(80))
        >>> [log.kept(Place(number, Position(90))) for number in (9, 7, 5)]
        [90, 80, 0]
        """
        if place.incarnation == self.current:
            return place.position
        return min(self.end_of(place.incarnation) or Position(0), place.position)

    def went_on(self, later: "Lineage", position: Position, end: Position) -> bool:
        """True if a log that lists `later` and ends at `end` has all records that this one had before a position."""
        return later.holds(Place(self.current, position), end)

    def begins(self, other: "Lineage") -> bool:
        """True if the other lineage goes on where this one ends: this one is an older view of the same log."""
        shared = self.incarnations
        return len(shared) < len(other.incarnations) and other.incarnations[: len(shared)] == shared

    def plain(self) -> PlainLineage:
        """As it is stored and sent."""
        return [(one.number, int(one.start)) for one in self.incarnations]

    @classmethod
    def read(cls, plain: Iterable[tuple[int, int]]) -> "Lineage":
        """The lineage that was stored; a ValueError where it cannot be one."""
        made = cls(tuple(Incarnation(number, Position(start)) for number, start in plain))
        starts = [one.start for one in made.incarnations]
        if starts != sorted(starts) or any(not 0 <= one.number <= LARGEST_INCARNATION for one in made.incarnations):
            raise ValueError("incarnations out of order")
        return made
