"""Streaming source of Spark over the log: an offset is a place, data are Arrow batches.

Design
    Spark wants one schema for a stream, a log holds many tables and records of several kinds. One stream for each
    table would mean as many micro-batches, checkpoints and Python processes as there are tables, all reading the
    same segments. So there is *one* stream, and a row of it is a whole record (or a piece of one): the position
    of its first row, how many rows, the kind, the table, and the rows themselves as an Arrow IPC message. Spark
    moves a few opaque byte strings, executors decode them, and no row is ever touched on the JVM.

    With the option `table` the stream has that table's own columns and its `$position` instead, for use from
    DataFrames and SQL.

    The reader is the partitioned one: executors open the log's folder themselves and read `[start, end)`. Spark's
    simple reader would save some 10 ms a batch, but fetches every row through the driver.

    The same range always gives the same partitions and the same rows, so a repeated micro-batch is the same
    micro-batch.

    An offset is a position with the incarnation of the log there (`core.lineage`); one from before incarnations were
    listed has the position alone. Where the log does not hold an offset, because it was restored from a copy or is
    another one, the stream fails. Executors look once more when they have read: the log must still hold the end.

Options
    path        the log's folder; executors must see it under the same path
    start       where a new stream begins; by default where the log does
    incarnation that of the log at `start`, where it is known; the log must hold it
    max_rows    rows of a micro-batch at most
    table       see above
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from slackwater.core.errors import LogError, PositionGone, SchemaError
from slackwater.core.lineage import FORMER, Place
from slackwater.core.types import Position
from slackwater.log import Entry, Log, Quarantined, Record, RecordKind, Updates, encode, open_log
from slackwater.log.extent import LogExtent, PlaceRelation
from slackwater.log.records import StoredRecord
from slackwater.pipeline.tables.columns import aligned, stored_updates, with_positions

FORMAT = "slackwater"
"""Name of the source: `session.readStream.format(FORMAT)`."""
MAX_ROWS = 1_000_000
"""Rows of a micro-batch by default."""
PARTITION_ROWS = 250_000
"""Rows that one task reads."""
PIECE_ROWS = 65_536
"""Rows of a record that travel as one row of the stream: keeps byte strings small."""
BATCH_BYTES = 8 * 1024 * 1024
"""Bytes of records that travel as one Arrow batch."""

RECORDS = pa.schema(
    [
        pa.field("position", pa.int64()),
        pa.field("rows", pa.int32()),
        pa.field("kind", pa.int8()),
        pa.field("subject", pa.string()),
        pa.field("body", pa.binary()),
        pa.field("incarnation", pa.int64()),
    ]
)
"""The columns of the stream of records; the incarnation is that of the log at the end of the micro-batch."""


@dataclass(frozen=True)
class LogOptions:
    """The options of the source, checked."""

    path: Path
    start: int | None
    max_rows: int
    table: str | None
    incarnation: int | None = None

    @classmethod
    def of(cls, options: Any) -> "LogOptions":
        """Read them from what Spark hands over: text by name."""
        if "path" not in options:
            raise LogError("reading a log needs its folder: .option('path', …) or .load(…)")
        start, incarnation = options.get("start"), options.get("incarnation")
        return cls(
            Path(options["path"]),
            None if start is None else _count("start", start, 0),
            _count("max_rows", options.get("max_rows", str(MAX_ROWS)), 1),
            options.get("table"),
            None if incarnation is None else _count("incarnation", incarnation, 0),
        )


@dataclass(frozen=True)
class LogPart:
    """Positions that one task reads, and the place in the log where all that is read at once ends."""

    first: int
    end: int
    place: Place


class LogSource(DataSource):
    """`format("slackwater")`: a log's folder as a stream, or as a table read once."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns: of records, or of the table that was named."""
        return from_arrow_schema(_layout(LogOptions.of(self.options)))

    def streamReader(self, schema: StructType) -> "LogStreamReader":  # noqa: N802  Spark's name
        """Read as a stream."""
        return LogStreamReader(LogOptions.of(self.options))

    def reader(self, schema: StructType) -> "LogReader":
        """Read once, up to the end as it is now."""
        return LogReader(LogOptions.of(self.options))


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Cuts the log into micro-batches; lives in a Python process beside the driver."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Where a new stream begins."""
        start, held = self._options.start, opened(str(self._options.path)).start
        if start is not None and start < held:
            raise PositionGone(
                f"the stream is to begin at position {start}, but the log at {self._options.path} now starts at "
                f"{held}: what lies between was dropped; begin at {held}, with a new folder for the results"
            )
        extent, position = self._extent(), Position(held if start is None else start)
        known = self._options.incarnation
        place = extent.place(position) if known is None else Place(known, position)
        self._check(extent, place)
        return _offset(place)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """As far as the log reaches, and the limit allows."""
        extent, place = self._extent(), offset_place(start)
        self._check(extent, place)
        end = extent.end if self._target is None else min(Position(self._target), extent.end)
        if isinstance(limit, ReadMaxRows):
            end = min(end, Position(place.position + limit.max_rows))
        # What is there is repeated as it was given: Spark takes any other text for something new.
        return start if end <= place.position else _offset(extent.place(end))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """At most `max_rows` a batch."""
        return ReadMaxRows(self._options.max_rows)

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """For the stream's progress: how far the log reaches."""
        extent = self._extent()
        return _offset(extent.place(extent.end))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note the end: what comes later is not read by this run."""
        self._target = opened(str(self._options.path)).end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Cut a range; depends on nothing but the range, so that a repeated batch is cut the same way."""
        return _partitions(start["position"], offset_place(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one cut; runs on an executor."""
        return _read(self._options, partition.value)

    def _extent(self) -> LogExtent:
        return LogExtent.of(opened(str(self._options.path)))

    def _check(self, extent: LogExtent, place: Place) -> None:
        """Refuse to go on from a place of another history; wait at one that the log does not show yet."""
        relation = extent.relation(place)
        if relation is PlaceRelation.FOREIGN:
            raise LogError(
                f"the stream stands at position {place.position} of incarnation {place.incarnation}, which is no part "
                f"of the log at {self._options.path}: it was restored from a copy, or is another log; begin with a new "
                f"checkpoint, and a new folder for the results"
            )
        if relation is PlaceRelation.AHEAD and self._target is not None:
            raise LogError(
                f"the stream stands at position {place.position}, but the log at {self._options.path} ends at "
                f"{extent.end}: begin when it shows more, or after its writer has opened it"
            )


class LogReader(DataSourceReader):
    """Reads the log once."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """From `start` to the end as it is now."""
        log = opened(str(self._options.path))
        extent = LogExtent.of(log)
        start = log.start if self._options.start is None else self._options.start
        return _partitions(start, extent.place(extent.end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one cut; runs on an executor. Nothing is left to read when there is no partition."""
        if partition.value is None:
            return iter(())
        return _read(self._options, partition.value)


def register(session: SparkSession) -> None:
    """Make the format known to a session; doing it again does nothing."""
    session.dataSource.register(LogSource)


@lru_cache(maxsize=8)
def opened(path: str) -> Log:
    """The log in this folder, or on a bus, kept open by the process: opening one reads the heads of its segments."""
    return open_log(path, read_only=True)


def offset_place(offset: dict[str, int]) -> Place:
    """The place of an offset, also of one from before incarnations were listed.

    >>> offset_place({"position": 3}), offset_place({"position": 3, "incarnation": 7})
    (Place(incarnation=0, position=3), Place(incarnation=7, position=3))
    """
    return Place(offset.get("incarnation", FORMER), Position(offset["position"]))


def _offset(place: Place) -> dict[str, int]:
    return {"position": int(place.position), "incarnation": place.incarnation}


def _partitions(start: int, place: Place) -> list[InputPartition]:
    end = int(place.position)
    if start >= end:
        return []
    count = -(-(end - start) // PARTITION_ROWS)
    cuts = [start + (end - start) * k // count for k in range(count + 1)]
    return [InputPartition(LogPart(first, last, place)) for first, last in pairwise(cuts)]


def _read(options: LogOptions, part: LogPart) -> Iterator[pa.RecordBatch]:
    log = opened(str(options.path))
    entries = log.read(Position(part.first), Position(part.end))
    if options.table is None:
        yield from _records(entries, part.place.incarnation)
    else:
        layout = _layout(options)
        for entry in entries:
            if isinstance(entry.record, Updates) and entry.record.table == options.table:
                yield aligned(with_positions(entry.record.batch, entry.first), layout)
    if LogExtent.of(log).relation(part.place) is not PlaceRelation.HELD:
        raise LogError(
            f"the log at {options.path} was replaced while positions {part.first} to {part.end} were read; start again"
        )


def _records(entries: Iterator[Entry], incarnation: int) -> Iterator[pa.RecordBatch]:
    """Entries as rows of the stream, together in batches of some megabytes."""
    held: list[tuple[int, int, int, str, bytes, int]] = []
    size = 0
    for entry in entries:
        for first, record in _pieces(entry):
            encoded = encode(record)
            body = b"".join(encoded.body)
            held.append((first, encoded.rows, int(encoded.kind), encoded.subject, body, incarnation))
            size += len(body)
            if size >= BATCH_BYTES:
                yield _batch(held)
                held, size = [], 0
    if held:
        yield _batch(held)


def _pieces(entry: Entry) -> Iterator[tuple[int, Record]]:
    match entry.record:
        case Updates(table, batch):
            step = _piece_rows(batch)
            for at in range(0, batch.num_rows, step):
                yield entry.first + at, Updates(table, batch.slice(at, step))
        case Quarantined(table, batch):
            step = _piece_rows(batch)
            for at in range(0, batch.num_rows, step):
                yield entry.first + at, Quarantined(table, batch.slice(at, step))
        case other:
            yield entry.first, other


def _piece_rows(batch: pa.RecordBatch) -> int:
    """How many rows go together, so that a piece has few enough rows and bytes."""
    fitting = int(batch.num_rows * BATCH_BYTES // max(batch.nbytes, 1))
    return max(1, min(PIECE_ROWS, fitting))


def _batch(rows: list[tuple[int, int, int, str, bytes, int]]) -> pa.RecordBatch:
    columns = zip(zip(*rows, strict=True), RECORDS, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in columns], schema=RECORDS)


def stored_records(batch: pa.RecordBatch) -> Iterator[StoredRecord]:
    """The records in a batch of the stream, still encoded."""
    positions, rows, kinds, subjects = (batch.column(k).to_pylist() for k in range(4))
    bodies = batch.column(4)
    for k, position in enumerate(positions):
        body = memoryview(bodies[k].as_buffer())
        yield StoredRecord(Position(position), rows[k], RecordKind(kinds[k]), subjects[k], body)


def batch_incarnation(batch: pa.RecordBatch) -> int:
    """The incarnation of the log at the end of the micro-batch that a batch of the stream belongs to."""
    return int(batch.column(5)[0].as_py()) if batch.num_rows else FORMER


def _layout(options: LogOptions) -> pa.Schema:
    if options.table is None:
        return RECORDS
    tables = opened(str(options.path)).catalog()
    table = tables.find(options.table)
    if table is None:
        names = ", ".join(known.name for known in tables) or "none"
        raise SchemaError(f"there is no table {options.table!r} in the log at {options.path}; there are: {names}")
    return pa.schema([field.with_nullable(True) for field in stored_updates(table)])


def _count(name: str, text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise LogError(f"the option {name} must be a whole number of {least} or more, not {text!r}")
    return int(text)
