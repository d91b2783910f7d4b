"""Result columns: rows by column name, with times as `datetime`, as Arrow or pandas.

On the wire a time is a number of microseconds in a notification, and ISO 8601 text in an answer to a question.
pyarrow and pandas are imported only when the program asks for their tables.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from slackwater.core.errors import MissingPart, ProtocolError

if TYPE_CHECKING:
    import pyarrow as pa

Cell: TypeAlias = Any
DataFrame: TypeAlias = Any
"""A pandas.DataFrame; pandas comes without types."""
Record: TypeAlias = dict[str, Cell]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Columns:
    """Names and types of columns; types are those of SQL, or Arrow's in answers to questions."""

    names: tuple[str, ...]
    types: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.types):
            raise ProtocolError(f"{len(self.names)} columns came with {len(self.types)} types")

    def record(self, row: Sequence[Cell]) -> Record:
        """A row by names."""
        if len(row) != len(self.names):
            raise ProtocolError(f"a row of {len(row)} values came for {len(self.names)} columns")
        record = dict(zip(self.names, row, strict=True))
        if any(map(_is_time, self.types)):
            record.update(
                (name, _time(cell))
                for name, kind, cell in zip(self.names, self.types, row, strict=True)
                if cell is not None and _is_time(kind)
            )
        return record

    def records(self, rows: Iterable[Sequence[Cell]]) -> tuple[Record, ...]:
        """Rows by names."""
        if any(map(_is_time, self.types)):
            return tuple(map(self.record, rows))
        try:
            return tuple([dict(zip(self.names, row, strict=True)) for row in rows])
        except ValueError as error:
            raise ProtocolError(f"rows came that have not {len(self.names)} columns") from error

    def arrow(self, records: Iterable[Record]) -> "pa.Table":
        """Rows as an Arrow table with the right types, also where there are none."""
        try:
            import pyarrow as pa
        except ImportError as error:
            raise MissingPart('Arrow tables need pyarrow: pip install "slackwater[cache]"') from error
        fields = [pa.field(name, _arrow_type(pa, kind)) for name, kind in zip(self.names, self.types, strict=True)]
        # By columns: names may repeat in the answer to a question, and then the last one counts.
        rows = list(records)
        return pa.table(
            [pa.array([row[field.name] for row in rows], field.type) for field in fields], schema=pa.schema(fields)
        )

    def pandas(self, records: Iterable[Record]) -> DataFrame:
        """Rows as a data frame, by way of Arrow."""
        table = self.arrow(records)
        try:
            return table.to_pandas()
        except ImportError as error:
            raise MissingPart('data frames need pandas: pip install "pandas<3"') from error


@lru_cache(maxsize=1_024)
def _is_time(kind: str) -> bool:
    return kind.upper().startswith("TIMESTAMP")


def _time(cell: Cell) -> Cell:
    try:
        if isinstance(cell, str):
            return datetime.fromisoformat(cell)
        return _EPOCH + timedelta(microseconds=cell)
    except (ValueError, TypeError, OverflowError) as error:
        raise ProtocolError(f"{cell!r} came where a time was expected") from error


def _arrow_type(pa: Any, kind: str) -> Any:
    sql = {"BOOLEAN": "bool", "BIGINT": "int64", "DOUBLE": "float64", "TEXT": "string"}
    if kind.upper().startswith("TIMESTAMP"):
        naive = kind.startswith("timestamp[") and "tz=" not in kind
        return pa.timestamp("us", None if naive else "UTC")
    if kind.startswith("decimal"):
        return pa.float64()
    try:
        return pa.type_for_alias(sql.get(kind, kind))
    except ValueError:
        return pa.string()
