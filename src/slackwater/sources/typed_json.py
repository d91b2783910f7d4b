"""Typed JSON reader: JSON lines decoded by a table's schema, straight into columns of the declared types.

A compiled decoder for each table takes the lines that are as they should be: one object a line, only columns of the
table, values in their declared types, no member twice. On anything else `read` returns None, and the exact reader
(`json_lines`) says line by line what is wrong. So this one accepts nothing that the exact reader would refuse.

That no member is hidden by a second one of its name is proved by counting (`json_rows.is_surely_once`): the text has as
many members as were decoded. That every object has its own line is proved the same way: all line ends stand between
objects, and there are as many as objects.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from slackwater.core.arrow import ARROW_TYPES, SEQUENCE
from slackwater.core.schema import TableSchema
from slackwater.core.types import DataType
from slackwater.sources.base import BATCH_ROWS, LONGEST_LINE
from slackwater.sources.json_lines import MOST_CELLS
from slackwater.sources.json_rows import is_surely_once

_PYTHON: dict[DataType, Any] = {
    DataType.BOOLEAN: bool | None,
    DataType.BIGINT: int | None,
    DataType.DOUBLE: float | None,
    DataType.TEXT: str | None,
    DataType.TIMESTAMP: str | None,
}
_ARROW = {**ARROW_TYPES, DataType.TIMESTAMP: pa.string()}
"""Times stay text: admission reads them."""
_NUMPY = {pa.int64(): np.int64, pa.float64(): np.float64}
_FEW = 16
"""Rows for which each call counts."""


class TypedJsonReader:
    """Reads the rows of one table.

    >>> from slackwater.core import Column
    >>> table = TableSchema("t", (Column("k", DataType.TEXT, nullable=False), Column("v", DataType.DOUBLE)), ("k",))
    >>> [batch] = TypedJsonReader(table).read(b'{"k": "a", "v": 1}\\n{"k": "b"}\\n')
    >>> batch.to_pydict()
    {'k': ['a', 'b'], 'v': [1.0, None]}
    >>> TypedJsonReader(table).read(b'{"k": "a", "v": "1"}\\n') is None
    True
    """

    def __init__(self, table: TableSchema) -> None:
        names = [column.name for column in table.columns]
        fields = [f"c{place}" for place in range(len(names))]
        self._decoder: msgspec.json.Decoder[Any] | None = None
        self._columns = [
            (name, field, _ARROW[column.type]) for name, field, column in zip(names, fields, table.columns, strict=True)
        ]
        if any('"' in name or "\\" in name for name in names):
            # The compiled decoder has no members that JSON writes in another way than they are.
            return
        row = msgspec.defstruct(
            "TypedRow",
            [
                # With its key at least, no object is empty.
                (field, _PYTHON[column.type])
                if column.name in table.key
                else (field, _PYTHON[column.type] | msgspec.UnsetType, msgspec.UNSET)
                for field, column in zip(fields, table.columns, strict=True)
            ],
            rename=dict(zip(fields, names, strict=True)),
            forbid_unknown_fields=True,
            kw_only=True,
            gc=False,
        )
        self._decoder = msgspec.json.Decoder(row)

    def read(self, body: bytes, first: int | None = None) -> list[pa.RecordBatch] | None:
        """The rows in batches as the exact reader would cut them; None where the exact reader has to look.

        With `first` they are numbered from there on (`$seq`).
        """
        try:
            rows = self._rows(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if not rows or min(len(rows), BATCH_ROWS) * len(self._columns) > MOST_CELLS:
            return None
        present = len(rows) * len(self._columns)
        names, arrays = [], []
        for name, field, kind in self._columns:
            values = [getattr(row, field) for row in rows]
            try:
                array = _array(values, kind)
            except OverflowError:
                return None
            except (pa.ArrowException, TypeError):
                given = [None if value is msgspec.UNSET else value for value in values]
                missing = sum(value is msgspec.UNSET for value in values)
                present -= missing
                if missing == len(values):
                    continue
                array = pa.array(given, kind)
            names.append(name)
            arrays.append(array)
        if not arrays or not is_surely_once(body, present):
            return None
        if first is not None:
            names.append(SEQUENCE)
            arrays.append(pa.array(np.arange(first, first + len(rows), dtype=np.int64)))
        batch = pa.RecordBatch.from_arrays(arrays, names=names)
        if len(rows) <= BATCH_ROWS:
            return [batch]
        return [batch.slice(begin, BATCH_ROWS) for begin in range(0, len(rows), BATCH_ROWS)]

    def _rows(self, body: bytes) -> Sequence[Any] | None:
        """The objects, if each stands on a line of its own and nothing else does."""
        if self._decoder is None or body[:1] != b"{":
            return None
        ends = body.count(b"\n")
        between = ends - 1 if body[-1:] == b"\n" else ends
        if between == 0 and len(body) <= LONGEST_LINE:
            return [self._decoder.decode(body)]
        if body.count(b"}\n{") != between or (len(body) > LONGEST_LINE and _has_long_line(body)):
            return None
        rows = self._decoder.decode_lines(body)
        return rows if len(rows) == between + 1 else None


def _has_long_line(body: bytes) -> bool:
    return max(map(len, body.split(b"\n"))) > LONGEST_LINE


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """The cells as a column; TypeError or ArrowException where a member is missing, OverflowError beyond 64 bits."""
    numbers = _NUMPY.get(kind) if len(values) <= _FEW else None
    # For few numbers NumPy is faster; it would take null for a number that is none.
    return pa.array(values, kind) if numbers is None or None in values else pa.array(np.array(values, numbers))


_known: dict[str, tuple[TableSchema, TypedJsonReader]] = {}
"""The reader of each table, by name: looking it up by all of a schema would cost more than reading a row."""
_MOST_KNOWN = 4096


def reader_of(table: TableSchema) -> TypedJsonReader:
    """The compiled reader of a table."""
    known = _known.get(table.name)
    if known is not None and known[0] is table:
        return known[1]
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    reader = TypedJsonReader(table)
    _known[table.name] = table, reader
    return reader
