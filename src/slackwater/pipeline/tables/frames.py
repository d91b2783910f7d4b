"""Stored tables as Spark DataFrames: the same rows as `snapshot`, read by the executors."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from slackwater.core.arrow import OPERATION
from slackwater.pipeline.tables.columns import STORED_QUARANTINE, stored_updates
from slackwater.pipeline.tables.snapshot import TableSnapshot, snapshot


def latest_frame(session: SparkSession, folder: Path | str, table: str) -> DataFrame:
    """The last row of every key of a table, one task for each bucket."""
    now = snapshot(folder)
    state = now.state.settled.table(table)
    schema = stored_updates(state.schema)
    schema = schema.remove(schema.get_field_index(OPERATION))
    return session.range(0, state.count, 1, state.count).mapInArrow(_Buckets(now, table), spark_schema(schema))


def history_frame(session: SparkSession, folder: Path | str, table: str) -> DataFrame:
    """Every update of a table."""
    return history_at(session, snapshot(folder), table)


def history_at(session: SparkSession, now: TableSnapshot, table: str) -> DataFrame:
    """Every update of a table as of one state of the folder."""
    return _parquet(session, now.history_files(table), stored_updates(now.table(table)))


def quarantine_frame(session: SparkSession, folder: Path | str, table: str | None = None) -> DataFrame:
    """Every refused row, of all tables or of one."""
    return _parquet(session, snapshot(folder).quarantine_files(table), STORED_QUARANTINE)


def spark_schema(schema: pa.Schema) -> StructType:
    """The schema as Spark writes it; every column may be null there, as in files from before it was added."""
    return from_arrow_schema(pa.schema([field.with_nullable(True) for field in schema]))


@dataclass(frozen=True)
class _Buckets:
    now: TableSnapshot
    table: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        state = self.now.state.settled.table(self.table)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.now.latest_bucket(state, number).to_batches()


def _parquet(session: SparkSession, files: list[Path], schema: pa.Schema) -> DataFrame:
    if not files:
        return session.createDataFrame([], spark_schema(schema))
    return session.read.schema(spark_schema(schema)).parquet(*(str(file.absolute()) for file in files))
