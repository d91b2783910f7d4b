"""Fold of *latest*: the last rows of a task's keys shuffled to their buckets, each bucket rewritten.

Design
    A bucket is a Parquet file with the last row of every key whose hash falls there, deletions included: a deleted
    key must be remembered, or an older row that comes late would bring it back. A fold rewrites only buckets that
    got something. What travels between the two stages of the job is a few Arrow IPC messages, one for each bucket
    and task.

    The number of buckets is a power of two and follows the number of keys: bucket *b* of *n* splits into *b* and
    *b + n* of *2n* without looking at any other bucket. No task ever holds more than a bucket or two.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.functions import col

from slackwater.core.schema import TableSchema
from slackwater.pipeline.tables.columns import stored_updates
from slackwater.pipeline.tables.last_row import bucket_numbers, last_rows
from slackwater.pipeline.tables.layout import read_rows, table_folder, write_parquet
from slackwater.pipeline.tables.manifest import Bucket, DataFile, TableState
from slackwater.pipeline.tables.reports import SPARK_COLUMN, Folded, Report, as_rows, encode_report

BUCKET_KEYS = 500_000
"""Keys of a bucket before the number of buckets doubles."""
FOLD_ROWS = 1_000_000
"""Rows that are held of a bucket before they are folded."""
MESSAGE_BYTES = 32 * 1024 * 1024
"""Bytes of one message to a bucket, about: a byte string in Spark ends at 2 GiB."""

SENT = pa.schema([pa.field("table", pa.string()), pa.field("bucket", pa.int32()), pa.field("body", pa.binary())])
SPARK_SENT = "table string, bucket int, body binary"
_REPORT = -1
"""In place of a bucket: the body is a report that only passes through."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Where a table's latest rows are now, and into how many buckets they go."""

    state: TableState
    count: int

    @property
    def schema(self) -> TableSchema:
        """The table."""
        return self.state.schema


def bucket_count(present: int, keys: int) -> int:
    """How many buckets this many keys need, changing as rarely as possible.

    >>> bucket_count(1, 100), bucket_count(1, 1_200_000), bucket_count(8, 1_200_000), bucket_count(8, 100)
    (1, 4, 8, 1)
    """
    needed = 1
    while keys > needed * BUCKET_KEYS:
        needed *= 2
    return needed if needed > present or needed * 8 <= present else present


def send(rows: pa.Table, fold: Fold) -> Iterator[pa.RecordBatch]:
    """The last rows of these keys, one message for each bucket."""
    last = last_rows(rows, fold.schema)
    numbers = bucket_numbers(last, fold.schema, fold.count)
    for number in np.unique(numbers).tolist():
        part = last if fold.count == 1 else last.filter(pa.array(numbers == number))
        pieces = 1 + part.nbytes // MESSAGE_BYTES
        step = -(-part.num_rows // pieces)
        for at in range(0, part.num_rows, step):
            yield _sent(fold.schema.name, number, _packed(part.slice(at, step)))


def send_all(fold: Fold) -> Iterator[pa.RecordBatch]:
    """Ask for every bucket to be written, also those that get no row: their number changes."""
    empty = _packed(stored_updates(fold.schema).empty_table())
    for number in range(fold.count):
        yield _sent(fold.schema.name, number, empty)


def send_report(report: Report) -> pa.RecordBatch:
    """Pass a report through the second stage to the driver."""
    return _sent("", _REPORT, encode_report(report))


def fold_sent(sent: DataFrame, folder: Path, folds: Mapping[str, Fold], version: int, width: int) -> DataFrame:
    """The second stage: bring together what was sent to each bucket and write it; a frame of reports.

    `width` is into how many partitions to spread the buckets; 1 leaves everything where it is.
    """
    buckets = sum(fold.count for fold in folds.values())
    if buckets and width > 1:
        sent = sent.repartition(min(buckets, width), col("table"), col("bucket"))
    if buckets:
        sent = sent.sortWithinPartitions("table", "bucket")
    return sent.mapInArrow(Folding(str(folder), dict(folds), version), SPARK_COLUMN)


@dataclass(frozen=True)
class Folding:
    """Writes the buckets of one partition; a value, so that Spark can send it to executors."""

    folder: str
    folds: dict[str, Fold]
    version: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take what was sent, in order of table and bucket."""
        for (table, number), group in groupby(_received(batches), key=lambda one: (one[0], one[1])):
            if number == _REPORT:
                yield from (
                    pa.RecordBatch.from_pydict({"report": pa.array([body], pa.binary())}) for _, _, body in group
                )
            else:
                yield from as_rows(self._bucket(self.folds[table], number, (body for _, _, body in group)))

    def _bucket(self, fold: Fold, number: int, bodies: Iterator[bytes]) -> Iterator[Report]:
        schema = stored_updates(fold.schema)
        held = [_own(self._present(fold, number), fold, number)]
        count = 0
        for body in bodies:
            part = _unpacked(body)
            held.append(part.cast(schema))
            count += part.num_rows
            if count > FOLD_ROWS:
                held, count = [last_rows(pa.concat_tables(held), fold.schema)], 0
        rows = last_rows(pa.concat_tables(held).combine_chunks(), fold.schema)
        # By key: the same rows give the same file, and a reader can skip what it does not look for.
        rows = rows.take(pc.sort_indices(rows, [(name, "ascending") for name in fold.schema.key]))
        path = f"latest/{table_folder(fold.schema.name)}/{number:05d}-of-{fold.count:05d}-{self.version:020d}.parquet"
        write_parquet(Path(self.folder) / path, rows)
        yield Folded(fold.schema.name, Bucket(number, DataFile(path, rows.num_rows)))

    def _present(self, fold: Fold, number: int) -> pa.Table:
        """The rows of the buckets that this one comes from."""
        shared = min(fold.count, fold.state.count)
        paths = [one.file.path for one in fold.state.latest if one.number % shared == number % shared]
        return read_rows(Path(self.folder), paths, stored_updates(fold.schema))


def _own(rows: pa.Table, fold: Fold, number: int) -> pa.Table:
    if fold.count <= fold.state.count:
        return rows
    return rows.filter(pa.array(bucket_numbers(rows, fold.schema, fold.count) == number))


def _sent(table: str, bucket: int, body: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([table]), pa.array([bucket], pa.int32()), pa.array([body], pa.binary())], schema=SENT
    )


def _received(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, int, bytes]]:
    for batch in batches:
        bodies = batch.column(2)
        for k, (table, bucket) in enumerate(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)):
            yield table, bucket, bodies[k].as_py()


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _unpacked(body: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        return reader.read_all()
