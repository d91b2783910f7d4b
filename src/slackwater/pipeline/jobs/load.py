"""Bulk load: years of data from files straight into *latest*, *history* and *quarantine*, by the executors.

Rows go through the same admission as everywhere and end in the same places, but not through the log: a log that had
to be written, read and dropped again would double the work and the disk for data without a waiting client. So

- a load has no positions (`$position` is null) and does not move the position. A reader of the log does not see it
  pass; they find it in *latest* and *history*. The manifest names the sources that were loaded.
- Because the last row of a key is a maximum over (event time, source, sequence), it does not matter whether a load
  comes before or after what the log brings.
- A folder that is built anew from the log alone lacks what was loaded: load it again.

*Again.* A file is known by its source's name, and its rows by their numbers. A file that looks as it did (size,
beginning and end) is passed over. One that grew is read, and only rows with higher numbers than before count; a cell
filled in later in a row below that mark is not seen. The same rows replayed through the log *and* loaded stand twice
in *history*, and once in *latest*: use one way for a file.

Files are taken in waves, each a Spark job and a commit of its own: a load that was killed goes on with the next file.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from slackwater.admission import Limits, Seen, admit
from slackwater.core.arrival import Arrival
from slackwater.core.arrow import SEQUENCE
from slackwater.core.errors import SourceError
from slackwater.core.types import Instant
from slackwater.pipeline.jobs.file_parts import FilePart, Fingerprint, most_keys, parts_of
from slackwater.pipeline.tables.columns import with_table, without_positions
from slackwater.pipeline.tables.history import write_dated
from slackwater.pipeline.tables.latest import Fold, send, send_report
from slackwater.pipeline.tables.layout import Kind
from slackwater.pipeline.tables.manifest import Loaded, Settled, TableState
from slackwater.pipeline.tables.reports import Admitted
from slackwater.pipeline.tables.settle import Resize, after, commit_settled, fold_of, settle, tidy
from slackwater.pipeline.tables.store import TableStore
from slackwater.pipeline.tables.tasks import OnSpark, TaskRunner
from slackwater.sources import Reading, Shape

CHUNK_ROWS = 500_000
"""Rows that a task holds before it writes them."""
WAVE_PARTS = 256
"""Parts of files that are taken in one job, unless one file has more."""


@dataclass(frozen=True, slots=True)
class LoadReceipt:
    """Outcome of a load, once it is durable. `unchanged` files had been loaded before."""

    files: int = 0
    unchanged: int = 0
    accepted: int = 0
    quarantined: int = 0
    repeats: int = 0
    ignored_columns: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """All rows that were read."""
        return self.accepted + self.quarantined + self.repeats


def load(
    readings: Sequence[Reading],
    out_folder: Path | str,
    where: SparkSession | TaskRunner,
    now: Instant,
    *,
    limits: Limits | None = None,
    progress: Callable[[LoadReceipt], None] | None = None,
) -> LoadReceipt:
    """Load files into a folder of latest, history and quarantine; doing it again changes nothing.

    `where` it runs is a Spark session, or `InProcess()` for files that are not worth one. `now` is the moment of
    admission. `progress` is called after each wave.
    """
    _check(readings)
    receipt = LoadReceipt()
    run = OnSpark(where) if isinstance(where, SparkSession) else where
    with TableStore(Path(out_folder).absolute()) as store:
        for wave in _waves(_files(store.state.settled, readings)):
            receipt = _take(store, run, wave, now, limits or Limits(), receipt)
            if progress is not None:
                progress(receipt)
        settle(store, run)
        tidy(store)
    return replace(receipt, files=len(readings), unchanged=len(readings) - receipt.files)


@dataclass(frozen=True, slots=True)
class _File:
    """A file to be loaded: its parts, what was loaded of it before, and what it looks like now."""

    reading: Reading
    parts: tuple[FilePart, ...]
    before: Loaded | None
    now: Fingerprint

    @property
    def name(self) -> str:
        """Name of the files made from it: the same every time this load is tried."""
        known = (self.reading.schema.name, self.reading.source, self.upto, self.now.size, self.now.checksum)
        return f"load-{hashlib.blake2b(repr(known).encode(), digest_size=8).hexdigest()}"

    @property
    def upto(self) -> int:
        """Rows with numbers up to this one are here already."""
        return -1 if self.before is None else self.before.upto


@dataclass(frozen=True, slots=True)
class AdmitPart:
    """A task: admit a part of a file, write its rows by date, send the last ones to their buckets."""

    part: FilePart
    name: str
    number: int
    upto: int
    now: Instant
    limits: Limits
    fold: Fold

    def run(self, folder: Path) -> Iterator[pa.RecordBatch]:
        """Hold at most a chunk of rows at a time."""
        table = self.fold.schema
        kept = _Chunks(folder, Kind.UPDATES, table.name, f"{self.name}-{self.number:05d}")
        refused = _Chunks(folder, Kind.REFUSED, table.name, f"{self.name}-{self.number:05d}")
        seen = Seen() if self.upto < 0 else Seen(np.array([0], np.int64), np.array([self.upto], np.int64))
        report = Admitted(self.name, 0, 0, 0, self.upto)
        for arrival in self.part.arrivals():
            result = admit(arrival, table, seen, self.now, self.limits)
            report = Admitted(
                self.name,
                report.accepted + result.accepted.num_rows,
                report.quarantined + result.quarantined.num_rows,
                report.repeats + result.repeats,
                max(report.highest, _highest(arrival)),
                tuple(dict.fromkeys((*report.ignored_columns, *result.ignored_columns))),
            )
            for rows in kept.add(without_positions(result.accepted)):
                yield from self._written(kept, rows)
            for rows in refused.add(without_positions(with_table(result.quarantined, table.name))):
                yield from self._written(refused, rows)
        for chunks in (kept, refused):
            for rows in chunks.rest():
                yield from self._written(chunks, rows)
        yield send_report(report)

    def _written(self, chunks: "_Chunks", rows: pa.Table) -> Iterator[pa.RecordBatch]:
        for report in write_dated(chunks.folder, chunks.kind, chunks.table, rows, chunks.next_name(), (-1, -1)):
            yield send_report(report)
        if chunks.kind is Kind.UPDATES:
            yield from send(rows, self.fold)


class _Chunks:
    """Gathers batches until there are enough rows for a file."""

    def __init__(self, folder: Path, kind: Kind, table: str, name: str) -> None:
        self.folder, self.kind, self.table = folder, kind, table
        self._name, self._written = name, 0
        self._held: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        """Take a batch; yield the rows when there are enough."""
        if batch.num_rows:
            self._held.append(batch)
            self._rows += batch.num_rows
        if self._rows >= CHUNK_ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[pa.Table]:
        """Yield what is held, if anything."""
        if self._held:
            rows = pa.Table.from_batches(self._held)
            self._held, self._rows = [], 0
            yield rows

    def next_name(self) -> str:
        """The name of the next chunk's files."""
        self._written += 1
        return f"{self._name}-{self._written:05d}"


def _check(readings: Sequence[Reading]) -> None:
    known: set[tuple[str, str]] = set()
    for reading in readings:
        if reading.lacks_timezone:
            raise SourceError(f"times in {reading.path} carry no time zone: say which, for example UTC")
        if (reading.schema.name, reading.source) in known:
            raise SourceError(
                f"two files for table {reading.schema.name} are both called {reading.source}; rows are known by file "
                f"and number, so give each its own source name"
            )
        known.add((reading.schema.name, reading.source))


def _files(settled: Settled, readings: Sequence[Reading]) -> list[_File]:
    """The files that are not here as they are; one that cannot be opened is reported before any is taken."""
    before = {(one.table, one.source): one for one in settled.loads}
    found = []
    for reading in readings:
        known, looks = before.get((reading.schema.name, reading.source)), Fingerprint.of(reading.path)
        if known is not None and (known.size, known.checksum) == (looks.size, looks.checksum):
            continue
        reading = replace(reading, path=reading.path.absolute())
        found.append(_File(reading, tuple(parts_of(reading)), known, looks))
    return found


def _waves(files: list[_File]) -> Iterator[list[_File]]:
    """Some at a time."""
    wave: list[_File] = []
    for file in files:
        wave.append(file)
        if sum(len(one.parts) for one in wave) >= WAVE_PARTS:
            yield wave
            wave = []
    if wave:
        yield wave


def _take(
    store: TableStore, run: TaskRunner, wave: list[_File], now: Instant, limits: Limits, receipt: LoadReceipt
) -> LoadReceipt:
    settled = store.state.settled
    keys: dict[str, int] = {}
    for file in wave:
        settled = settled.with_table(_table(settled, file.reading, store.state.position))
        keys[file.reading.schema.name] = keys.get(file.reading.schema.name, 0) + most_keys(file.reading)
    folds = {table: fold_of(settled.table(table), settled.table(table).keys + most) for table, most in keys.items()}
    tasks = [
        AdmitPart(part, file.name, number, file.upto, now, limits, folds[file.reading.schema.name])
        for file in wave
        for number, part in enumerate(file.parts)
    ]
    resized = [Resize(fold) for fold in folds.values() if fold.count != fold.state.count and fold.state.latest]
    reports = run(store, [*tasks, *resized], folds)
    admitted = [report for report in reports if isinstance(report, Admitted)]
    settled = _noted(after(settled, folds, reports, ()), wave, admitted)
    commit_settled(store, settled)
    return LoadReceipt(
        receipt.files + len(wave),
        0,
        receipt.accepted + sum(one.accepted for one in admitted),
        receipt.quarantined + sum(one.quarantined for one in admitted),
        receipt.repeats + sum(one.repeats for one in admitted),
        tuple(dict.fromkeys([*receipt.ignored_columns, *(name for one in admitted for name in one.ignored_columns)])),
    )


def _table(settled: Settled, reading: Reading, position: int) -> TableState:
    """The table that a file goes into: as it is here, else as the file says."""
    present = settled.find(reading.schema.name)
    if present is None:
        return TableState(reading.schema, position)
    if reading.shape is Shape.WIDE and present.schema != reading.schema:
        present.schema.check_change(reading.schema)
        return replace(present, schema=reading.schema)
    return present


def _noted(settled: Settled, wave: list[_File], admitted: Sequence[Admitted]) -> Settled:
    """The lists with the files of a wave among the loads."""
    loads = {(one.table, one.source): one for one in settled.loads}
    for file in wave:
        table, source = file.reading.schema.name, file.reading.source
        highest = max((one.highest for one in admitted if one.name == file.name), default=-1)
        loads[table, source] = Loaded(table, source, max(file.upto, highest), file.now.size, file.now.checksum)
    return replace(settled, loads=tuple(loads.values()))


def _highest(arrival: Arrival) -> int:
    """The highest number among rows and refusals."""
    own = pc.max(arrival.batch.column(SEQUENCE)).as_py() if arrival.batch.num_rows else None
    refused = [refusal.sequence for refusal in arrival.refused if refusal.sequence is not None]
    return max(-1 if own is None else own, *refused, -1)
