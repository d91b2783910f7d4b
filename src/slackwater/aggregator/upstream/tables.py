"""Mirrored tables: schemas of upstream tables reduced to the key and the mirrored columns."""

from collections.abc import Sequence

from slackwater.aggregator.base import Item
from slackwater.core.errors import SchemaError
from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType


def mirrored(upstream: TableSchema, items: Sequence[Item], here: TableSchema | None) -> TableSchema:
    """The table in which these items of an upstream's table are held; `here` is how it looks already, if it does.

    A value is held as DOUBLE whatever it is upstream. A column can be null unless it never is upstream and is held for
    all keys.
    """
    for item in items:
        _check(item, upstream)
    keys = {item.key for item in items}
    columns = [] if here is not None else [upstream.column(name) for name in upstream.key]
    known = set() if here is None else {column.name for column in here.columns}
    for name in dict.fromkeys(item.column for item in items):
        everywhere = keys == {item.key for item in items if item.column == name}
        nullable = here is not None or upstream.column(name).nullable or not everywhere
        if name not in known:
            columns.append(Column(name, DataType.DOUBLE, nullable=nullable))
    if here is None:
        return TableSchema(upstream.name, tuple(columns), upstream.key)
    if here.key != upstream.key:
        raise SchemaError(
            f"table {here.name} is here with the key {', '.join(here.key)}, and upstream with {', '.join(upstream.key)}"
        )
    return TableSchema(here.name, (*here.columns, *columns), here.key, here.event_time)


def _check(item: Item, table: TableSchema) -> None:
    if item.column in table.key or not table.column(item.column).type.numeric:
        raise SchemaError(f"{item.column} of {table.name} is a key, or not a number: it cannot be held within a bound")
    if len(item.key) != len(table.key):
        raise SchemaError(f"the key of {table.name} is {', '.join(table.key)}; {item.key} does not fit it")
    for name, part in zip(table.key, item.key, strict=True):
        kind = table.column(name).type
        if not kind.holds(part):
            raise SchemaError(f"{name} of {table.name} is {kind.value}, and {part!r} in the configuration is not")
