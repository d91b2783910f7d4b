"""Settling: recent rows are worked into *latest*, sorted into *history* and *quarantine* by date, small files merged.

One Spark job of two stages. In the first, tasks read recent files, write them by date, and send the last rows of
their keys to the buckets of *latest*; other tasks put small files together. In the second, each bucket that got
something is written anew. Then one commit makes all of it the truth at once, at the same position: what can be read
does not change by it, only where it is kept.

What a settling does depends on the manifest alone and its files are named after their inputs, so one that was killed
in the middle is done again with the same result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from slackwater.pipeline.tables import compaction
from slackwater.pipeline.tables.columns import STORED_QUARANTINE, stored_updates
from slackwater.pipeline.tables.history import dated_path, write_dated
from slackwater.pipeline.tables.latest import Fold, bucket_count, send, send_all, send_report
from slackwater.pipeline.tables.layout import Kind, ParquetFile, aligned_table, made_from, read_rows, span_name
from slackwater.pipeline.tables.manifest import (
    Bucket,
    DataFile,
    DatedFile,
    ManifestState,
    RecentFile,
    Settled,
    TableState,
)
from slackwater.pipeline.tables.reports import Dated, Folded, Report
from slackwater.pipeline.tables.store import TableStore
from slackwater.pipeline.tables.tasks import OnSpark, Task, TaskRunner

TASK_ROWS = 500_000
"""Recent rows that one task works in."""


@dataclass(frozen=True, slots=True)
class WorkIn:
    """A task: sort recent files of one table by date; `fold` is None for refused rows."""

    kind: Kind
    table: str
    schema: pa.Schema
    files: tuple[DataFile, ...]
    fold: Fold | None

    def run(self, folder: Path) -> Iterator[pa.RecordBatch]:
        """Write by date, and send to the buckets."""
        rows = read_rows(folder, [file.path for file in self.files], self.schema)
        span = min(file.first for file in self.files), max(file.end for file in self.files)
        name = f"{span_name(*span)}-{made_from(file.path for file in self.files)}"
        for report in write_dated(folder, self.kind, self.table, rows, name, span):
            yield send_report(report)
        if self.fold is not None:
            yield from send(rows, self.fold)


@dataclass(frozen=True, slots=True)
class Merge:
    """A task: put files of one table and date together."""

    kind: Kind
    schema: pa.Schema
    files: tuple[DatedFile, ...]

    def run(self, folder: Path) -> Iterator[pa.RecordBatch]:
        """Copy row group by row group, so that memory does not grow with the files."""
        one, paths = self.files[0], tuple(one.file.path for one in self.files)
        spans = [(one.file.first, one.file.end) for one in self.files if one.file.first >= 0]
        span = (min(first for first, _ in spans), max(end for _, end in spans)) if spans else (-1, -1)
        name = f"{span_name(*span) if spans else 'merged'}-{made_from(paths)}"
        path = dated_path(self.kind, one.table, one.date, name)
        merged = ParquetFile(folder / path, self.schema)
        try:
            for source in paths:
                with pq.ParquetFile(folder / source) as file:
                    for batch in file.iter_batches():
                        merged.write(aligned_table(pa.Table.from_batches([batch]), self.schema))
        except BaseException:
            merged.abandon()
            raise
        merged.close()
        yield send_report(
            Dated(self.kind, DatedFile(one.table, one.date, DataFile(path, merged.rows, *span)), merged=paths)
        )


@dataclass(frozen=True, slots=True)
class Resize:
    """A task: have every bucket of a table written, because their number changes."""

    fold: Fold

    def run(self, folder: Path) -> Iterator[pa.RecordBatch]:
        """Ask each bucket."""
        yield from send_all(self.fold)


def settle(store: TableStore, run: TaskRunner, *, thorough: bool = False) -> None:
    """Work in everything that is recent; `thorough` also puts all small files of a date together."""
    tasks, folds = plan(store.state, thorough=thorough)
    if tasks:
        reports = run(store, tasks, folds)
        replaced = [one.file.path for one in store.state.manifest.recent]
        settled = after(store.state.settled, folds, reports, replaced)
        commit_settled(store, settled, recent=())


def compact(folder: Path | str, where: SparkSession | TaskRunner) -> None:
    """Settle everything and leave as few files for each table and date as there can be."""
    run = OnSpark(where) if isinstance(where, SparkSession) else where
    with TableStore(Path(folder).absolute()) as store:
        settle(store, run, thorough=True)
        settle(store, run, thorough=True)
        tidy(store)


def tidy(store: TableStore) -> None:
    """Remove replaced files now, when no more settling will come."""
    if store.state.settled.retired:
        commit_settled(store, replace(store.state.settled, retired=()))


def commit_settled(store: TableStore, settled: Settled, recent: Sequence[RecentFile] | None = None) -> None:
    """Make the lists count, and remove the files that had been replaced the time before."""
    retired = store.state.settled.retired
    store.commit(settled=settled, recent=recent, batches=0 if recent == () else None)
    store.remove(retired)


def plan(state: ManifestState, *, thorough: bool = False) -> tuple[list[Task], dict[str, Fold]]:
    """The pending work, as a function of the state."""
    tasks: list[Task] = []
    resized = (fold_of(one, one.keys) for one in state.settled.tables)
    folds = {fold.schema.name: fold for fold in resized if fold.count != fold.state.count}
    tasks += [Resize(fold) for fold in folds.values()]
    for kind in Kind:
        files: dict[str, list[DataFile]] = {}
        for one in state.recent(kind):
            files.setdefault(one.table, []).append(one.file)
        for table, own in files.items():
            fold = None
            schema = STORED_QUARANTINE
            if kind is Kind.UPDATES:
                table_state = state.settled.table(table)
                fold = folds[table] = fold_of(table_state, table_state.keys)
                schema = stored_updates(fold.schema)
            tasks += [WorkIn(kind, table, schema, tuple(part), fold) for part in _portions(own)]
        for group in compaction.due(state.settled.dated(kind), thorough=thorough):
            layout = (
                stored_updates(state.settled.table(group[0].table).schema)
                if kind is Kind.UPDATES
                else STORED_QUARANTINE
            )
            tasks.append(Merge(kind, layout, tuple(group)))
    return tasks, folds


def fold_of(state: TableState, keys: int) -> Fold:
    """How a table is folded when it has about so many keys."""
    return Fold(state, bucket_count(state.count, keys))


def after(settled: Settled, folds: dict[str, Fold], reports: Sequence[Report], replaced: Sequence[str]) -> Settled:
    """The lists once the reported files count."""
    gone = list(replaced)
    for kind in Kind:
        added = [report for report in reports if isinstance(report, Dated) and report.kind is kind]
        merged = {path for report in added for path in report.merged}
        files = [one for one in settled.dated(kind) if one.file.path not in merged]
        files += [report.file for report in added]
        gone += sorted(merged)
        settled = (
            replace(settled, history=tuple(files))
            if kind is Kind.UPDATES
            else replace(settled, quarantine=tuple(files))
        )
    written: dict[str, list[Bucket]] = {}
    for report in reports:
        if isinstance(report, Folded):
            written.setdefault(report.table, []).append(report.bucket)
    for table, buckets in written.items():
        fold = folds[table]
        numbers = {bucket.number for bucket in buckets}
        kept = [] if fold.count != fold.state.count else [one for one in fold.state.latest if one.number not in numbers]
        gone += [one.file.path for one in fold.state.latest if one not in kept]
        latest = tuple(sorted((*kept, *buckets), key=lambda one: one.number))
        settled = settled.with_table(replace(fold.state, count=fold.count, latest=latest))
    return replace(settled, retired=tuple(gone))


def _portions(files: list[DataFile]) -> Iterator[list[DataFile]]:
    """Cut a list of files into portions for tasks."""
    portion: list[DataFile] = []
    rows = 0
    for file in files:
        if portion and rows + file.rows > TASK_ROWS:
            yield portion
            portion, rows = [], 0
        portion.append(file)
        rows += file.rows
    if portion:
        yield portion
