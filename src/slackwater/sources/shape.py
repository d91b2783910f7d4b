"""Shape of a trace: wide (a column for each item) or long (a row for each item), and the way from one to the other.

*Long*: one row is one update; it is passed on as it is.

*Wide*: one time column, and one column for each item (a symbol, a sensor). Each cell that is not null is an update
(item, value, time); a null is no update. The cells of a row come in the order of the columns, the rows in the order
of the file. The sequence of a cell is `row number × number of item columns + index of its column`: it does not
depend on which cells are null, so a value filled in later does not shift the identities of the others; but adding
an item column does change them all.
"""

from enum import Enum

import numpy as np
import pyarrow as pa

from slackwater.core.arrival import Refusal
from slackwater.core.arrow import SEQUENCE
from slackwater.sources.base import FileRows, refuse

ITEM = "item"
VALUE = "value"


class Shape(Enum):
    """How updates stand in a file."""

    LONG = "long"
    WIDE = "wide"


def long_rows(rows: FileRows) -> FileRows:
    """Add the sequence: the number of the row."""
    sequence = pa.array(rows.numbers, pa.int64())
    return FileRows(rows.numbers, rows.batch.append_column(SEQUENCE, sequence), rows.refused)


def melt(rows: FileRows, items: tuple[str, ...], time: str) -> FileRows:
    """Turn a wide batch into long rows with the columns item, value, the time and the sequence.

    >>> wide = pa.RecordBatch.from_pydict({"ts": ["09:30", "09:31"], "IBM": [130.5, None], "MSFT": [77.0, 78.5]})
    >>> long = melt(FileRows(np.array([1, 2]), wide), ("IBM", "MSFT"), "ts").batch.to_pydict()
    >>> long["item"], long["value"], long["$seq"]
    (['IBM', 'MSFT', 'MSFT'], [130.5, 77.0, 78.5], [2, 3, 5])
    """
    batch, height, width = rows.batch, rows.batch.num_rows, len(items)
    names = batch.schema.names
    refused = [
        refuse(refusal.row, refusal.reason, refusal.detail, _first_cell(refusal.sequence, width))
        for refusal in rows.refused
    ]
    refused += _strangers(rows, items, time)
    if height == 0:
        return FileRows(rows.numbers, pa.RecordBatch.from_pydict({SEQUENCE: pa.array([], pa.int64())}), tuple(refused))
    cells = _concatenated([batch.column(name) if name in names else pa.nulls(height) for name in items])
    # The cell of row r and column c stands at c × height + r; rows first, nulls out.
    order = (np.arange(height)[:, None] + np.arange(width) * height).ravel()
    order = order[cells.is_valid().to_numpy(zero_copy_only=False)[order]]
    row, column = order % height, order // height
    times = batch.column(time) if time in names else pa.nulls(height)
    melted = pa.RecordBatch.from_arrays(
        [
            pa.array(items, pa.string()).take(pa.array(column)),
            cells.take(pa.array(order)),
            times.take(pa.array(row)),
            pa.array(rows.numbers[row] * width + column, pa.int64()),
        ],
        names=[*value_names(time), time, SEQUENCE],
    )
    return FileRows(rows.numbers[row], melted, tuple(refused))


def value_names(time: str) -> tuple[str, str]:
    """Column names of item and value: `item` and `value`, unless the time column has that name."""
    first, second = ITEM, VALUE
    while first.lower() == time.lower():
        first += "_"
    while second.lower() == time.lower():
        second += "_"
    return first, second


def _first_cell(row: int | None, width: int) -> int | None:
    return None if row is None else row * width


def _concatenated(columns: list[pa.Array]) -> pa.Array:
    """All cells in one array: in the columns' type, else as doubles where nothing is lost, else as text."""
    kinds = {column.type for column in columns if not pa.types.is_null(column.type)}
    if len(kinds) == 1:
        target = kinds.pop()
    elif not kinds:
        target = pa.null()
    elif all(pa.types.is_integer(kind) and not pa.types.is_uint64(kind) for kind in kinds):
        target = pa.int64()
    elif all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        target = pa.float64()
    else:
        target = pa.binary() if pa.binary() in kinds and kinds <= {pa.binary(), pa.string()} else pa.string()
    try:
        return pa.concat_arrays([column.cast(target) for column in columns])
    except pa.ArrowInvalid:
        return pa.concat_arrays([column.cast(pa.string()) for column in columns])


def _strangers(rows: FileRows, items: tuple[str, ...], time: str) -> list[Refusal]:
    """Cells of columns that were not there when the items were counted (JSON-lines only): they have no identity."""
    known = {*items, time}
    refusals = []
    for name in rows.batch.schema.names:
        if name in known:
            continue
        column = rows.batch.column(name)
        for index in np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)):
            cell = f"{name}={column[int(index)].as_py()!r}"
            detail = f"item {name!r} was not among the {len(items)} items this trace began with"
            refusals.append(refuse(cell, "unknown-item", f"{detail}, row {rows.numbers[index]}", None))
    return refusals
