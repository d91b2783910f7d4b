"""Registration table: the registrations in force, their queries in encoded form for quick snapshots.

Most registrations of a host are read once, when they come. So a query stays in its encoded form and is decoded on
demand; operators hold representations of their own.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from slackwater.core.hosts import HostKind
from slackwater.core.query import StandingQuery
from slackwater.core.types import Position
from slackwater.hosting.step import Registration
from slackwater.kinds.registry import kept_as, plain_query, query_of

PlainRegistration: TypeAlias = tuple[int, str, str | None, str, int, int, str, str | tuple[str, ...], Any]
"""Number, owner, name, text, position, epoch, host, table or tables and query, as they are written down."""


class Registrations:
    """Registrations by number."""

    def __init__(self) -> None:
        self.all: dict[int, Registration] = {}
        self._tables: dict[int, tuple[str, ...]] = {}
        self._known: Counter[tuple[HostKind, str, str | None]] = Counter()
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
        self.all[number] = one
        self._known[one.host, one.text, one.name] += 1
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
            which = (known.host, known.text, known.name)
            self._known[which] -= 1
            if not self._known[which]:
                del self._known[which]
        return known

    def has(self, host: HostKind, text: str, name: str | None) -> bool:
        """True if a host has a query of this text under this name."""
        return (host, text, name) in self._known

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
            made.all[number] = Registration(number, owner, name, text, Position(position), epoch, HostKind(host))
            made._tables[number] = (table,) if isinstance(table, str) else table
            made._known[HostKind(host), text, name] += 1
            made._encoded[number] = body
            if len(made._tables[number]) > 1:
                made._unread.add(number)
        return made


_DECODER = msgspec.msgpack.Decoder(tuple[int, str, str | None, str, int, int, str, str | tuple[str, ...], msgspec.Raw])
