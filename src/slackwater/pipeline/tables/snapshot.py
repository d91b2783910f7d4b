"""Snapshot reader: *latest*, *history* and *quarantine* as of a position, without Spark.

A `TableSnapshot` is what one manifest says. A pipeline that goes on does not change it; but after two more settlings
files that it names may be gone. Then read anew.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from slackwater.core.arrow import OPERATION
from slackwater.core.errors import StoreError
from slackwater.core.lineage import Place
from slackwater.core.schema import TableSchema
from slackwater.core.update import Operation
from slackwater.pipeline.tables.columns import STORED_QUARANTINE, stored_updates
from slackwater.pipeline.tables.last_row import bucket_numbers, last_rows
from slackwater.pipeline.tables.layout import Kind, read_rows
from slackwater.pipeline.tables.manifest import ManifestState, TableState, need_state

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """The tables of a folder, as of a position."""

    folder: Path
    state: ManifestState

    @property
    def position(self) -> int:
        """Everything before it in the log, and nothing behind it, is here."""
        return self.state.position

    @property
    def place(self) -> Place:
        """The same with the incarnation of the log there: a position alone does not identify a history."""
        return self.state.place

    @property
    def tables(self) -> tuple[TableSchema, ...]:
        """The tables."""
        return tuple(state.schema for state in self.state.settled.tables)

    def table(self, name: str) -> TableSchema:
        """The table of this name; the error for an unknown one lists the tables."""
        return self.state.settled.table(name).schema

    def latest(self, table: str) -> pa.Table:
        """The last row of every key that is not deleted; without `$op`, which is constant here."""
        parts = list(self.latest_parts(table))
        return pa.concat_tables(parts)

    def latest_parts(self, table: str) -> Iterator[pa.Table]:
        """The same, bucket by bucket."""
        state = self.state.settled.table(table)
        for number in range(state.count):
            yield self.latest_bucket(state, number)

    def latest_bucket(self, state: TableState, number: int) -> pa.Table:
        """The last rows of the keys in one bucket: those settled, and the recent ones on top."""
        table, schema = state.schema, stored_updates(state.schema)
        settled = [one.file.path for one in state.latest if one.number == number]
        rows = read_rows(self.folder, settled, schema)
        for one in self.state.recent(Kind.UPDATES, table.name):
            recent = last_rows(read_rows(self.folder, [one.file.path], schema), table)
            own = recent.filter(pa.array(bucket_numbers(recent, table, state.count) == number))
            rows = last_rows(pa.concat_tables([rows, own]), table)
        alive = rows.filter(pc.equal(rows.column(OPERATION), int(Operation.UPSERT)))
        return alive.drop_columns([OPERATION])

    def history(self, table: str) -> ds.Dataset:
        """Every update that was ever admitted, those that lost against a later one included; in no order."""
        return self._dataset(self.history_files(table), stored_updates(self.table(table)))

    def history_files(self, table: str) -> list[Path]:
        """The Parquet files of it, for whatever else can read them."""
        return self._files(Kind.UPDATES, table)

    def quarantine(self, table: str | None = None) -> ds.Dataset:
        """Every row that was refused, of all tables or of one; in no order."""
        return self._dataset(self.quarantine_files(table), STORED_QUARANTINE)

    def quarantine_files(self, table: str | None = None) -> list[Path]:
        """The Parquet files of it."""
        return self._files(Kind.REFUSED, table)

    def _files(self, kind: Kind, table: str | None) -> list[Path]:
        dated = (one.file.path for one in self.state.settled.dated(kind) if table is None or one.table == table)
        recent = (one.file.path for one in self.state.recent(kind, table))
        return [self.folder / path for path in (*dated, *recent)]

    def _dataset(self, files: list[Path], schema: pa.Schema) -> ds.Dataset:
        if not files:
            return ds.dataset(schema.empty_table())
        # Files that are older than a column of the table yield nulls for it.
        return ds.dataset([str(file) for file in files], schema=schema, format="parquet")


def snapshot(folder: Path | str) -> TableSnapshot:
    """The current tables of a folder."""
    return TableSnapshot(Path(folder), need_state(Path(folder)))


def read_latest(folder: Path | str, table: str) -> pa.Table:
    """The last row of every key of a table as of now; the schema's metadata has its `position`."""
    return _again(Path(folder), lambda now: _stamped(now.latest(table), now.position))


def read_history(folder: Path | str, table: str) -> ds.Dataset:
    """Every update of a table as of now."""
    return snapshot(folder).history(table)


def read_quarantine(folder: Path | str, table: str | None = None) -> ds.Dataset:
    """Every refused row as of now."""
    return snapshot(folder).quarantine(table)


def position_of(rows: pa.Table) -> int:
    """The position as of which rows were read by `read_latest`."""
    return int(rows.schema.metadata[b"position"])


def _stamped(rows: pa.Table, position: int) -> pa.Table:
    return rows.replace_schema_metadata({"position": str(position)})


def _again(folder: Path, read: Callable[[TableSnapshot], pa.Table]) -> pa.Table:
    """Read; once more with a newer manifest if the pipeline was faster than us."""
    for _ in range(_ATTEMPTS):
        try:
            return read(snapshot(folder))
        except FileNotFoundError:
            continue
    raise StoreError(f"a file that the manifest in {folder} names is not there; put it back from a copy")
