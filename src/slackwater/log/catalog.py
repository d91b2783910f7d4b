"""Catalog of tables: a fold over the records that define and drop them."""

from collections.abc import Iterator
from dataclasses import dataclass

from slackwater.core.errors import SchemaError
from slackwater.core.schema import TableSchema
from slackwater.log.records import Record, TableDefined, TableDropped

MOST_TABLES = 4096
"""Tables a log may hold at a time: a local log repeats their definitions at the head of every segment."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """The tables as of a position, in the order in which they were created.

    >>> from slackwater.core import Column, DataType
    >>> quotes = TableSchema("quotes", (Column("symbol", DataType.TEXT, nullable=False),), key=("symbol",))
    >>> catalog = Catalog().after(TableDefined(quotes))
    >>> [table.name for table in catalog]
    ['quotes']
    >>> catalog.after(TableDropped("quotes")).find("quotes") is None
    True
    """

    tables: tuple[TableSchema, ...] = ()

    def __iter__(self) -> Iterator[TableSchema]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def find(self, name: str) -> TableSchema | None:
        """The table of this name, in whatever case it is written, if there is one."""
        return next((table for table in self.tables if table.name.lower() == name.lower()), None)

    def after(self, record: Record) -> "Catalog":
        """The catalog after one more record; a definition that may not follow is a `SchemaError`."""
        match record:
            case TableDefined(schema):
                return self._with(schema)
            case TableDropped(table):
                if self.find(table) is None:
                    raise SchemaError(f"there is no table {table} to drop; there are {self._names()}")
                return Catalog(tuple(kept for kept in self.tables if kept.name.lower() != table.lower()))
            case _:
                return self

    def _with(self, schema: TableSchema) -> "Catalog":
        present = self.find(schema.name)
        if present is not None and present.name != schema.name:
            raise SchemaError(f"there is a table {present.name} already; {schema.name} differs from it only in case")
        if present is not None:
            present.check_change(schema)
            return Catalog(tuple(schema if table is present else table for table in self.tables))
        if len(self.tables) >= MOST_TABLES:
            raise SchemaError(f"there are {MOST_TABLES} tables already, the most a log may hold; drop some first")
        return Catalog((*self.tables, schema))

    def _names(self) -> str:
        names = [table.name for table in self.tables[:8]]
        return (", ".join(names) + (", …" if len(self.tables) > len(names) else "")) or "none"
