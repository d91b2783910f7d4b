"""First stage of a micro-batch: its rows written as they came, one file for each table.

No shuffle, no reading of what is there: the cost of a micro-batch is that of its own rows. *Latest* and *history* are
those files on top of what was settled; `settle` works them in now and then.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from slackwater.core.types import Position
from slackwater.log import Quarantined, TableDefined, TableDropped, Updates, decode
from slackwater.log.base import Entry, cut
from slackwater.pipeline.source import batch_incarnation, stored_records
from slackwater.pipeline.tables.columns import with_positions, with_table
from slackwater.pipeline.tables.layout import Kind, span_name, table_folder, write_parquet
from slackwater.pipeline.tables.manifest import DataFile, RecentFile
from slackwater.pipeline.tables.reports import Covered, Defined, Dropped, Kept, Report, as_rows

_Held = dict[tuple[Kind, str], list[tuple[int, pa.RecordBatch]]]


@dataclass(frozen=True)
class KeepRecent:
    """Writes the records that come in, leaving out positions committed before; reports the files.

    A value, so that Spark can send it to executors. A file never reaches across a definition or the dropping of its
    table.
    """

    folder: str
    committed: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take the records of one task."""
        yield from as_rows(_kept(Path(self.folder), self.committed, batches))


def _kept(folder: Path, committed: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Report]:
    held: _Held = {}
    covered: Covered | None = None
    for batch in batches:
        incarnation = batch_incarnation(batch)
        for stored in stored_records(batch):
            end = stored.first + stored.rows
            if end <= committed:
                continue
            entry = cut(Entry(stored.first, decode(stored)), Position(committed), Position(end))
            if covered is not None and covered.end != entry.first:
                yield covered
                covered = None
            covered = Covered(entry.first if covered is None else covered.first, entry.end, incarnation)
            match entry.record:
                case Updates(table, rows):
                    held.setdefault((Kind.UPDATES, table), []).append((entry.first, rows))
                case Quarantined(table, rows):
                    held.setdefault((Kind.REFUSED, table), []).append((entry.first, with_table(rows, table)))
                case TableDefined(schema):
                    yield from _written(folder, held, (Kind.UPDATES, schema.name))
                    yield Defined(entry.first, schema)
                case TableDropped(table):
                    yield from _written(folder, held, (Kind.UPDATES, table))
                    yield Dropped(entry.first, table)
    if covered is not None:
        yield covered
    for key in list(held):
        yield from _written(folder, held, key)


def _written(folder: Path, held: _Held, key: tuple[Kind, str]) -> Iterator[Report]:
    parts = held.pop(key, None)
    if parts is None:
        return
    kind, table = key
    rows = pa.Table.from_batches([with_positions(part, first) for first, part in parts])
    first, end = parts[0][0], parts[-1][0] + parts[-1][1].num_rows
    path = f"recent/{kind}/{table_folder(table)}/{span_name(first, end)}.parquet"
    # Snappy: the file lives for a few batches only, and is written on the critical path of a batch.
    write_parquet(folder / path, rows, compression="snappy")
    yield Kept(first, RecentFile(kind, table, DataFile(path, rows.num_rows, first, end)))
