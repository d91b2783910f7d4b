"""File-reading options shared by `replay`, `load` and `learn`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.core.errors import SourceError
from slackwater.core.schema import TableSchema
from slackwater.core.types import DataType

if TYPE_CHECKING:
    from slackwater.sources import Reading

TableOption = Annotated[str | None, typer.Option("--table", help="The table's name [default: the file's].")]
KeyOption = Annotated[str | None, typer.Option("--key", help="Key columns, separated by commas.")]
TimeOption = Annotated[str | None, typer.Option("--time", help="The event-time column; 'none' for none.")]
ShapeOption = Annotated[str | None, typer.Option("--shape", help="'wide' (a column for each item) or 'long'.")]
ZoneOption = Annotated[str | None, typer.Option("--tz", help="The zone of times that carry none.")]
TypesOption = Annotated[
    list[str] | None, typer.Option("--type", help="A column's type, such as price=DOUBLE; may be repeated.")
]
SourceOption = Annotated[str | None, typer.Option("--source", help="The source's name [default: the file's].")]


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The user's options for the file."""

    table: str | None
    key: str | None
    time: str | None
    shape: str | None
    timezone: str | None
    source: str | None
    types: list[str]

    def declared(self) -> dict[str, DataType]:
        """The types of columns."""
        declared = {}
        for given in self.types:
            name, _, kind = given.partition("=")
            if not name or kind.upper() not in DataType.__members__:
                known = ", ".join(DataType.__members__)
                raise SourceError(f"--type must be COLUMN=TYPE with a type of {known}; this is {given!r}")
            declared[name] = DataType[kind.upper()]
        return declared


def how_to_read(file: Path, told: FileOptions, tables: tuple[TableSchema, ...]) -> "Reading":
    """Build the reader: by the options, by the log's table of that name, and else by the look of the columns."""
    from slackwater.sources import AUTO, Shape, infer, read_as

    try:
        shape = None if told.shape is None else Shape(told.shape)
    except ValueError:
        raise SourceError(f"--shape must be 'wide' or 'long', not {told.shape!r}") from None
    types = told.declared()
    known = {table.name.lower(): table for table in tables}
    try:
        reading = infer(
            file,
            table=told.table,
            key=None if told.key is None else tuple(name.strip() for name in told.key.split(",")),
            time=AUTO if told.time is None else None if told.time.lower() == "none" else told.time,
            shape=shape,
            timezone=told.timezone,
            types=types or None,
            source=told.source,
        )
    except SourceError:
        # Nothing to be seen in the file itself (no key, or a torn Parquet file): the log's own table may have it.
        table = known.get((told.table or file.name.partition(".")[0]).lower())
        if table is None or told.key or told.time or told.shape or types:
            raise
        return read_as(file, table, source=told.source, timezone=told.timezone)
    table = known.get(reading.schema.name.lower())
    if table is None or reading.shape is Shape.WIDE:
        return reading
    _check_agreement(table, told, reading.key, types)
    return replace(reading, schema=table)


def _check_agreement(table: TableSchema, told: FileOptions, key: tuple[str, ...], types: dict[str, DataType]) -> None:
    """Refuse options that contradict the existing table."""
    if told.key is not None and key != table.key:
        raise SourceError(f"table {table.name} is there with the key {', '.join(table.key)}, not {', '.join(key)}")
    for name, kind in types.items():
        if table.has(name) and table.column(name).type is not kind:
            raise SourceError(f"column {name} of table {table.name} is there as {table.column(name).type.value}")
