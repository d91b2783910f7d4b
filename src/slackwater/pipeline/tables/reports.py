"""Task reports: a few small values for each written file, from tasks to the driver; rows never go there."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructField, StructType

from slackwater.core.lineage import FORMER
from slackwater.core.schema import TableSchema
from slackwater.pipeline.tables.layout import Kind
from slackwater.pipeline.tables.manifest import Bucket, DatedFile, RecentFile


class Covered(msgspec.Struct, frozen=True, tag=True):
    """These positions of the log were read; the micro-batch ends in this incarnation."""

    first: int
    end: int
    incarnation: int = FORMER


class Defined(msgspec.Struct, frozen=True, tag=True):
    """At this position a table was created, or changed."""

    first: int
    schema: TableSchema


class Dropped(msgspec.Struct, frozen=True, tag=True):
    """At this position a table was dropped."""

    first: int
    table: str


class Kept(msgspec.Struct, frozen=True, tag=True):
    """A file of recent rows was written; `first` is its first position."""

    first: int
    recent: RecentFile


class Dated(msgspec.Struct, frozen=True, tag=True):
    """A file of rows of one date was written, made from these files (none if from rows that came in)."""

    kind: Kind
    file: DatedFile
    merged: tuple[str, ...] = ()


class Folded(msgspec.Struct, frozen=True, tag=True):
    """A bucket of latest rows was written."""

    table: str
    bucket: Bucket


class Admitted(msgspec.Struct, frozen=True, tag=True):
    """Outcome of a part of a file that is loaded under this name; `highest` is the highest number in it."""

    name: str
    accepted: int
    quarantined: int
    repeats: int
    highest: int
    ignored_columns: tuple[str, ...] = ()


Report: TypeAlias = Covered | Defined | Dropped | Kept | Dated | Folded | Admitted

_COLUMN = pa.schema([pa.field("report", pa.binary())])
SPARK_COLUMN = StructType([StructField("report", BinaryType())])
"""A value, not text: Spark would parse the text anew for every micro-batch."""


def as_rows(reports: Iterable[Report]) -> Iterator[pa.RecordBatch]:
    """Reports as the output of a task."""
    encoded = [msgspec.json.encode(report) for report in reports]
    if encoded:
        yield pa.RecordBatch.from_arrays([pa.array(encoded, pa.binary())], schema=_COLUMN)


def encode_report(report: Report) -> bytes:
    """One report as bytes."""
    return msgspec.json.encode(report)


def from_rows(batches: Iterable[pa.RecordBatch]) -> list[Report]:
    """Reports from the output of a task."""
    return [msgspec.json.decode(body, type=Report) for batch in batches for body in batch.column(0).to_pylist()]


def collect(frame: DataFrame) -> list[Report]:
    """Run the tasks and gather what they report."""
    return [msgspec.json.decode(row[0], type=Report) for row in frame.collect()]
