"""Row stream of a table in shared memory: its rows by slot, as the server publishes them to its workers.

Design
    A server keeps the latest rows of a table in arrays that change all the time. A worker keeps a replica of them and
    reads it between two changes, never during one. What leads from one to the other is a stream: pieces of rows by
    slot, appended by the server to a file in memory and read by any number of workers, each at its own pace. The last
    piece that names a slot counts. So one piece is both: the whole table in slices, and the rows that changed since.

    A piece is written when a question asks for the table, of the slots that changed since the last piece. The engine
    tells which those are for each batch, at the cost of appending to a list. Nothing is written for a table that
    nobody asks for. A piece has at most `SLICE` rows, and the event loop serves others between two of them. Once all
    tables of a question lack at most a slice, their last pieces are written without a pause: they are of one position.

    A stream that grew to several times its table, in rows or in bytes, is replaced by a new one. So is the stream of a
    table of which more changed than a new one would cost, or that was made anew. One of a table that was dropped is let
    go with the next question.
"""

import os
import tempfile
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from slackwater.core.schema import TableSchema
from slackwater.processing.base import Changes, Integers
from slackwater.processing.host import Host
from slackwater.processing.latest import LatestTable
from slackwater.server.oneshot.base import stream_schema

SLICE = 8_192
"""Rows of one piece at most."""
_MOST_REPEATS = 3
"""A stream of so many times the rows of its table is replaced."""
_LEAST_ROWS = 65_536
"""Streams of fewer rows are not worth replacing, unless they are long."""
_LEAST_BYTES = 64 << 20
"""Streams of fewer bytes are not long."""


class RowStream:
    """The stream of one table and the slots that it lacks; closed when it is replaced."""

    def __init__(self, number: int, latest: LatestTable) -> None:
        self.number = number
        self.latest = latest
        self.schema: TableSchema = latest.schema
        self.end = 0
        """Bytes that are written."""
        self.rows = 0
        self.descriptor = _memory_file()
        self._layout = stream_schema(latest.schema)
        self._rest: Integers = latest.slots
        """Slots to be written, each once."""
        self._at = 0
        self._most = max(_LEAST_ROWS, len(self._rest))
        self._whole = len(self._rest)
        self._most_bytes = _LEAST_BYTES
        self._fresh: list[Integers] = []
        """Slots that changed since `_rest` was made."""
        self._fresh_rows = 0

    def close(self) -> None:
        """Let go of the memory; workers that have it open keep it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def note(self, changes: Changes) -> None:
        """Slots of the table changed."""
        self._fresh.append(changes.slots)
        self._fresh_rows += len(changes)

    @property
    def missing(self) -> int:
        """Rows that are to be written at most, a slot that changed often counted as often."""
        return len(self._rest) - self._at + self._fresh_rows

    @property
    def outgrown(self) -> bool:
        """True when a new stream costs less than this one."""
        repeats = self.rows > _MOST_REPEATS * self._most or self.end > _MOST_REPEATS * self._most_bytes
        return repeats or self._fresh_rows > self._most

    def write(self) -> None:
        """Append a piece: of all that is missing, or as many rows as a piece may have."""
        if self._at == len(self._rest):
            self._rest, self._at = _each_once(self._fresh), 0
            self._fresh, self._fresh_rows = [], 0
        slots = self._rest[self._at : self._at + SLICE]
        self._at += len(slots)
        if self._at == len(self._rest) and self._fresh_rows and len(slots) + self._fresh_rows <= SLICE:
            slots = _each_once([slots, *self._fresh])
            self._fresh, self._fresh_rows = [], 0
        if len(slots):
            self._append(slots)

    def _append(self, slots: Integers) -> None:
        present, rows = self.latest.take(slots)
        columns = [*rows.columns, pa.array(slots), pa.array(present)]
        piece = pa.RecordBatch.from_arrays(columns, schema=self._layout).serialize()
        size = piece.size
        os.pwrite(self.descriptor, size.to_bytes(8, "little"), self.end)
        written = 0
        while written < size:
            written += os.pwrite(self.descriptor, piece[written:], self.end + 8 + written)
        self.end += 8 + size
        self.rows += len(slots)
        if self.rows <= self._whole:
            # Still the table itself, whose size is not known before.
            self._most_bytes = max(_LEAST_BYTES, self.end)


class RowStreams:
    """The streams of those tables of a host that are asked for."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._streams: dict[str, RowStream] = {}
        self._made = 0
        self.rows = 0
        """Rows written, of all streams."""

    def note(self, changes: Changes) -> None:
        """A table changed; called with the changes of every batch."""
        stream = self._streams.get(changes.table)
        if stream is not None:
            stream.note(changes)
            if stream.outgrown:
                self._drop(changes.table)

    def stream(self, table: str) -> RowStream:
        """The stream of a table that is there; a new one where it has none that is worth going on with."""
        latest = self._host.latest(table)
        known = self._streams.get(table)
        if known is not None and known.latest is latest and known.schema == latest.schema and not known.outgrown:
            return known
        self._drop(table)
        self._made += 1
        made = self._streams[table] = RowStream(self._made, latest)
        return made

    def next_slice(self, tables: Iterable[str]) -> bool:
        """Write a piece of a table that lacks more than one piece; False where none does."""
        for name in tables:
            stream = self.stream(name)
            if stream.missing > SLICE:
                self._write(stream)
                return True
        return False

    def complete(self, tables: Iterable[str]) -> dict[str, RowStream]:
        """Write what tables lack yet; then all their streams are of the same position."""
        for name in [
            name for name, one in self._streams.items() if self._host.latest_tables.get(name) is not one.latest
        ]:
            self._drop(name)
        streams = {name: self.stream(name) for name in tables}
        for stream in streams.values():
            while stream.missing:
                self._write(stream)
        return streams

    def _write(self, stream: RowStream) -> None:
        before = stream.rows
        stream.write()
        self.rows += stream.rows - before

    @property
    def bytes(self) -> int:
        """Shared memory in use."""
        return sum(stream.end for stream in self._streams.values())

    def is_current(self, table: str, number: int) -> bool:
        """True if this is still the number of a table's stream."""
        known = self._streams.get(table)
        return known is not None and known.number == number

    def close(self) -> None:
        """Let go of all of them."""
        for name in list(self._streams):
            self._drop(name)

    def _drop(self, table: str) -> None:
        stream = self._streams.pop(table, None)
        if stream is not None:
            stream.close()


def _each_once(slots: list[Integers]) -> Integers:
    """Slots in rising order; by marking them where sorting would take longer."""
    if len(slots) == 1:
        return slots[0]
    joined = np.concatenate(slots) if slots else np.zeros(0, np.int64)
    if len(joined) <= SLICE:
        return np.unique(joined)
    marked = np.zeros(int(joined.max()) + 1, np.bool_)
    marked[joined] = True
    return np.flatnonzero(marked)


def _memory_file() -> int:
    """A file in memory that is gone with the last process that has it open."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("slackwater-rows", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
