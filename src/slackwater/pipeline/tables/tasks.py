"""Two-stage job: tasks that write files and shuffle rows to the buckets of *latest*, and the bucket writers.

`OnSpark` runs it on a cluster or on this machine's cores, `InProcess` one task after the other in this process: the
plain twin, for tests and for looking at a single step.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from slackwater.pipeline.tables.latest import SENT, SPARK_SENT, Fold, Folding, fold_sent
from slackwater.pipeline.tables.reports import Report, collect, from_rows
from slackwater.pipeline.tables.store import TableStore


class Task(Protocol):
    """Something to do on an executor. A value that can be sent there; doing it twice is doing it once."""

    def run(self, folder: Path) -> Iterator[pa.RecordBatch]:
        """Do it; yield what `latest.send` and its siblings make."""
        ...


class TaskRunner(Protocol):
    """Runs the tasks and folds what they send; returns what all of them report."""

    def __call__(self, store: TableStore, tasks: Sequence[Task], folds: Mapping[str, Fold]) -> list[Report]:
        """Run a job."""
        ...


@dataclass(frozen=True)
class OnSpark:
    """Runs each task in a Spark task of its own."""

    session: SparkSession

    def __call__(self, store: TableStore, tasks: Sequence[Task], folds: Mapping[str, Fold]) -> list[Report]:
        """Run a job."""
        # What a single task sends can be folded where it is.
        width = max(self.session.sparkContext.defaultParallelism, 2) if len(tasks) > 1 else 1
        numbers = self.session.range(0, len(tasks), 1, len(tasks))
        sent = numbers.mapInArrow(_Running(str(store.folder), tuple(tasks)), SPARK_SENT)
        return collect(fold_sent(sent, store.folder, folds, store.next_version, width))


class InProcess:
    """Runs one task after the other, here."""

    def __call__(self, store: TableStore, tasks: Sequence[Task], folds: Mapping[str, Fold]) -> list[Report]:
        """Run a job."""
        sent = [batch for task in tasks for batch in task.run(store.folder)]
        rows = pa.Table.from_batches(sent, SENT).sort_by([("table", "ascending"), ("bucket", "ascending")])
        return from_rows(Folding(str(store.folder), dict(folds), store.next_version)(iter(rows.to_batches())))


@dataclass(frozen=True)
class _Running:
    """Runs the tasks whose numbers come in; a value, so that Spark can send it to executors."""

    folder: str
    tasks: tuple[Task, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.tasks[number].run(Path(self.folder))
