"""Tables, and strategies that draw their updates, regions and queries, for the tests of contracts."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from slackwater.core import (
    Aggregate,
    AggregateFunction,
    Bound,
    Box,
    Categories,
    Column,
    DataType,
    Extent,
    Instant,
    Interval,
    Missing,
    Operation,
    Origin,
    Region,
    Selection,
    Side,
    TableSchema,
    Update,
    Weight,
)

ITEMS = TableSchema(
    "items",
    (
        Column("item", DataType.TEXT, nullable=False),
        Column("value", DataType.DOUBLE),
        Column("whole", DataType.BIGINT),
        Column("name", DataType.TEXT),
    ),
    key=("item",),
)
PAIRS = TableSchema(
    "pairs",
    (
        Column("left", DataType.BIGINT, nullable=False),
        Column("value", DataType.DOUBLE),
        Column("right", DataType.BOOLEAN, nullable=False),
        Column("at", DataType.TIMESTAMP),
    ),
    key=("left", "right"),
    event_time="at",
)
EVEN = [-2.0, -0.5, 0.0, 0.25, 1.0, 3.0]
"""Numbers whose sums are exact, so that every operator must say the same bits."""
WILD = [*EVEN, 0.1, 1e-9, -1e17, 1e150, 1e200, -1e200]
CELLS: dict[str, Sequence[Any]] = {
    "item": ["a", "b", "c", "é", ""],
    "whole": [-1, 0, 2, 5],
    "name": ["x", "y", "yy"],
    "left": [-1, 0, 7],
    "right": [True, False],
    "at": [-5, 0, 3],
}


def cells(column: Column, numbers: Sequence[float]) -> Sequence[Any]:
    return numbers if column.type is DataType.DOUBLE else CELLS[column.name]


@st.composite
def batches_of(draw: st.DrawFn, table: TableSchema, numbers: Sequence[float]) -> list[Update]:
    updates = []
    for _ in range(draw(st.integers(1, 6))):
        row = tuple(
            draw(st.sampled_from([*cells(column, numbers), *([None] if column.nullable else [])]))
            for column in table.columns
        )
        operation = draw(st.sampled_from([Operation.UPSERT] * 4 + [Operation.DELETE]))
        origin = Origin(draw(st.sampled_from(["p", "q"])), draw(st.integers(0, 9)))
        updates.append(Update(table.name, row, Instant(draw(st.integers(0, 20))), origin, operation))
    return updates


@st.composite
def extents(draw: st.DrawFn, column: Column) -> Extent:
    constants = list(cells(column, EVEN))
    kind = draw(st.sampled_from(["interval", "interval", "categories", "missing"]))
    if kind == "missing":
        return Missing()
    if kind == "categories" or column.type is DataType.BOOLEAN:
        values = draw(st.lists(st.sampled_from(constants), min_size=1, max_size=3))
        return Categories(frozenset(values), draw(st.booleans()))
    low, high = draw(st.none() | st.sampled_from(constants)), draw(st.none() | st.sampled_from(constants))
    if low is not None and high is not None and high < low:
        low, high = high, low
    return Interval(low, high, draw(st.booleans()), draw(st.booleans()))


@st.composite
def regions(draw: st.DrawFn, table: TableSchema) -> Region:
    boxes = []
    for _ in range(draw(st.integers(0, 3))):
        columns = draw(st.lists(st.sampled_from(table.columns), max_size=2, unique=True))
        sides = [Side(column.name, draw(extents(column))) for column in columns]
        if not any(side.extent.empty for side in sides):
            boxes.append(Box.of(*sides))
    return Region.of(boxes)


@st.composite
def aggregates(draw: st.DrawFn, table: TableSchema) -> Aggregate:
    function = draw(st.sampled_from(AggregateFunction))
    counted: list[Any] = [column.name for column in table.columns]
    numeric = [column.name for column in table.columns if column.type.numeric]
    column = draw(st.sampled_from([None, *counted] if function is AggregateFunction.COUNT else numeric))
    bound = Bound(draw(st.sampled_from([0.0, 0.5, 3.0])), draw(st.sampled_from([1.0, 0.9])))
    weights = None
    if draw(st.booleans()):
        parts = [st.sampled_from(CELLS[name]) for name in table.key]
        keys = draw(st.lists(st.tuples(*parts), max_size=4, unique=True))
        weights = tuple(Weight(key, draw(st.sampled_from([1.0, -0.5, 4.0]))) for key in sorted(keys))
    region = draw(st.just(Region((Box(),))) | regions(table))
    return Aggregate(table.name, function, column, bound, region, weights, draw(st.sampled_from([1.0, 1.0, -2.0])))


@st.composite
def selections(draw: st.DrawFn, table: TableSchema) -> Selection:
    columns = draw(st.lists(st.sampled_from([column.name for column in table.columns]), min_size=1, unique=True))
    return Selection(table.name, tuple(columns), draw(regions(table)))
