"""The index over regions against asking every region about every row."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import Box, Categories, Column, DataType, Extent, Interval, Missing, Region, Row, Side, TableSchema
from slackwater.core.arrow import ARROW_TYPES
from slackwater.processing.columns import packed, rows_schema
from slackwater.processing.regions import RegionIndex, Sheet, inside
from slackwater.processing.regions.typed_extents import fitted

TABLE = TableSchema(
    "t",
    (
        Column("key", DataType.BIGINT, nullable=False),
        Column("whole", DataType.BIGINT),
        Column("real", DataType.DOUBLE),
        Column("text", DataType.TEXT),
        Column("flag", DataType.BOOLEAN),
        Column("at", DataType.TIMESTAMP),
    ),
    key=("key",),
)
TEXTS = ["", "a", "ab", "b", "é", "\U0001f600"]
NUMBERS = [-(2**63), -1, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1]
REALS = [-math.inf, -1.5, -0.0, 0.0, 0.5, 1.0, 2.0**53, 1e300, math.inf, 2.0**63]
VALUES: dict[str, list[Any]] = {
    "key": list(range(6)),
    "whole": [None, *NUMBERS],
    "real": [None, *(value for value in REALS if math.isfinite(value))],
    "text": [None, *TEXTS],
    "flag": [None, True, False],
    "at": [None, -5, 0, 5],
}


def constants(column: str) -> list[Any]:
    if column == "text":
        return TEXTS
    return [True, False] if column == "flag" else [*NUMBERS, *REALS, 10**400, -(10**400), 2**53 + 3]


@st.composite
def extents(draw: st.DrawFn, column: str) -> Extent:
    kind = draw(st.sampled_from(["interval", "interval", "categories", "missing"]))
    if kind == "missing":
        return Missing()
    choice = st.sampled_from(constants(column))
    if kind == "categories" or column == "flag":
        complement = draw(st.booleans())
        return Categories(frozenset(draw(st.lists(choice, min_size=not complement, max_size=3))), complement)
    low, high = draw(st.none() | choice), draw(st.none() | choice)
    if low is not None and high is not None and high < low:
        low, high = high, low
    return Interval(low, high, draw(st.booleans()), draw(st.booleans()))


@st.composite
def regions(draw: st.DrawFn) -> Region:
    boxes = []
    for _ in range(draw(st.integers(0, 2))):
        columns = draw(st.sets(st.sampled_from(list(VALUES)), max_size=3))
        sides = [Side(column, draw(extents(column))) for column in sorted(columns)]
        if not any(side.extent.empty for side in sides):
            boxes.append(Box.of(*sides))
    return Region.of(boxes)


rows = st.tuples(*(st.sampled_from(VALUES[column.name]) for column in TABLE.columns))


def batch_of(made: list[Row]) -> pa.RecordBatch:
    columns = []
    for place, column in enumerate(TABLE.columns):
        stored = pa.int64() if column.type is DataType.TIMESTAMP else ARROW_TYPES[column.type]
        array = pa.array([row[place] for row in made], stored)
        columns.append(array.view(ARROW_TYPES[column.type]) if column.type is DataType.TIMESTAMP else array)
    return pa.RecordBatch.from_arrays(columns, schema=rows_schema(TABLE))


def lies_in(region: Region, row: Row) -> bool:
    return region.contains(dict(zip((column.name for column in TABLE.columns), row, strict=True)).get)


@settings(max_examples=300, deadline=None)
@given(regions(), st.lists(rows, max_size=12))
def test_inside_says_what_the_region_says(region: Region, made: list[Row]) -> None:
    assert inside(region, TABLE, batch_of(made)).tolist() == [lies_in(region, row) for row in made]


steps = st.lists(st.tuples(st.integers(0, 9), st.none() | regions()), min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(steps, st.lists(rows, min_size=1, max_size=8), st.integers(1, 5))
def test_the_index_finds_every_pair_as_regions_come_and_go(
    history: list[tuple[int, Region | None]], made: list[Row], every: int
) -> None:
    index = RegionIndex()
    kept: dict[int, Region] = {}
    present = np.arange(len(made)) % 4 != 3
    batch = batch_of(made)
    for step, (place, region) in enumerate(history):
        if place in kept:
            index.remove(place)
            del kept[place]
        if region is not None:
            index.add(place, region)
            kept[place] = region
        assert len(index) == len(kept)
        if step % every == 0:
            found, places = index.match(Sheet(batch, present), TABLE)
            pairs = list(zip(found.tolist(), places.tolist(), strict=True))
            assert len(set(pairs)) == len(pairs)
            assert set(pairs) == {
                (row, place)
                for row in range(len(made))
                for place, region in kept.items()
                if present[row] and lies_in(region, made[row])
            }


@pytest.mark.parametrize("kind", [DataType.BIGINT, DataType.DOUBLE])
@settings(max_examples=200, deadline=None)
@given(extent=extents("whole"), value=st.sampled_from([*NUMBERS, 2**53 + 2, 2**53 - 1, 3, 2**62]))
def test_fitted_constants_select_the_same(kind: DataType, extent: Extent, value: int) -> None:
    cell = float(value) if kind is DataType.DOUBLE else value
    fit = fitted(extent, kind)
    assert (fit is not None and fit.contains(cell)) == (not extent.empty and extent.contains(cell))
    ends = () if not isinstance(fit, Interval) else tuple(end for end in (fit.low, fit.high) if end is not None)
    assert all(isinstance(end, float if kind is DataType.DOUBLE else int) for end in ends)


def test_every_value_of_a_bigint_survives_columns() -> None:
    array = packed(np.array([2**62 + 1, 0]), np.array([True, False]), DataType.BIGINT)
    assert array.to_pylist() == [2**62 + 1, None]
