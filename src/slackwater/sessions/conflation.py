"""Conflation: the last fact of each kind, so that a slow client's backlog never exceeds the state.

Facts are states. Of a value only the last counts, of a row only the last of its key, and a snapshot replaces all
earlier facts of its query. So the backlog never exceeds the state.
"""

from collections.abc import Iterator
from enum import Enum, auto
from typing import TypeAlias

from slackwater.dissemination.messages import (
    Channel,
    Delete,
    Fact,
    Refused,
    Reply,
    Resumed,
    Snapshot,
    Subscribed,
    Suspended,
    Unanswered,
    Upsert,
    Value,
    WireRow,
)


class _Whole(Enum):
    """Key of a fact about the whole answer."""

    WHOLE = auto()
    PLACE = auto()
    """Which messages of a channel the state has taken in; goes wherever the state goes."""


_Slots: TypeAlias = dict[WireRow | _Whole, Fact]


class Facts:
    """Facts about references and queries, the later ones in the place of the earlier."""

    __slots__ = ("_queries", "_references", "_rows", "_standing", "_values")

    def __init__(self) -> None:
        self._references: dict[int, Subscribed | Refused] = {}
        self._standing: dict[int, Suspended | Resumed] = {}
        self._values: dict[int, Value] = {}
        self._queries: dict[int, _Slots] = {}
        """Facts about answers of several rows, and places in channels."""
        self._rows = 0

    def __bool__(self) -> bool:
        return bool(self._values or self._references or self._standing or self._queries)

    @property
    def count(self) -> int:
        """Number of facts about answers; the others are few and limited where references are granted."""
        return len(self._values) + self._rows

    def __iter__(self) -> Iterator[Fact]:
        """In an order in which they can be applied: references first, a snapshot before rows that changed since."""
        yield from self._references.values()
        yield from self._standing.values()
        yield from self._values.values()
        for slots in self._queries.values():
            yield from slots.values()

    def listed(self) -> tuple[Fact, ...]:
        """The same at once: most have values alone."""
        alone = not (self._references or self._standing or self._queries)
        return tuple(self._values.values()) if alone else tuple(self)

    def put(self, fact: Fact) -> None:
        """Add a fact; it replaces an earlier one of its kind."""
        if isinstance(fact, Value):
            self._values[fact.query] = fact
            return
        if isinstance(fact, Subscribed | Refused):
            self._references[fact.ref] = fact
            return
        if isinstance(fact, Suspended | Resumed):
            self._standing[fact.query] = fact
            return
        if isinstance(fact, Reply | Unanswered):
            raise TypeError("an answer to a question is of one moment and is not kept")
        slots = self._queries.get(fact.query)
        if slots is None:
            slots = self._queries[fact.query] = {}
        before = len(slots)
        match fact:
            case Upsert() | Delete():
                slots[fact.key] = fact
            case Channel():
                slots[_Whole.PLACE] = fact
            case Snapshot():
                slots.clear()
                slots[_Whole.WHOLE] = fact
        self._rows += len(slots) - before

    def has_reference(self, ref: int) -> bool:
        """True if there is a fact about a reference."""
        return ref in self._references

    def keys(self, query: int) -> list[WireRow] | None:
        """Keys of a query's rows with facts; None where a fact is about all rows."""
        if query in self._values:
            return None
        slots = self._queries.get(query, {})
        return None if _Whole.WHOLE in slots else [key for key in slots if not isinstance(key, _Whole)]

    def merge(self, later: "Facts") -> None:
        """Take in all of `later`, which is newer than what is here."""
        self._references.update(later._references)
        self._standing.update(later._standing)
        self._values.update(later._values)
        for query, newer in later._queries.items():
            slots = self._queries.get(query)
            if slots is None or isinstance(newer.get(_Whole.WHOLE), Snapshot):
                self._rows += len(newer) - (0 if slots is None else len(slots))
                self._queries[query] = dict(newer)
            else:
                before = len(slots)
                slots.update(newer)
                self._rows += len(slots) - before

    def forget(self, query: int) -> None:
        """Drop what is held of a query."""
        self._standing.pop(query, None)
        self._values.pop(query, None)
        slots = self._queries.pop(query, None)
        if slots is not None:
            self._rows -= len(slots)

    def forget_answers(self) -> None:
        """Drop all answers. Facts about references and suspensions stay, as nothing else repeats them."""
        self._values.clear()
        self._queries.clear()
        self._rows = 0
