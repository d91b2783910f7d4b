"""Range analysis: comparisons with constants as extents of a column, and the normal form of a region.

Normal form: ends of ranges on BIGINT and TIMESTAMP are closed whole numbers within the type; a NOT NULL column is
never missing; what may be anything is not mentioned; boxes that differ in one column and touch there are one box;
boxes stand in order. It is reached by repeating those steps until nothing changes, so it is its own normal form.
"""

import math
from collections.abc import Collection, Iterable
from typing import Any

from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.region import Box, Region, Side
from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import LARGEST_BIGINT, SMALLEST_BIGINT, DataType, Scalar

_WHOLE = (DataType.BIGINT, DataType.TIMESTAMP)
_UNORDERED = (DataType.BOOLEAN, DataType.TEXT)
"""Equality on these makes categories; on the others a range of one point."""

_ANY_VALUE = Interval()
_BOTH: frozenset[Scalar] = frozenset({True, False})


def compared(kind: DataType, sign: str, value: Scalar) -> tuple[Extent, ...]:
    """Extents of a column where `column sign value` holds.

    >>> [str(extent) for extent in compared(DataType.DOUBLE, "<>", 3.0)]
    ['(-∞, 3.0)', '(3.0, ∞)']
    """
    match sign:
        case "=":
            return members(kind, (value,))
        case "<>":
            return others(kind, (value,))
        case "<" | "<=":
            return (Interval(None, value, high_open=sign == "<"),)
        case _:
            return (Interval(value, None, low_open=sign == ">"),)


def members(kind: DataType, values: Collection[Scalar]) -> tuple[Extent, ...]:
    """Extents of a column where it equals one of the values."""
    if kind in _UNORDERED:
        return (Categories(frozenset(values)),) if values else ()
    return tuple(Interval(value, value) for value in sorted(set(values), key=_as_number))


def others(kind: DataType, values: Collection[Scalar]) -> tuple[Extent, ...]:
    """Extents of a column where it is not null and equals none of the values."""
    if kind is DataType.BOOLEAN:
        return members(kind, _BOTH - set(values))
    if kind in _UNORDERED:
        return (Categories(frozenset(values), complement=True),)
    points = sorted(set(values), key=_as_number)
    lows: list[Scalar | None] = [None, *points]
    highs: list[Scalar | None] = [*points, None]
    return tuple(Interval(low, high, low_open=True, high_open=True) for low, high in zip(lows, highs, strict=True))


def of_column(column: Column, extents: Iterable[Extent]) -> Region:
    """The rows in which the column is one of these disjoint extents."""
    solid = (fitted for extent in extents for fitted in _fitted(extent, column))
    return Region(tuple(Box((Side(column.name, extent),)) for extent in solid))


def normal(region: Region, table: TableSchema) -> Region:
    """The same rows of the table, in normal form."""
    boxes = [box for each in region for box in _fitted_box(each, table)]
    while True:
        merged = boxes
        for column in table.columns:
            merged = _merged(merged, column)
        if len(merged) == len(boxes):
            return Region(tuple(sorted(merged, key=_box_order)))
        boxes = merged


def _fitted_box(box: Box, table: TableSchema) -> tuple[Box, ...]:
    sides: list[Side] = []
    for side in box.sides:
        column = table.column(side.column)
        extents = _fitted(side.extent, column)
        if not extents:
            return ()
        if not (extents[0] == _ANY_VALUE and not column.nullable):
            sides.append(Side(side.column, extents[0]))
    return (Box(tuple(sides)),)


def _fitted(extent: Extent, column: Column) -> tuple[Extent, ...]:
    """The extent cut down to what the column can be: one extent, or none."""
    if isinstance(extent, Missing) and not column.nullable:
        return ()
    if isinstance(extent, Interval) and column.type in _WHOLE:
        extent = _whole(extent)
    if isinstance(extent, Interval) and column.type in _UNORDERED and extent.low is not None:
        one = extent.low == extent.high and not extent.empty
        extent = Categories(frozenset({extent.low})) if one else extent
    if isinstance(extent, Categories):
        if column.type is DataType.BOOLEAN:
            extent = Categories(_BOTH - extent.values if extent.complement else extent.values)
        all_but_none = extent.complement and not extent.values
        extent = _ANY_VALUE if all_but_none or extent.values == _BOTH else extent
    return () if extent.empty else (extent,)


def _whole(interval: Interval) -> Interval:
    """The interval of whole numbers, with closed ends; an end outside BIGINT is no end."""
    low, high = _as_end(interval.low), _as_end(interval.high)
    if low is not None:
        low = math.floor(low) + 1 if interval.low_open else math.ceil(low)
    if high is not None:
        high = math.ceil(high) - 1 if interval.high_open else math.floor(high)
    if (low is not None and low > LARGEST_BIGINT) or (high is not None and high < SMALLEST_BIGINT):
        return Interval(1, 0)
    if low is not None and low <= SMALLEST_BIGINT:
        low = None
    if high is not None and high >= LARGEST_BIGINT:
        high = None
    return Interval(low, high)


def _as_end(end: Scalar | None) -> int | float | None:
    assert not isinstance(end, str)
    return end


def _as_number(value: Scalar) -> int | float:
    assert not isinstance(value, str)
    return value


# ---- merging what touches ---------------------------------------------------------------------------------


def _merged(boxes: list[Box], column: Column) -> list[Box]:
    """Put together boxes that agree in everything but this column and touch in it."""
    groups: dict[tuple[Side, ...], list[Extent | None]] = {}
    for box in boxes:
        rest = tuple(side for side in box.sides if side.column != column.name)
        groups.setdefault(rest, []).append(box.extent(column.name))
    result: list[Box] = []
    for rest, extents in groups.items():
        result.extend(
            Box.of(*rest, Side(column.name, extent)) if extent is not None else Box(rest)
            for extent in _joined([each for each in extents if each is not None], column)
        )
        # A box that does not mention the column lies beside none that does: boxes are disjoint.
        result.extend(Box(rest) for each in extents if each is None)
    return result


def _joined(extents: list[Extent], column: Column) -> list[Extent | None]:
    """Disjoint extents of one column, joined where they touch; None is anything at all, null included."""
    finite = frozenset(
        value for each in extents if isinstance(each, Categories) if not each.complement for value in each.values
    )
    cofinite = next((each for each in extents if isinstance(each, Categories) and each.complement), None)
    intervals = sorted((each for each in extents if isinstance(each, Interval)), key=_extent_order)
    joined: list[Extent] = []
    for interval in intervals:
        last = joined[-1] if joined else None
        if isinstance(last, Interval) and _touch(last, interval, column.type in _WHOLE):
            joined[-1] = Interval(last.low, interval.high, last.low_open, interval.high_open)
        else:
            joined.append(interval)
    if cofinite is not None:
        joined.append(Categories(cofinite.values - finite, complement=True))
    elif finite:
        joined.append(Categories(finite))
    joined = [fitted for each in joined for fitted in _fitted(each, column)]
    missing = any(isinstance(each, Missing) for each in extents)
    if joined == [_ANY_VALUE] and (missing or not column.nullable):
        return [None]
    return [*([Missing()] if missing else []), *joined]


def _touch(a: Interval, b: Interval, whole: bool) -> bool:
    """Whether nothing lies between an interval and the next one above it."""
    if a.high is None or b.low is None:
        return True
    if whole:
        return _as_number(b.low) == _as_number(a.high) + 1
    return a.high == b.low and not (a.high_open and b.low_open)


# ---- order: only values of one column are ever compared -------------------------------------------------------


def _box_order(box: Box) -> tuple[Any, ...]:
    return tuple((side.column, _extent_order(side.extent)) for side in box.sides)


def _extent_order(extent: Extent) -> tuple[Any, ...]:
    match extent:
        case Missing():
            return (0,)
        case Interval(low, high, low_open, high_open):
            start = (False,) if low is None else (True, low, low_open)
            end = (True,) if high is None else (False, high, not high_open)
            return (1, *start, *end)
        case Categories(values, complement):
            return (2, complement, *sorted(values))
