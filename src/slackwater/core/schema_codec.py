"""Schema codec: table definitions as plain lists; equal tables give equal bytes."""

from typing import Any

from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType


def plain_schema(table: TableSchema) -> list[Any]:
    """A table's definition as lists."""
    columns = [[column.name, column.type.value, column.nullable] for column in table.columns]
    return [table.name, columns, list(table.key), table.event_time]


def schema_of(plain: list[Any]) -> TableSchema:
    """The definition that such lists were made of."""
    name, columns, key, event_time = plain
    return TableSchema(name, tuple(Column(n, DataType(k), null) for n, k, null in columns), tuple(key), event_time)
