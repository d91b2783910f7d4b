"""Schema inference: types, time column, shape and key of a file from a sample; the user can override each.

Rules, on a sample of the first rows
    types       Parquet: its own (other whole numbers → BIGINT, other fractional ones → DOUBLE, dates → TIMESTAMP,
                the rest → TEXT). JSON: its own; a string is TEXT, or TIMESTAMP when all of them read as times. CSV:
                the first of BIGINT, DOUBLE, BOOLEAN, TIMESTAMP that *every* cell of the sample fits, else TEXT;
                numbers with leading zeros (`00501`) are codes, so TEXT. A column without any value is TEXT.
    time        the only TIMESTAMP column; of several, one with a usual name, else the first.
    shape       wide when there is a time column that never repeats, all other columns are numbers and none has
                the name of an identity; else long.
    key         of a wide file: the item. Of a long one: the first column, those with the name of an identity
                (`id`, `…_id`, `symbol`, `sensor`, …) before text before whole numbers, such that no two sampled
                rows with the same time agree in it. Where none does, the user has to say.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.errors import SchemaError, SourceError
from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType
from slackwater.sources.base import FileRows
from slackwater.sources.csv_file import CsvReader
from slackwater.sources.file_format import Format, TextBlocks, detect
from slackwater.sources.json_lines import JsonLinesReader
from slackwater.sources.parquet_file import ParquetReader
from slackwater.sources.read_options import Reading, default_delimiter, default_source
from slackwater.sources.shape import Shape, value_names
from slackwater.sources.times import are_times, naive

SAMPLE_ROWS = 10_000
_TIME_NAMES = ("event_time", "timestamp", "ts", "time", "datetime", "at", "date")
_IDENTITY = re.compile(
    r"^(?:id|key|uuid|symbol|ticker|item|sensor|station|node|device|name|code|.*[_ ]id|.*[a-z]Id|.*_key)$"
)
_LEADING_ZERO = r"^\s*[+-]?0\d"


class Auto(Enum):
    """Marker for "infer it", where None means "there is none"."""

    AUTO = "auto"


AUTO = Auto.AUTO


@dataclass(frozen=True, slots=True)
class _Sampled:
    """Statistics of one column in the sample; `type` is None when it holds no value."""

    name: str
    cells: pa.Array
    type: DataType | None


def infer(
    path: Path | str,
    *,
    table: str | None = None,
    key: tuple[str, ...] | None = None,
    time: str | Auto | None = AUTO,
    shape: Shape | None = None,
    timezone: str | None = None,
    types: Mapping[str, DataType] | None = None,
    source: str | None = None,
    format: Format | None = None,
    delimiter: str | None = None,
    names: tuple[str, ...] | None = None,
) -> Reading:
    """Infer how to read a file; arguments that are given override the inference."""
    path = Path(path)
    found = format or detect(path)
    delimiter = delimiter or default_delimiter(path)
    sample = _sample(path, found, delimiter, names)
    columns = [
        _Sampled(name, cells, (types or {}).get(name) or _type_of(cells, from_text=found is Format.CSV))
        for name, cells in zip(sample.schema.names, sample.columns, strict=True)
    ]
    for name in (*(key or ()), *(types or {}), *([time] if isinstance(time, str) else [])):
        if shape is not Shape.WIDE or name == time:
            _find(columns, name, path)
    time_column = _time_column(columns, time, path)
    chosen = shape or _shape(columns, time_column, key)
    if chosen is Shape.WIDE:
        if time_column is None:
            raise SourceError(f"a wide file needs a time column; {path} has {_listed(columns)}: pass its name")
        items = [column for column in columns if column is not time_column]
        if not items:
            raise SourceError(f"{path} has no column beside its time {time_column.name}; a wide file has items")
        schema_columns = _wide_columns(items, time_column, exact=found is Format.PARQUET)
        chosen_key: tuple[str, ...] = (schema_columns[0].name,)
        if key is not None and key != chosen_key:
            raise SourceError(f"the key of a wide file is its {chosen_key[0]}, not {', '.join(key)}; leave out the key")
        item_names = tuple(column.name for column in items)
    else:
        chosen_key = key or _key(columns, time_column, path)
        schema_columns = tuple(
            Column(
                column.name,
                _roomy(column, types or {}, chosen_key, from_text=found is not Format.PARQUET),
                nullable=column.name not in chosen_key,
            )
            for column in columns
        )
        item_names = ()
    try:
        schema = TableSchema(
            table or _table_name(path), schema_columns, chosen_key, time_column.name if time_column else None
        )
    except SchemaError as error:
        raise SourceError(f"{path} cannot become a table: {error}") from error
    return Reading(
        path=path,
        format=found,
        shape=chosen,
        schema=schema,
        source=source or default_source(path),
        timezone=timezone,
        naive=any(naive(column.cells) for column in _times(columns, chosen, time_column)),
        items=item_names,
        delimiter=delimiter,
        names=names,
    )


def open_rows(
    path: Path, format: Format, delimiter: str, names: tuple[str, ...] | None, batch_rows: int
) -> Iterator[FileRows]:
    """Start reading a file of this format."""
    match format:
        case Format.CSV:
            return CsvReader(
                TextBlocks(path), str(path), delimiter=delimiter, names=names, batch_rows=batch_rows
            ).rows()
        case Format.JSON_LINES:
            return JsonLinesReader(TextBlocks(path), str(path), batch_rows=batch_rows).rows()
        case Format.PARQUET:
            return ParquetReader(path, batch_rows=batch_rows).rows()


def _sample(path: Path, format: Format, delimiter: str, names: tuple[str, ...] | None) -> pa.RecordBatch:
    if format is Format.PARQUET:
        schema = ParquetReader(path).schema()  # says what is wrong with a torn file
    for rows in open_rows(path, format, delimiter, names, SAMPLE_ROWS):
        if rows.batch.num_rows:
            return rows.batch
    if format is Format.PARQUET:
        return pa.RecordBatch.from_pylist([], schema=schema)
    raise SourceError(f"{path} has no row that can be read; give the table's definition, or another file")


def _roomy(column: _Sampled, declared: Mapping[str, DataType], key: tuple[str, ...], *, from_text: bool) -> DataType:
    """The type of a column of a long file: a sample of text cannot prove that no fraction will follow."""
    kind = column.type or DataType.TEXT
    whole_so_far = from_text and kind is DataType.BIGINT and column.name not in key and column.name not in declared
    return DataType.DOUBLE if whole_so_far else kind


def _type_of(cells: pa.Array, *, from_text: bool) -> DataType | None:
    kind = cells.type
    if pa.types.is_null(kind) or (cells.null_count == len(cells) and from_text):
        return None
    if pa.types.is_boolean(kind):
        return DataType.BOOLEAN
    if pa.types.is_integer(kind):
        return DataType.BIGINT
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return DataType.DOUBLE
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return DataType.TIMESTAMP
    if not pa.types.is_string(kind) and not pa.types.is_large_string(kind):
        return DataType.TEXT
    text = cells.cast(pa.string())
    if from_text:
        number = _number_type(pc.utf8_trim_whitespace(text))
        if number is not None:
            return number
        if bool(pc.all(pc.is_in(pc.utf8_lower(text.drop_null()), pa.array(["true", "false"]))).as_py()):
            return DataType.BOOLEAN
    return DataType.TIMESTAMP if are_times(text) else DataType.TEXT


def _number_type(text: pa.Array) -> DataType | None:
    if pc.any(pc.match_substring_regex(text, _LEADING_ZERO)).as_py():
        return None
    for target, kind in ((pa.int64(), DataType.BIGINT), (pa.float64(), DataType.DOUBLE)):
        try:
            text.cast(target)
        except pa.ArrowInvalid:
            continue
        return kind
    return None


def _time_column(columns: list[_Sampled], time: str | Auto | None, path: Path) -> _Sampled | None:
    if time is None:
        return None
    if isinstance(time, str):
        column = _find(columns, time, path)
        if column.type is not DataType.TIMESTAMP:
            kind = column.type.value if column.type else "nothing"
            raise SourceError(
                f"the time column {time} of {path} holds {kind}, not times; expected ISO 8601 text or Parquet "
                f"timestamps (numbers are not taken as times: their unit would be a guess)"
            )
        return column
    times = [column for column in columns if column.type is DataType.TIMESTAMP]
    usual = [column for name in _TIME_NAMES for column in times if column.name.lower() == name]
    return next(iter([*usual, *times]), None)


def _shape(columns: list[_Sampled], time: _Sampled | None, key: tuple[str, ...] | None) -> Shape:
    others = [column for column in columns if column is not time]
    wide = (
        key is None
        and time is not None
        and bool(others)
        and all(column.type is None or column.type.numeric for column in others)
        and any(column.type is not None for column in others)
        and not any(_IDENTITY.match(column.name.lower()) for column in others)
        and not _repeats([time.cells])
    )
    return Shape.WIDE if wide else Shape.LONG


def _key(columns: list[_Sampled], time: _Sampled | None, path: Path) -> tuple[str, ...]:
    named = [c for c in columns if _IDENTITY.match(c.name.lower()) and c.type is not DataType.DOUBLE]
    text = [c for c in columns if c.type is DataType.TEXT]
    whole = [c for c in columns if c.type is DataType.BIGINT] if time is None else []
    for column in [*named, *text, *whole]:
        cells = [column.cells] if time is None else [column.cells, time.cells]
        if column is not time and column.cells.null_count == 0 and not _repeats(cells):
            return (column.name,)
    raise SourceError(
        f"cannot tell which columns of {path} identify a row: pass them with --key. It has {_listed(columns)}"
    )


def _repeats(columns: list[pa.Array]) -> bool:
    """Whether two rows agree in all of these columns."""
    table = pa.table([column.cast(pa.string()) for column in columns], [str(i) for i in range(len(columns))])
    return bool(table.group_by(table.column_names).aggregate([]).num_rows < table.num_rows)


def _wide_columns(items: list[_Sampled], time: _Sampled, *, exact: bool) -> tuple[Column, ...]:
    kinds = {column.type for column in items if column.type is not None}
    if exact and kinds == {DataType.BIGINT}:
        kind = DataType.BIGINT
    elif all(kind.numeric for kind in kinds):
        kind = DataType.DOUBLE  # a sample of text cannot prove that no fraction will follow
    else:
        kind = kinds.pop() if len(kinds) == 1 else DataType.TEXT
    item, value = value_names(time.name)
    return (
        Column(item, DataType.TEXT, nullable=False),
        Column(value, kind),
        Column(time.name, DataType.TIMESTAMP),
    )


def _times(columns: list[_Sampled], shape: Shape, time: _Sampled | None) -> list[_Sampled]:
    """The columns whose times will be admitted."""
    if shape is Shape.WIDE:
        return [time] if time else []
    return [column for column in columns if column.type is DataType.TIMESTAMP]


def _find(columns: list[_Sampled], name: str, path: Path) -> _Sampled:
    for column in columns:
        if column.name == name:
            return column
    raise SourceError(f"{path} has no column {name!r}; it has {_listed(columns)}")


def _listed(columns: list[_Sampled]) -> str:
    shown = ", ".join(f"{column.name} ({column.type.value if column.type else 'empty'})" for column in columns[:40])
    return shown + (f" and {len(columns) - 40} more" if len(columns) > 40 else "")


def _table_name(path: Path) -> str:
    """The file's name as a word of SQL.

    >>> _table_name(Path("2024 quotes.csv.gz"))
    't_2024_quotes'
    """
    stem = path.name.lstrip(".").split(".")[0]
    word = re.sub(r"\W+", "_", stem).strip("_").lower() or "table"
    return f"t_{word}" if word[0].isdigit() else word[:128]
