"""Tables and standing queries as plain lists, for snapshots, and the check that a query fits its table.

Sets are written in order: equal queries are equal bytes.
"""

import math
from typing import Any

from slackwater.core.bound import Bound
from slackwater.core.errors import AlgebraError, NotSupported, SchemaError
from slackwater.core.extent import Categories, Interval, Missing
from slackwater.core.joined import check_pair, joined_schema
from slackwater.core.query import Aggregate, AggregateFunction, Join, Selection, StandingQuery, TableQuery, Weight
from slackwater.core.region import Side
from slackwater.core.region_codec import extent_of, plain_extent, plain_region, region_of
from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType, Scalar

_NUMBERS = (DataType.BIGINT, DataType.DOUBLE)


def check_query(query: TableQuery, table: TableSchema) -> None:
    """Refuse a query that names what its table does not have, or compares what cannot be compared."""
    for box in query.region:
        for side in box.sides:
            _check_extent(side, table)
    if isinstance(query, Selection):
        for name in query.columns:
            table.column(name)
        return
    if query.column is not None:
        kind = table.column(query.column).type
        if query.function is not AggregateFunction.COUNT and not kind.numeric:
            raise SchemaError(f"{query.function.value} needs numbers and column {query.column} is {kind.value}")
    kinds = [table.column(name).type for name in table.key]
    for weight in query.weights or ():
        if len(weight.key) != len(kinds) or not all(
            kind.holds(part) for kind, part in zip(kinds, weight.key, strict=True)
        ):
            raise SchemaError(
                f"the key of table {table.name} is {', '.join(table.key)} ({', '.join(k.value for k in kinds)}); "
                f"a weight is given to {weight.key}"
            )
        if not math.isfinite(query.scale * weight.factor):
            raise AlgebraError(f"the weight of {weight.key} times {query.scale:g} is beyond DOUBLE")


def check_join(query: Join, left: TableSchema, right: TableSchema) -> None:
    """Refuse a join that names what its tables do not have, or that is more than ranges of numbers."""
    check_pair(left.name, right.name)
    joined = joined_schema(left, right)
    for name in query.columns:
        joined.column(name)
    kinds = left.column(query.left_column).type, right.column(query.right_column).type
    if query.band is None and kinds[0] is not kinds[1] and not all(kind in _NUMBERS for kind in kinds):
        raise SchemaError(f"{kinds[0].value} and {kinds[1].value} are never equal: join columns of one type")
    if query.band is not None and not all(kind in _NUMBERS for kind in kinds):
        raise SchemaError(f"a difference is of numbers, not of {kinds[0].value} and {kinds[1].value}")
    for table, region in ((left, query.left_region), (right, query.right_region)):
        if len(region.boxes) > 1:
            raise NotSupported(f"a join selects rows of {table.name} by one box of ranges, not by {len(region.boxes)}")
        for box in region:
            for side in box.sides:
                _check_extent(side, table)
                kind = table.column(side.column).type
                if not isinstance(side.extent, Interval) or kind not in (*_NUMBERS, DataType.TIMESTAMP):
                    raise NotSupported(
                        f"a join selects by ranges of numbers and times, and {side.column} is {kind.value}"
                    )


def _check_extent(side: Side, table: TableSchema) -> None:
    kind = table.column(side.column).type
    match side.extent:
        case Interval(low, high):
            constants: list[Scalar] = [end for end in (low, high) if end is not None]
            if kind is DataType.BOOLEAN and constants:
                raise AlgebraError(f"column {side.column} is BOOLEAN and has no order: use categories")
        case Categories(values):
            constants = list(values)
        case Missing():
            constants = []
    for constant in constants:
        if _sort(kind) != _sort_of(constant):
            raise AlgebraError(f"column {side.column} is {kind.value} and cannot be compared with {constant!r}")


def _sort(kind: DataType) -> str:
    return {DataType.TEXT: "text", DataType.BOOLEAN: "boolean"}.get(kind, "number")


def _sort_of(constant: object) -> str:
    if isinstance(constant, bool):
        return "boolean"
    if isinstance(constant, str):
        return "text"
    return "number" if isinstance(constant, int | float) else "unknown"


def plain_schema(table: TableSchema) -> list[Any]:
    """A table's definition as lists."""
    columns = [[column.name, column.type.value, column.nullable] for column in table.columns]
    return [table.name, columns, list(table.key), table.event_time]


def schema_of(plain: list[Any]) -> TableSchema:
    """The definition that such lists were made of."""
    name, columns, key, event_time = plain
    return TableSchema(name, tuple(Column(n, DataType(k), null) for n, k, null in columns), tuple(key), event_time)


def plain_query(query: StandingQuery) -> list[Any]:
    """A query as lists."""
    if isinstance(query, Selection):
        return ["selection", query.table, list(query.columns), plain_region(query.region)]
    if isinstance(query, Join):
        band = None if query.band is None else plain_extent(query.band)
        regions = [plain_region(query.left_region), plain_region(query.right_region)]
        on = [query.left_column, query.right_column]
        return ["join", query.left, query.right, on, list(query.columns), band, *regions]
    weights = None if query.weights is None else [[list(weight.key), weight.factor] for weight in query.weights]
    bound = [query.bound.within, query.bound.fidelity]
    region = plain_region(query.region)
    return ["aggregate", query.table, query.function.value, query.column, bound, region, weights, query.scale]


def query_of(plain: list[Any]) -> StandingQuery:
    """The query that such lists were made of."""
    if plain[0] == "selection":
        _, table, columns, region = plain
        return Selection(table, tuple(columns), region_of(region))
    if plain[0] == "join":
        _, left, right, on, columns, band, *regions = plain
        extent = None if band is None else extent_of(band)
        assert extent is None or isinstance(extent, Interval)
        left_region, right_region = map(region_of, regions)
        return Join(left, right, on[0], on[1], tuple(columns), extent, left_region, right_region)
    _, table, function, column, bound, region, listed, scale = plain
    weights = None if listed is None else tuple(Weight(tuple(key), factor) for key, factor in listed)
    return Aggregate(table, AggregateFunction(function), column, Bound(*bound), region_of(region), weights, scale)
