"""Key enumeration: the finite set of keys that a condition can match, where there is one.

Only the conditions on key columns count here; another one can make the list shorter and never longer.
"""

from itertools import product

from slackwater.core.extent import Categories, Extent, Interval
from slackwater.core.region import Box, Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import DataType, Key, Scalar

MOST_KEYS = 65_536
_WHOLE = (DataType.BIGINT, DataType.TIMESTAMP)


def keys_in(region: Region, schema: TableSchema) -> frozenset[Key] | None:
    """All keys that rows of the region can have; None where there is no list of them.

    >>> from slackwater.core import Column, Side
    >>> rooms = TableSchema("rooms", (Column("room", DataType.BIGINT, nullable=False),), key=("room",))
    >>> sorted(keys_in(Region((Box.of(Side("room", Interval(2, 4))),)), rooms))
    [(2,), (3,), (4,)]
    >>> keys_in(Region((Box.of(Side("room", Interval(2, None))),)), rooms)
    """
    found: set[Key] = set()
    for box in region:
        keys = _keys_of(box, schema)
        if keys is None or len(found) + len(keys) > MOST_KEYS:
            return None
        found.update(keys)
    return frozenset(found)


def may_hold(region: Region, key: Key, schema: TableSchema) -> bool:
    """Whether a row with this key can lie in the region."""
    parts = dict(zip(schema.key, key, strict=True))
    for box in region.boxes:
        for side in box.sides:
            if side.column in parts and not side.extent.contains(parts[side.column]):
                break
        else:
            return True
    return False


def _keys_of(box: Box, schema: TableSchema) -> list[Key] | None:
    sides: list[list[Scalar]] = []
    size = 1
    for name in schema.key:
        extent = box.extent(name)
        values = None if extent is None else _values(extent, schema.column(name).type)
        if values is None:
            return None
        sides.append(values)
        size *= len(values)
        if size > MOST_KEYS:
            return None
    return list(product(*sides))


def _values(extent: Extent, kind: DataType) -> list[Scalar] | None:
    match extent:
        case Categories(values, complement=False):
            return list(values)
        case Interval(low, high, False, False) if low is not None and low == high:
            return [low]
        case Interval(int() as low, int() as high) if kind in _WHOLE and high - low <= MOST_KEYS:
            first = low + 1 if extent.low_open else low
            return list(range(first, high if extent.high_open else high + 1))
        case _:
            return None
