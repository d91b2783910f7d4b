"""The registry of standing queries in force: by number, name, text and owner; queries as bytes, written in an instant.

Most registrations of a host are read once, when they come. So a query stays in its encoded form and is decoded on
demand; operators hold representations of their own.
"""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from slackwater.core.hosts import HostKind
from slackwater.core.query import StandingQuery
from slackwater.core.rights import EVERY_ROW, Grant
from slackwater.core.types import Position
from slackwater.hosting.step import Registration
from slackwater.kinds.registry import KINDS, is_timed, kept_as, plain_query, query_of, tick_period

_Identity: TypeAlias = tuple[str, Grant]
"""What makes two registrations one query: its text, and the rights that it was conjoined with."""


class _PlainRegistration(msgspec.Struct, array_like=True):
    number: int
    owner: str
    name: str | None
    text: str
    position: int
    epoch: int
    host: str
    table: str | tuple[str, ...]
    query: msgspec.Raw
    rights: list[Any] = []


class Registrations:
    """All of them; other rooms hold their own state of a query by its number."""

    def __init__(self) -> None:
        self.all: dict[int, Registration] = {}
        self._tables: dict[int, tuple[str, ...]] = {}
        self._numbers: dict[_Identity, list[int]] = {}
        self._names: dict[str, int] = {}
        self._owned: Counter[str] = Counter()
        self._encoded: dict[int, msgspec.Raw] = {}
        """Each registration with its query, encoded."""
        self._families: dict[int, Hashable] = {}
        """Family of each query on several tables; those in `_unread` are missing."""
        self._unread: set[int] = set()
        self._counts: Counter[Hashable] = Counter()
        self._periods: dict[int, int] = {}
        """Microseconds between ticks, of those that need ticks."""
        self._sharing: Counter[int] = Counter()
        """How many have each period."""

    def add(self, one: Registration, query: StandingQuery, family: Hashable | None = None) -> None:
        """Add a registration, or replace the one of its number."""
        number = one.number
        self.pop(number)
        self._index(one)
        self._tables[number] = query.tables
        self._note_family(number, family)
        self._note_period(number, query)
        plain = (
            number,
            one.owner,
            one.name,
            one.text,
            int(one.position),
            one.epoch,
            one.host.value,
            # One table by itself, as it was written before there were joins.
            query.table if len(query.tables) == 1 else query.tables,
            plain_query(query),
        )
        # Rights come last and only where there are any: without them the bytes are those of earlier versions.
        rights = (one.rights.plain(),) if one.rights.regions else ()
        self._encoded[number] = msgspec.Raw(msgspec.msgpack.encode((*plain, *rights)))

    def pop(self, number: int) -> Registration | None:
        """Remove a registration."""
        self._tables.pop(number, None)
        self._encoded.pop(number, None)
        self._unread.discard(number)
        period = self._periods.pop(number, None)
        if period is not None:
            self._sharing[period] -= 1
            if not self._sharing[period]:
                del self._sharing[period]
        family = self._families.pop(number, None)
        if family is not None:
            self._counts[family] -= 1
            if not self._counts[family]:
                del self._counts[family]
        known = self.all.pop(number, None)
        if known is not None:
            self._unindex(known)
        return known

    def numbers(self, text: str, rights: Grant) -> Sequence[int]:
        """The numbers of the queries of this text under these rights, on all hosts, the lowest first."""
        return self._numbers.get((text, rights), ())

    def named(self, name: str) -> Registration | None:
        """The registration of this name, in whatever case it is written."""
        number = self._names.get(name.lower())
        return None if number is None else self.all[number]

    def owned(self, owner: str) -> int:
        """How many registrations belong to an owner."""
        return self._owned[owner]

    def has(self, host: HostKind, text: str, name: str | None, rights: Grant = EVERY_ROW) -> bool:
        """True if a host has a query of this text and these rights under this name, in whatever case."""
        wanted = None if name is None else name.lower()
        found = (self.all[number] for number in self.numbers(text, rights))
        return any(one.host is host and (one.name and one.name.lower()) == wanted for one in found)

    def _index(self, one: Registration) -> None:
        self.all[one.number] = one
        insort(self._numbers.setdefault((one.text, one.rights), []), one.number)
        if one.name is not None:
            self._names.setdefault(one.name.lower(), one.number)
        self._owned[one.owner] += 1

    def _unindex(self, one: Registration) -> None:
        numbers = self._numbers[one.text, one.rights]
        numbers.remove(one.number)
        if not numbers:
            del self._numbers[one.text, one.rights]
        if one.name is not None and self._names.get(one.name.lower()) == one.number:
            del self._names[one.name.lower()]
        self._owned[one.owner] -= 1
        if not self._owned[one.owner]:
            del self._owned[one.owner]

    def query(self, number: int) -> StandingQuery:
        """Decode the query of a registration."""
        plain = _DECODER.decode(self._encoded[number])
        return query_of(msgspec.msgpack.decode(plain.query), plain.text)

    def tables(self, number: int) -> tuple[str, ...]:
        """The tables that a registration reads."""
        return self._tables[number]

    def on_table(self, table: str) -> Iterator[int]:
        """The numbers of those that read a table."""
        return (number for number, names in self._tables.items() if table in names)

    def on_several_tables(self) -> list[int]:
        """The numbers of those that read more than one table."""
        return [number for number, names in self._tables.items() if len(names) > 1]

    def families(self, family: Callable[[StandingQuery], Hashable | None]) -> Mapping[Hashable, int]:
        """Families of the queries on several tables, of all hosts, and the size of each."""
        for number in self._unread:
            self._note_family(number, family(kept_as(self.query(number))))
        self._unread.clear()
        return self._counts

    def _note_family(self, number: int, family: Hashable | None) -> None:
        if family is not None:
            self._families[number] = family
            self._counts[family] += 1

    @property
    def periods(self) -> frozenset[int]:
        """Microseconds between the ticks that any of them needs, on any host."""
        return frozenset(self._sharing)

    def _note_period(self, number: int, query: StandingQuery) -> None:
        period = tick_period(query)
        if period is not None:
            self._periods[number] = period
            self._sharing[period] += 1

    def plain(self) -> list[msgspec.Raw]:
        """All registrations in encoded form."""
        return list(self._encoded.values())

    @classmethod
    def of(cls, plain: list[msgspec.Raw]) -> "Registrations":
        """Load registrations from encoded form."""
        made = cls()
        any_timed = any(kind.timed for kind in KINDS)
        for raw in plain:
            body = raw.copy()
            one = _DECODER.decode(body)
            number, table, grant = one.number, one.table, Grant.read(one.rights)
            position, host = Position(one.position), HostKind(one.host)
            made._index(Registration(number, one.owner, one.name, one.text, position, one.epoch, host, grant))
            made._tables[number] = (table,) if isinstance(table, str) else table
            made._encoded[number] = body
            if len(made._tables[number]) > 1:
                made._unread.add(number)
            if any_timed and is_timed(msgspec.msgpack.decode(one.query)[0]):
                made._note_period(number, made.query(number))
        return made


_DECODER = msgspec.msgpack.Decoder(_PlainRegistration)
