"""Typed extents: constants of the column's own type, so `n > 2.5` on a BIGINT column is `n >= 3`.

Python compares integers and floats exactly, arrays do not: 2⁵³ + 1 and 2⁵³ are the same as floats. So constants are
rounded, in the direction that changes nothing, before a column is compared with them.
"""

import math

from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.types import LARGEST_BIGINT, SMALLEST_BIGINT, DataType, Scalar

_WHOLE = (DataType.BIGINT, DataType.TIMESTAMP)
_BEYOND = 2**64
"""Greater than every BIGINT, and its negative less than every one."""


def fitted(extent: Extent, kind: DataType) -> Extent | None:
    """The same values of a column of this type, or None where there is no such value.

    >>> fitted(Interval(2.5, 7), DataType.BIGINT)
    Interval(low=3, high=7, low_open=False, high_open=False)
    >>> fitted(Categories(frozenset({2.5})), DataType.BIGINT)
    """
    if kind in (DataType.TEXT, DataType.BOOLEAN) or isinstance(extent, Missing):
        return extent
    if isinstance(extent, Categories):
        values = frozenset(value for value in (_same(_number(one), kind) for one in extent.values) if value is not None)
        fit: Extent = Categories(values, extent.complement)
    else:
        low, low_open = (None, False) if extent.low is None else _low(_number(extent.low), extent.low_open, kind)
        # x < c is −x > −c: one rule for both ends.
        high, high_open = (None, False) if extent.high is None else _low(-_number(extent.high), extent.high_open, kind)
        high = None if high is None else -high
        if kind in _WHOLE:
            # Ends that no BIGINT can reach are no ends, or leave nothing.
            if (low is not None and low > LARGEST_BIGINT) or (high is not None and high < SMALLEST_BIGINT):
                return None
            low = None if low is not None and low < SMALLEST_BIGINT else low
            high = None if high is not None and high > LARGEST_BIGINT else high
        fit = Interval(low, high, low_open, high_open)
    return None if fit.empty else fit


def _number(value: Scalar) -> int | float:
    assert isinstance(value, int | float)
    return value


def _same(value: int | float, kind: DataType) -> int | float | None:
    """The value of the column's type that equals this one."""
    if kind in _WHOLE:
        whole = not (isinstance(value, float) and not value.is_integer())
        return int(value) if whole and SMALLEST_BIGINT <= value <= LARGEST_BIGINT else None
    try:
        near = float(value)
    except OverflowError:
        return None
    return near if near == value else None


def _low(value: int | float, is_open: bool, kind: DataType) -> tuple[int | float | None, bool]:
    """The lower end that means the same for values of the column's type."""
    if kind in _WHOLE:
        if isinstance(value, float) and math.isinf(value):
            return (None, False) if value < 0 else (_BEYOND, False)
        return (math.floor(value) + 1, False) if is_open else (math.ceil(value), False)
    try:
        near = float(value)
    except OverflowError:
        return (None, False) if value < 0 else (math.inf, True)
    if near == value:
        return near, is_open
    # No DOUBLE lies between the two, so all that matters is on which side the nearest one is.
    return near, near < value
