"""Region masks: the rows of Arrow columns that lie in a region, by Arrow's compute kernels."""

import math
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.region import Box, Region
from slackwater.core.types import Scalar


class NotByColumns(Exception):
    """A region whose ends Arrow cannot compare exactly with a column: look at each row instead."""


def chosen(region: Region, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
    """Which rows lie in a region, as booleans."""
    if not region.boxes:
        return pa.array([False] * rows.num_rows, pa.bool_())
    return reduce(pc.or_, (_box(box, rows) for box in region))


def _box(box: Box, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
    if not box.sides:
        return pa.array([True] * rows.num_rows, pa.bool_())
    return reduce(pc.and_, (_side(side.extent, rows.column(side.column)) for side in box.sides))


def _side(extent: Extent, column: pa.ChunkedArray) -> pa.ChunkedArray:
    match extent:
        case Missing():
            return pc.is_null(column)
        case Categories(values, complement):
            found = pc.is_in(column, value_set=pa.array([_exact(value, column.type) for value in values], column.type))
            return pc.and_(pc.is_valid(column), pc.invert(found) if complement else found)
        case Interval(low, high, low_open, high_open):
            mask = pc.is_valid(column)
            if low is not None:
                compare = pc.greater if low_open else pc.greater_equal
                mask = pc.and_(
                    mask, pc.fill_null(compare(column, pa.scalar(_exact(low, column.type), column.type)), False)
                )
            if high is not None:
                compare = pc.less if high_open else pc.less_equal
                mask = pc.and_(
                    mask, pc.fill_null(compare(column, pa.scalar(_exact(high, column.type), column.type)), False)
                )
            return mask


def _exact(value: Scalar, kind: pa.DataType) -> Scalar:
    """A constant as the column's type has it, if it has it."""
    if pa.types.is_floating(kind) and isinstance(value, int | float) and not isinstance(value, bool):
        near = float(value) if abs(value) <= 2**1000 else math.inf
        if near == value:
            return near
    elif pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        whole = isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()
        if whole and -(2**63) <= value < 2**63:  # type: ignore[operator]  # a number, as just checked
            return int(value)
    elif (pa.types.is_string(kind) and isinstance(value, str)) or (
        pa.types.is_boolean(kind) and isinstance(value, bool)
    ):
        return value
    raise NotByColumns(f"{value!r} is not a value of {kind}")
