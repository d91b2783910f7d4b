"""Forms of rows that programs hand over: mappings, tuples, Arrow tables and data frames.

Mappings and tuples become columns of plain values, which need no library. Whatever exports an Arrow C stream (tables
and batches of pyarrow, data frames of polars and pandas) becomes Arrow batches, where pyarrow is installed; data frames
become columns of plain values where it is not. None of these libraries is imported by asking what something is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from slackwater.core.errors import MissingPart
from slackwater.dissemination.messages import ArrowRows, ColumnRows, WireScalar

if TYPE_CHECKING:
    import pyarrow as pa

RowsLike: TypeAlias = Any
"""Rows in any of the forms: mappings, sequences of values, or something that exports an Arrow C stream."""

MOST_ROWS: Final = 5_000
"""Rows of one piece of mappings or tuples."""
_PLAIN: Final = frozenset((bool, int, float, str, type(None)))
_INDEX: Final = "__index_level_"
"""How Arrow names an index of pandas that has no name; it is no column of the table."""
_KINDS: Final = "mappings, tuples, an Arrow table or a data frame"


def exports_arrow(rows: object) -> bool:
    """Whether something hands over Arrow columns by the C interface, or is a data frame that can be taken apart."""
    return hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__") or _is_frame(rows)


def first_of(rows: RowsLike) -> tuple[object, Iterator[Any]]:
    """The first row and all rows; a `TypeError` says what rows are."""
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise TypeError(f"rows are {_KINDS}, not {type(rows).__name__}: a single row goes into a list")
    iterator = iter(rows)
    first = next(iterator, None)
    if first is None:
        return None, iterator
    if not isinstance(first, Mapping) and (isinstance(first, str | bytes) or not isinstance(first, Sequence)):
        raise TypeError(f"rows are {_KINDS}; the first one is of type {type(first).__name__}")
    return first, chain((first,), iterator)


def pieces(rows: RowsLike, columns: Sequence[str] | None = None) -> Iterator["ColumnRows | pa.RecordBatch"]:
    """Rows as columns, in pieces of bounded size; `columns` names the values of tuples.

    >>> next(pieces([{"symbol": "A", "price": 1.5}, {"symbol": "B"}]))
    ColumnRows(names=('symbol', 'price'), values=(['A', 'B'], [1.5, None]))
    >>> next(pieces([("A", 1.5), ("B", 2)], ("symbol", "price")))
    ColumnRows(names=('symbol', 'price'), values=(['A', 'B'], [1.5, 2]))
    """
    if exports_arrow(rows):
        yield from _of_frame(rows)
        return
    first, rest = first_of(rows)
    if first is None:
        return
    mappings = isinstance(first, Mapping)
    while piece := list(islice(rest, MOST_ROWS)):
        yield _of_mappings(piece) if mappings else _of_tuples(piece, columns)


def records(rows: RowsLike, columns: Sequence[str] | None) -> Iterator[Mapping[str, Any]]:
    """Mappings or tuples as mappings."""
    first, rest = first_of(rows)
    if first is None or isinstance(first, Mapping):
        yield from rest
        return
    names = _names(columns)
    for row in rest:
        if len(row) != len(names):
            raise _wrong_width(row, names)
        yield dict(zip(names, row, strict=True))


def _of_mappings(rows: Sequence[Mapping[str, Any]]) -> ColumnRows:
    names: dict[str, None] = {}
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"the first row is a mapping, a later one of type {type(row).__name__}")
        if row.keys() != names.keys():
            names.update(dict.fromkeys(row))
    if not names:
        raise ValueError("a row has one column at least, and these have none")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"columns are named by text, not {name!r}")
    return ColumnRows(tuple(names), tuple([_cells(name, [row.get(name) for row in rows]) for name in names]))


def _of_tuples(rows: Sequence[Sequence[Any]], columns: Sequence[str] | None) -> ColumnRows:
    names = _names(columns)
    for row in rows:
        if isinstance(row, Mapping | str | bytes) or len(row) != len(names):
            raise _wrong_width(row, names)
    values = (list(column) for column in zip(*rows, strict=True))
    return ColumnRows(tuple(names), tuple([_cells(name, cells) for name, cells in zip(names, values, strict=True)]))


def _names(columns: Sequence[str] | None) -> Sequence[str]:
    if not columns or isinstance(columns, str):
        raise ValueError('tuples need the names of their values: columns=("symbol", "price")')
    return columns


def _wrong_width(row: Any, names: Sequence[str]) -> ValueError:
    return ValueError(f"a row has {len(names)} values, {', '.join(names)}; this one is {row!r:.200}")


def _cells(name: str, cells: list[Any]) -> list[WireScalar]:
    """Values that can be sent, or a `ValueError` that names the column."""
    kinds = set(map(type, cells))
    if not kinds <= _PLAIN:
        cells = [cell if type(cell) in _PLAIN else _plain(name, cell) for cell in cells]
    if float in kinds or not kinds <= _PLAIN:
        for cell in cells:
            # The same as in JSON, which has no word for them.
            if type(cell) is float and cell - cell != 0:
                raise ValueError(
                    f"{cell} in column {name} is not a number that can be sent: leave the row out, or write None"
                )
    if int in kinds:
        # As text, for the server to refuse: beyond 64 bits there is no such value in a column.
        cells = [str(cell) if type(cell) is int and not -(2**63) <= cell < 2**63 else cell for cell in cells]
    return cells


def _plain(name: str, cell: Any) -> WireScalar:
    if not isinstance(cell, bool | int | float | str) and hasattr(cell, "item"):
        cell = cell.item()  # a scalar of NumPy
    try:
        made = msgspec.to_builtins(cell)
    except TypeError:
        made = cell
    for kind in (bool, int, float, str):
        if isinstance(made, kind):
            return kind(made)
    if made is None:
        return None
    raise ValueError(
        f"a value of type {type(cell).__name__} in column {name} cannot be sent; write it as bool, int, float, str or "
        f"datetime"
    )


# ---- Arrow and data frames


def arrow_rows(batch: "pa.RecordBatch") -> ArrowRows:
    """A batch as it is sent."""
    return ArrowRows(arrow_stream([batch]))


def arrow_stream(batches: Sequence["pa.RecordBatch"]) -> bytes:
    """Batches of one schema as an IPC stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _is_frame(rows: object) -> bool:
    return hasattr(rows, "columns") and hasattr(rows, "to_dict")


def _of_frame(rows: Any) -> Iterator["ColumnRows | pa.RecordBatch"]:
    try:
        import pyarrow as pa
    except ImportError:
        yield from _of_plain_frame(rows)
        return
    if isinstance(rows, pa.Table):
        reader = rows.combine_chunks().to_reader()
    elif hasattr(rows, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(rows)
    elif hasattr(rows, "__arrow_c_array__"):
        batch = pa.record_batch(rows)
        reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    else:
        reader = pa.Table.from_pandas(rows).to_reader()
    for batch in reader:
        if batch.num_rows:
            yield _without_layouts(batch)


def _of_plain_frame(rows: Any) -> Iterator[ColumnRows]:
    """A data frame without Arrow: polars gives its columns as lists, pandas when it is asked for lists."""
    if not _is_frame(rows):
        raise MissingPart('Arrow tables need pyarrow: pip install "slackwater[cache]"')
    try:
        columns = rows.to_dict(as_series=False)
    except TypeError:
        columns = rows.to_dict("list")
    names = tuple(columns)
    height = len(columns[names[0]]) if names else 0
    for begin in range(0, height, MOST_ROWS):
        piece = [[_missing(cell) for cell in columns[name][begin : begin + MOST_ROWS]] for name in names]
        yield ColumnRows(names, tuple([_cells(name, cells) for name, cells in zip(names, piece, strict=True)]))


def _missing(cell: Any) -> Any:
    """What a data frame has where there is no value equals not even itself."""
    return None if isinstance(cell, float) and cell != cell else cell


def _without_layouts(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """The same values in the plain layouts that a server takes, without the nameless index of pandas."""
    import pyarrow as pa

    names: list[str] = []
    columns: list[Any] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name.startswith(_INDEX):
            continue
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.dictionary_decode()
            kind = column.type
        if pa.types.is_string_view(kind):
            column = column.cast(pa.large_string())
        elif pa.types.is_binary_view(kind):
            column = column.cast(pa.large_binary())
        elif pa.types.is_nested(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
            raise ValueError(f"column {name} is of type {kind}, which cannot be sent; cast it, or leave it out")
        names.append(name)
        columns.append(column)
    if not names:
        raise ValueError("a row has one column at least, and these have none")
    return pa.RecordBatch.from_arrays(columns, names=names)
