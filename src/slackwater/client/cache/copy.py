"""Columnar replica of a cache, queried by Arrow's compute kernels.

Design
    Rows come one at a time and are asked for many at a time. So there are columns made some time ago, and the rows that
    have changed since, as they came (`CachedTable.stale`). An answer is what Arrow finds in the columns, without keys
    that have changed, and those of the changed rows that lie in the region. When an eighth has changed the columns are
    made anew: a change costs a constant number of cells, an answer one pass over the columns.
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.client.cache.masks import NotByColumns, chosen
from slackwater.client.cache.table import CachedTable
from slackwater.core.region import Region
from slackwater.dissemination.messages import WireRow

_TYPES = {
    "BOOLEAN": pa.bool_(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}
_FEW = 64


def layout(columns: Sequence[str], types: Sequence[str]) -> pa.Schema:
    """Columns as Arrow has them."""
    return pa.schema([pa.field(name, _TYPES[kind]) for name, kind in zip(columns, types, strict=True)])


def in_columns(schema: pa.Schema, rows: Iterable[WireRow]) -> pa.Table:
    """Rows in columns."""
    cells = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(cell, kind) for cell, kind in zip(cells, schema.types, strict=True)], schema=schema)


class Copy:
    """The columns of one cached table."""

    def __init__(self, own: CachedTable) -> None:
        self._own = own
        self._described = own.description
        self._columns: pa.Table | None = None
        self._numbers: dict[WireRow, int] = {}
        self._changed: set[WireRow] = set()

    def select(self, region: Region) -> pa.Table:
        """The rows in a region, all columns."""
        own = self._own
        assert own.description is not None
        schema = layout(own.description.columns, own.description.types)
        columns = self._up_to_date(schema)
        rows = own.rows or {}
        try:
            mask = chosen(region, columns)
        except NotByColumns:
            return in_columns(schema, (row for row in rows.values() if _inside(region, own.columns, row)))
        gone = [self._numbers[key] for key in self._changed if key in self._numbers]
        if gone:
            mask = pc.and_(mask, pc.invert(pc.is_in(pa.array(range(len(columns))), value_set=pa.array(gone))))
        found = columns.filter(mask)
        fresh = [rows[key] for key in self._changed if key in rows and _inside(region, own.columns, rows[key])]
        return pa.concat_tables([found, in_columns(schema, fresh)]) if fresh else found

    def _up_to_date(self, schema: pa.Schema) -> pa.Table:
        own = self._own
        if own.stale is not None:
            self._changed |= own.stale
        all_new = own.stale is None or own.description is not self._described
        own.stale, self._described = set(), own.description
        if self._columns is None or all_new or len(self._changed) > _FEW + len(self._numbers) // 8:
            rows = own.rows or {}
            self._columns = in_columns(schema, rows.values())
            self._numbers = {key: number for number, key in enumerate(rows)}
            self._changed = set()
        return self._columns


def _inside(region: Region, columns: Sequence[str], row: WireRow) -> bool:
    return region.contains(dict(zip(columns, row, strict=True)).get)
