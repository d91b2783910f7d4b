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

    __slots__ = ("_queries", "_references", "_standing", "count")

    def __init__(self) -> None:
        self._references: dict[int, Subscribed | Refused] = {}
        self._standing: dict[int, Suspended | Resumed] = {}
        self._queries: dict[int, _Slots] = {}
        self.count = 0
        """Number of facts about answers; the others are few and limited where references are granted."""

    def __bool__(self) -> bool:
        return bool(self._references or self._standing or self._queries)

    def __iter__(self) -> Iterator[Fact]:
        """In an order in which they can be applied: references first, a snapshot before rows that changed since."""
        yield from self._references.values()
        yield from self._standing.values()
        for slots in self._queries.values():
            yield from slots.values()

    def put(self, fact: Fact) -> None:
        """Add a fact; it replaces an earlier one of its kind."""
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
            case Value():
                slots[_Whole.WHOLE] = fact
            case Upsert() | Delete():
                slots[fact.key] = fact
            case Channel():
                slots[_Whole.PLACE] = fact
            case Snapshot():
                slots.clear()
                slots[_Whole.WHOLE] = fact
        self.count += len(slots) - before

    def has_reference(self, ref: int) -> bool:
        """True if there is a fact about a reference."""
        return ref in self._references

    def keys(self, query: int) -> list[WireRow] | None:
        """Keys of a query's rows with facts; None where a fact is about all rows."""
        slots = self._queries.get(query, {})
        return None if _Whole.WHOLE in slots else [key for key in slots if not isinstance(key, _Whole)]

    def merge(self, later: "Facts") -> None:
        """Take in all of `later`, which is newer than what is here."""
        self._references.update(later._references)
        self._standing.update(later._standing)
        for query, newer in later._queries.items():
            slots = self._queries.get(query)
            if slots is None or isinstance(newer.get(_Whole.WHOLE), Snapshot):
                self.count += len(newer) - (0 if slots is None else len(slots))
                self._queries[query] = dict(newer)
            else:
                before = len(slots)
                slots.update(newer)
                self.count += len(slots) - before

    def forget(self, query: int) -> None:
        """Drop what is held of a query."""
        self._standing.pop(query, None)
        slots = self._queries.pop(query, None)
        if slots is not None:
            self.count -= len(slots)

    def forget_answers(self) -> None:
        """Drop all answers. Facts about references and suspensions stay, as nothing else repeats them."""
        self._queries.clear()
        self.count = 0
