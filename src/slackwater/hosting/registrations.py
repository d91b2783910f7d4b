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
from slackwater.core.types import Position
from slackwater.hosting.step import Registration
from slackwater.kinds.registry import kept_as, plain_query, query_of

PlainRegistration: TypeAlias = tuple[int, str, str | None, str, int, int, str, str | tuple[str, ...], Any]
"""Number, owner, name, text, position, epoch, host, table or tables and query, as they are written down."""
_Identity: TypeAlias = tuple[HostKind, str]
"""What makes two registrations one query: the host that keeps it, and its text."""


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

    def add(self, one: Registration, query: StandingQuery, family: Hashable | None = None) -> None:
        """Add a registration, or replace the one of its number."""
        number = one.number
        self.pop(number)
        self._index(one)
        self._tables[number] = query.tables
        self._note_family(number, family)
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
        self._encoded[number] = msgspec.Raw(msgspec.msgpack.encode(plain))

    def pop(self, number: int) -> Registration | None:
        """Remove a registration."""
        self._tables.pop(number, None)
        self._encoded.pop(number, None)
        self._unread.discard(number)
        family = self._families.pop(number, None)
        if family is not None:
            self._counts[family] -= 1
            if not self._counts[family]:
                del self._counts[family]
        known = self.all.pop(number, None)
        if known is not None:
            self._unindex(known)
        return known

    def numbers(self, host: HostKind, text: str) -> Sequence[int]:
        """The numbers of the queries of this text that a host keeps, the lowest first."""
        return self._numbers.get((host, text), ())

    def named(self, name: str) -> Registration | None:
        """The registration of this name, in whatever case it is written."""
        number = self._names.get(name.lower())
        return None if number is None else self.all[number]

    def owned(self, owner: str) -> int:
        """How many registrations belong to an owner."""
        return self._owned[owner]

    def has(self, host: HostKind, text: str, name: str | None) -> bool:
        """Whether a host keeps a query of this text under this name, in whatever case it is written."""
        names = (self.all[number].name for number in self.numbers(host, text))
        wanted = None if name is None else name.lower()
        return any((None if one is None else one.lower()) == wanted for one in names)

    def _index(self, one: Registration) -> None:
        self.all[one.number] = one
        insort(self._numbers.setdefault((one.host, one.text), []), one.number)
        if one.name is not None:
            self._names.setdefault(one.name.lower(), one.number)
        self._owned[one.owner] += 1

    def _unindex(self, one: Registration) -> None:
        numbers = self._numbers[one.host, one.text]
        numbers.remove(one.number)
        if not numbers:
            del self._numbers[one.host, one.text]
        if one.name is not None and self._names.get(one.name.lower()) == one.number:
            del self._names[one.name.lower()]
        self._owned[one.owner] -= 1
        if not self._owned[one.owner]:
            del self._owned[one.owner]

    def query(self, number: int) -> StandingQuery:
        """Decode the query of a registration."""
        plain = msgspec.msgpack.decode(self._encoded[number], type=PlainRegistration)
        return query_of(plain[8], plain[3])

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

    def plain(self) -> list[msgspec.Raw]:
        """All registrations in encoded form."""
        return list(self._encoded.values())

    @classmethod
    def of(cls, plain: list[msgspec.Raw]) -> "Registrations":
        """Load registrations from encoded form."""
        made = cls()
        for raw in plain:
            body = raw.copy()
            number, owner, name, text, position, epoch, host, table, _ = _DECODER.decode(body)
            made._index(Registration(number, owner, name, text, Position(position), epoch, HostKind(host)))
            made._tables[number] = (table,) if isinstance(table, str) else table
            made._encoded[number] = body
            if len(made._tables[number]) > 1:
                made._unread.add(number)
        return made


_DECODER = msgspec.msgpack.Decoder(tuple[int, str, str | None, str, int, int, str, str | tuple[str, ...], msgspec.Raw])
