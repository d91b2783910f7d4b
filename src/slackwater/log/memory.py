"""In-memory log: the plain twin of the local log, for tests and simulations."""

import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from types import TracebackType
from typing import Self

from slackwater.core.errors import LogCorrupt, LogError, LogLocked, PositionGone
from slackwater.core.lineage import Lineage
from slackwater.core.types import Position
from slackwater.log.base import Entry, check_range, cut
from slackwater.log.catalog import Catalog
from slackwater.log.incarnation import new_incarnation
from slackwater.log.records import CATALOG_KINDS, Record, StoredRecord, decode, encode

_BEGINNING = Position(0)


@dataclass(frozen=True, slots=True)
class ChecksummedRecord:
    """A record in the store, with its checksum."""

    stored: StoredRecord
    checksum: int

    @property
    def end(self) -> Position:
        """The position after it."""
        return Position(self.stored.first + self.stored.rows)

    def entry(self) -> Entry:
        """The record at its place."""
        if zlib.crc32(self.stored.body) != self.checksum:
            raise LogCorrupt(f"the checksum of the record at position {self.stored.first} is wrong")
        return Entry(self.stored.first, decode(self.stored))


@dataclass(slots=True)
class MemoryStore:
    """Simulated disk: it outlives the logs that are opened on it."""

    kept: list[ChecksummedRecord] = field(default_factory=list)
    start: Position = _BEGINNING
    end: Position = _BEGINNING
    dropped: Catalog = field(default_factory=Catalog)
    catalog: Catalog = field(default_factory=Catalog)
    lineage: Lineage = field(default_factory=Lineage)
    guard: Lock = field(default_factory=Lock)
    written: bool = False


class MemoryLog:
    """A `Log` that is gone when its store is.

    >>> from slackwater.core import Column, DataType, TableSchema
    >>> from slackwater.log import TableDefined
    >>> quotes = TableSchema("quotes", (Column("symbol", DataType.TEXT, nullable=False),), key=("symbol",))
    >>> with MemoryLog() as log:
    ...     log.append([TableDefined(quotes)])
    1
    """

    def __init__(self, store: MemoryStore | None = None, *, read_only: bool = False) -> None:
        self._store = MemoryStore() if store is None else store
        self._read_only = read_only
        self._closed = False
        with self._store.guard:
            if self._store.written and not read_only:
                raise LogLocked("this store is being written by another log; close that one first")
            self._store.written = self._store.written or not read_only
            if not read_only:
                self._store.lineage = self._store.lineage.begin(new_incarnation(), self._store.end)

    @property
    def start(self) -> Position:
        """The first position still held."""
        self._check_open()
        return self._store.start

    @property
    def end(self) -> Position:
        """The position after the last record."""
        self._check_open()
        return self._store.end

    @property
    def lineage(self) -> Lineage:
        """The incarnations, the present one last."""
        self._check_open()
        return self._store.lineage

    def append(self, records: Sequence[Record]) -> Position:
        """Keep the records and return the position after them."""
        self._check_writable()
        encoded = [encode(record) for record in records]
        store = self._store
        with store.guard:
            catalog = store.catalog
            for record in records:
                catalog = catalog.after(record)
            store.catalog = catalog
            end = store.end
            for one in encoded:
                body = b"".join(one.body)
                store.kept.append(
                    ChecksummedRecord(StoredRecord(end, one.rows, one.kind, one.subject, body), zlib.crc32(body))
                )
                end = Position(end + one.rows)
            store.end = end
            return end

    def read(self, start: Position, end: Position | None = None) -> Iterator[Entry]:
        """Yield entries from `start` up to `end` (by default the end as it is now), batches cut to fit."""
        self._check_open()
        end = self._store.end if end is None else end
        check_range(start, end, self._store.start, self._store.end)
        return self._entries(start, end)

    def catalog(self, upto: Position | None = None) -> Catalog:
        """The tables as of a position, by default as of the end."""
        self._check_open()
        store = self._store
        with store.guard:
            if upto is None:
                return store.catalog
            check_range(upto, upto, store.start, store.end)
            catalog = store.dropped
            for kept in store.kept:
                if kept.end > upto:
                    break
                if kept.stored.kind in CATALOG_KINDS:
                    catalog = catalog.after(kept.entry().record)
            return catalog

    def drop_before(self, position: Position) -> Position:
        """Forget the records that lie wholly before the position; return the new start."""
        self._check_writable()
        store = self._store
        with store.guard:
            if position > store.end:
                raise PositionGone(f"cannot drop up to {position}: the log ends at {store.end}")
            gone = [kept for kept in store.kept if kept.end <= position]
            for kept in gone:
                if kept.stored.kind in CATALOG_KINDS:
                    store.dropped = store.dropped.after(kept.entry().record)
            # A new list: readers of the old one are not disturbed.
            store.kept = store.kept[len(gone) :]
            store.start = store.kept[0].stored.first if store.kept else store.end
            return store.start

    def close(self) -> None:
        """Let another log write to the store."""
        if not self._closed:
            self._closed = True
            if not self._read_only:
                self._store.written = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _entries(self, start: Position, end: Position) -> Iterator[Entry]:
        kept = self._store.kept
        nth = bisect_right(kept, start, key=lambda one: one.stored.first) - 1
        while start < end and kept[nth].stored.first < end:
            yield cut(kept[nth].entry(), start, end)
            nth += 1
            if nth == len(kept):
                return

    def _check_writable(self) -> None:
        self._check_open()
        if self._read_only:
            raise LogError("this log was opened with read_only=True: it cannot be changed")

    def _check_open(self) -> None:
        if self._closed:
            raise LogError("this log is closed; open it again")
