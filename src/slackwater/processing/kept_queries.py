"""Queries of a host by number; those of a snapshot stay encoded until they are asked for.

Most queries are read once, when they are registered: operators hold representations of their own. So opening a
snapshot decodes none of them, and the next snapshot has their bytes at hand.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from slackwater.core.errors import StoreError
from slackwater.core.query import StandingQuery
from slackwater.kinds.registry import plain_query, query_of


class KeptQueries(Mapping[int, StandingQuery]):
    """Standing queries by number."""

    def __init__(self) -> None:
        self._numbers: dict[int, None] = {}
        self._decoded: dict[int, StandingQuery] = {}
        self._encoded: dict[int, msgspec.Raw] = {}
        """Each as a list of its number and its lists, for those of a snapshot that was read or written."""

    def __getitem__(self, number: int) -> StandingQuery:
        query = self._decoded.get(number)
        if query is None:
            query = self._decoded[number] = query_of(_decode(self._encoded[number])[1])
        return query

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, number: object) -> bool:
        return number in self._numbers

    def put(self, number: int, query: StandingQuery) -> None:
        """Add a query, or replace the one of its number."""
        self._numbers[number] = None
        self._decoded[number] = query
        self._encoded.pop(number, None)

    def pop(self, number: int) -> None:
        """Remove a query, if it is there."""
        self._numbers.pop(number, None)
        self._decoded.pop(number, None)
        self._encoded.pop(number, None)

    def examples(self) -> list[StandingQuery]:
        """One query of each kind that there is."""
        found: dict[str, int] = {}
        for number in self._numbers:
            query = self._decoded.get(number)
            tag = _decode(self._encoded[number])[1][0] if query is None else type(query).__name__
            found.setdefault(tag, number)
        return [self[number] for number in found.values()]

    def reading(self, table: str) -> list[int]:
        """The numbers of those that read a table, in order."""
        name = table.encode()
        # What reads a table names it: a look at the bytes spares decoding the others.
        near = (number for number in self if number in self._decoded or name in bytes(self._encoded[number]))
        return sorted(number for number in near if table in self[number].tables)

    def plain(self) -> list[msgspec.Raw]:
        """All of them for a snapshot, in the order of their numbers."""
        return [self._plain(number) for number in sorted(self._numbers)]

    def _plain(self, number: int) -> msgspec.Raw:
        known = self._encoded.get(number)
        if known is None:
            plain = [number, plain_query(self._decoded[number])]
            known = self._encoded[number] = msgspec.Raw(msgspec.msgpack.encode(plain))
        return known

    @classmethod
    def of(cls, plain: list[list[Any]]) -> "KeptQueries":
        """Those of a snapshot; a `StoreError` where there is one of a kind that is not known here."""
        made = cls()
        for one in plain:
            number = one[0]
            if type(number) is not int:
                raise StoreError(f"a query has a number, not {number!r}")
            made._numbers[number] = None
            made._encoded[number] = msgspec.Raw(msgspec.msgpack.encode(one))
        for one in {one[1][0]: one for one in plain}.values():
            query_of(one[1])
        return made


def _decode(encoded: msgspec.Raw) -> list[Any]:
    plain: list[Any] = msgspec.msgpack.decode(encoded)
    return plain
