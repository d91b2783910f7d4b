"""Learning job: statistics of a trace on Spark, files or *history* → one `Statistics` for each numeric column.

Design
    Summaries of consecutive stretches of time can be merged exactly (`statistics.base`), so a trace is cut by time,
    each piece is summarised by a task, and the driver merges pieces in order, one at a time. The classes are the same
    that a single process would use; Spark only carries pieces.

    *In file order.* Most traces stand in order of time. Then the parts of the files (row groups) are such stretches
    already, and no row moves: each task reads its part, admits it and sends one piece.

    *By time.* If a piece does not follow the one before, the trace is read again, this time dealt out by ranges of
    time and sorted inside them. That costs a shuffle; it is found out, not asked for.

    The driver holds one merged summary and one piece (`pieces`): its memory depends on the number of items, not of
    rows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession

from slackwater.admission import Seen, admit
from slackwater.core.arrow import EVENT_TIME, INSTANT, OPERATION
from slackwater.core.errors import SourceError, StatisticsError, TooManyItems
from slackwater.core.schema import TableSchema
from slackwater.core.types import Instant
from slackwater.core.update import Operation
from slackwater.pipeline.jobs.file_parts import FilePart, parts_of
from slackwater.pipeline.jobs.summary_pieces import SummaryPiece, pieces_of
from slackwater.sources import FileSource, Reading
from slackwater.statistics import Rules, Statistics, Ticks

PIECES_A_CORE = 8
"""Stretches of time that a core gets one after the other."""
USUAL_GAP = 20
"""A gap is this many usual intervals between two updates of an item, by default."""
SAMPLE_ROWS = 50_000
BATCH_ROWS = 100_000

ITEM, TIME = "$item", "$time"


@dataclass(frozen=True, slots=True)
class Course:
    """The columns to learn and the rules; times in microseconds. `period` None leaves out the pairs."""

    table: TableSchema
    columns: tuple[str, ...]
    longest_gap: int | None = None
    half_life: int | None = None
    period: int | None = None
    tick: int | None = None

    def __post_init__(self) -> None:
        if not self.columns:
            raise SourceError(f"table {self.table.name} has no numeric column to learn from")

    def begin(self, column: str) -> Statistics:
        """An empty summary of one column."""
        rules = Rules(self.longest_gap, self.half_life)
        return Statistics(self.table.name, column, rules, period=self.period, tick=self.tick)


@dataclass(frozen=True, slots=True)
class Lesson:
    """How far learning is: pieces merged, of how many, and rows counted."""

    pieces: int
    total: int
    rows: int


@dataclass(slots=True)
class LearntStatistics:
    """The statistics by column, and the counters of the run."""

    statistics: dict[str, Statistics]
    rows: int = 0
    sorted_by_time: bool = False


def numeric_columns(table: TableSchema) -> tuple[str, ...]:
    """The columns that statistics make sense for."""
    return tuple(column.name for column in table.values if column.type.numeric)


def usual_interval(reading: Reading, now: Instant) -> int | None:
    """The median time between two updates of an item, in microseconds, from the beginning of a file."""
    for arrival in FileSource(reading, batch_rows=SAMPLE_ROWS).arrivals():
        rows = admit(arrival, reading.schema, Seen(), now).accepted
        if rows.num_rows:
            return _median_step(rows, reading.schema)
    return None


def interval_of_history(history: ds.Dataset, table: TableSchema) -> int | None:
    """The same for rows of *history*."""
    rows = history.head(SAMPLE_ROWS).combine_chunks().to_batches()
    return _median_step(rows[0], table) if rows else None


def _median_step(rows: pa.RecordBatch, table: TableSchema) -> int | None:
    ticks = Ticks.of(_items(rows, table), rows.column(EVENT_TIME), pa.array(np.zeros(rows.num_rows)))
    steps = np.diff(ticks.times)
    inside = np.ones(len(steps), np.bool_)
    inside[ticks.starts[1:-1] - 1] = False
    steps = steps[inside & (steps > 0)]
    return int(np.median(steps)) if len(steps) else None


def learn_files(
    readings: Sequence[Reading],
    course: Course,
    session: SparkSession,
    now: Instant,
    progress: Callable[[Lesson], None] | None = None,
    scratch: Path | None = None,
) -> LearntStatistics:
    """Learn from files that belong to one table; `scratch` as in `pieces_of`."""
    for reading in readings:
        if reading.lacks_timezone:
            raise SourceError(f"times in {reading.path} carry no time zone: say which, for example UTC")
    parts = tuple(part for reading in readings for part in parts_of(reading))
    tasks = min(len(parts), _pieces(session))
    numbers = session.range(0, len(parts), 1, tasks)
    read = _PartReader(parts, course, now)
    try:
        return _merged(numbers, tasks, _Summarise(course, read), progress, scratch)
    except TooManyItems:
        raise
    except StatisticsError:
        return _by_time(read.frame(numbers), course, progress, scratch)


def learn_history(
    history: DataFrame,
    course: Course,
    progress: Callable[[Lesson], None] | None = None,
    scratch: Path | None = None,
) -> LearntStatistics:
    """Learn from *history*, which has no order: its rows are dealt out by time."""
    kept = history.filter(history[OPERATION] == int(Operation.UPSERT))
    return _by_time(kept.mapInArrow(_Ticks(course), _ticks_schema(course)), course, progress, scratch)


def _pieces(session: SparkSession) -> int:
    return max(2, session.sparkContext.defaultParallelism * PIECES_A_CORE)


def _by_time(
    ticks: DataFrame, course: Course, progress: Callable[[Lesson], None] | None, scratch: Path | None
) -> LearntStatistics:
    count = _pieces(ticks.sparkSession)
    # Whole bins of the similarity's grid stay together: a bin must not be cut between two pieces.
    bin_ = (ticks[TIME] / (course.period or 1)).cast("long")
    dealt = ticks.withColumn("$bin", bin_).repartitionByRange(count, "$bin").sortWithinPartitions(TIME, ITEM)
    learnt = _merged(dealt.drop("$bin"), count, _Summarise(course, None), progress, scratch)
    learnt.sorted_by_time = True
    return learnt


def _merged(
    frame: DataFrame,
    total: int,
    summarise: "_Summarise",
    progress: Callable[[Lesson], None] | None,
    scratch: Path | None,
) -> LearntStatistics:
    course = summarise.course
    learnt = LearntStatistics({column: course.begin(column) for column in course.columns})
    with pieces_of(frame, total, summarise, scratch) as pieces:
        for merged, piece in enumerate(pieces, 1):
            for statistics, summary in zip(learnt.statistics.values(), piece.summaries, strict=True):
                statistics.merge(Statistics.from_bytes(summary))
            learnt.rows += piece.rows
            if progress is not None:
                progress(Lesson(merged, total, learnt.rows))
    return learnt


@dataclass(frozen=True)
class _PartReader:
    """Reads parts of files on executors: typed rows as (item, time, the columns)."""

    parts: tuple[FilePart, ...]
    course: Course
    now: Instant

    def frame(self, numbers: DataFrame) -> DataFrame:
        """All rows, to be sorted."""
        return numbers.mapInArrow(self, _ticks_schema(self.course))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for arrival in self.parts[number].arrivals():
                    admitted = admit(arrival, self.course.table, Seen(), self.now).accepted
                    if admitted.num_rows:
                        yield _as_ticks(admitted, self.course)


@dataclass(frozen=True)
class _Ticks:
    """Rows of history as (item, time, the columns)."""

    course: Course

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _as_ticks(batch, self.course)


@dataclass(frozen=True)
class _Summarise:
    """One piece for each task: rows as they come, or the parts of files whose numbers come."""

    course: Course
    read: _PartReader | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> SummaryPiece:
        pieces = {column: self.course.begin(column) for column in self.course.columns}
        rows = 0
        for batch in _larger(self.read(batches) if self.read is not None else batches):
            rows += batch.num_rows
            for column, piece in pieces.items():
                piece.update(Ticks.from_arrow(batch, ITEM, TIME, column))
        return SummaryPiece(rows, tuple(piece.to_bytes() for piece in pieces.values()))


def _larger(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches: each costs a part for its items."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= BATCH_ROWS:
            yield pa.concat_batches(held)
            held.clear()
    if held:
        yield pa.concat_batches(held)


def _as_ticks(rows: pa.RecordBatch, course: Course) -> pa.RecordBatch:
    columns = {
        ITEM: _items(rows, course.table),
        TIME: rows.column(EVENT_TIME).cast(INSTANT).cast(pa.int64()),
        **{column: rows.column(column).cast(pa.float64(), safe=False) for column in course.columns},
    }
    return pa.RecordBatch.from_pydict(columns)


def _items(rows: pa.RecordBatch, table: TableSchema) -> pa.Array:
    """Name of an item: its key, the parts of a composite one joined by a slash."""
    parts = [rows.column(name).cast(pa.string()) for name in table.key]
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")


def _ticks_schema(course: Course) -> str:
    columns = (f"`{column.replace('`', '``')}` double" for column in course.columns)
    return ", ".join([f"`{ITEM}` string, `{TIME}` long", *columns])
