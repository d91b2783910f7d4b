"""Wire facts: notifications and answers in columns, as facts of the message protocol.

A row is turned into Python values once, for all queries that show the same columns of it and for all sessions.
"""

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from slackwater.core.query import AnswerShape
from slackwater.core.region_codec import plain_region
from slackwater.core.schema import TableSchema
from slackwater.dissemination.encoding import Encoding, encode_rows
from slackwater.dissemination.messages import Snapshot, Subscribed, WireRow, WireScalar
from slackwater.processing.base import RowKind, Rows
from slackwater.sessions.query_registry import RegisteredQuery


def subscribed(ref: int, kept: RegisteredQuery, schema: TableSchema, was: int | None = None) -> Subscribed:
    """Fact of a granted subscription; `was` is for a cache whose rows the client has in part."""
    query = kept.query
    if query.shape is AnswerShape.ROWS:
        types = tuple(schema.column(name).type.value for name in query.columns)
        fact = Subscribed(ref, kept.number, kept.epoch, query.columns, types, schema.key, 0.0, 1.0)
        if query.pushed is None:
            return fact
        return msgspec.structs.replace(fact, region=plain_region(query.pushed), since=kept.since, was=was)
    bound = query.bound
    return Subscribed(ref, kept.number, kept.epoch, (), (), (), bound.within, bound.fidelity)


def snapshot(kept: RegisteredQuery, rows: pa.RecordBatch, schema: TableSchema, encoding: Encoding) -> Snapshot:
    """All rows of a selection or a join, encoded."""
    pairs = list(zip(projected(rows, schema.key), projected(rows, kept.query.columns), strict=True))
    data, digest = encode_rows(pairs, encoding)
    return Snapshot(kept.number, kept.epoch, data, len(pairs), digest)


class RowFacts:
    """The entries of a batch of row notifications, one after the other."""

    def __init__(self, rows: Rows, schema: TableSchema) -> None:
        self._rows = rows
        self._keys = projected(rows.rows, schema.key)
        self._shown: dict[tuple[str, ...], list[WireRow]] = {}

    def entries(self) -> Iterator[tuple[int, int, bool]]:
        """Query, place and whether the row is in the answer now."""
        rows = self._rows
        for query, place, kind in zip(rows.queries.tolist(), rows.places.tolist(), rows.kinds.tolist(), strict=True):
            yield query, place, kind == RowKind.UPSERT

    def key(self, place: int) -> WireRow:
        """The key of the row at this place."""
        return self._keys[place]

    def row(self, place: int, columns: tuple[str, ...]) -> WireRow:
        """These columns of the row at this place."""
        shown = self._shown.get(columns)
        if shown is None:
            shown = self._shown[columns] = projected(self._rows.rows, columns)
        return shown[place]


def projected(rows: pa.RecordBatch, names: Sequence[str]) -> list[WireRow]:
    """These columns of all rows, as tuples of plain values; instants are whole microseconds."""
    return list(zip(*(_plain(rows.column(rows.schema.get_field_index(name))) for name in names), strict=True))


def _plain(column: pa.Array) -> list[WireScalar]:
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    values: list[WireScalar] = column.to_pylist()
    return values
