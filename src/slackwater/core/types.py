"""Column types: the five types of SQL, their scalars, and instants.

A scalar is a plain Python value. TIMESTAMP scalars are `Instant`s: microseconds since 1970-01-01 UTC as an
`int`, so that event times and timestamp columns compare and subtract without a time zone in sight.
"""

import math
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import NewType, TypeAlias

Instant = NewType("Instant", int)
"""Microseconds since 1970-01-01T00:00:00 UTC."""

Position = NewType("Position", int)
"""How many records of a log come before this place; the log's first record stands at position 0."""

Scalar: TypeAlias = bool | int | float | str
Row: TypeAlias = tuple[Scalar | None, ...]
"""One value for each column of a table, in the order of its schema."""
Key: TypeAlias = tuple[Scalar, ...]
"""The values of the key columns, in the order of the schema's key."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
SMALLEST_BIGINT = -(2**63)
LARGEST_BIGINT = 2**63 - 1


class DataType(Enum):
    """A column's type, named as it is written in SQL."""

    BOOLEAN = "BOOLEAN"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    TEXT = "TEXT"
    TIMESTAMP = "TIMESTAMP"

    @property
    def numeric(self) -> bool:
        """Whether sums and bounds make sense for this type."""
        return self in (DataType.BIGINT, DataType.DOUBLE)

    def holds(self, value: Scalar) -> bool:
        """Whether `value` is a legal scalar of this type.

        >>> DataType.DOUBLE.holds(1.5), DataType.DOUBLE.holds(float("nan")), DataType.BIGINT.holds(True)
        (True, False, False)
        """
        match self:
            case DataType.BOOLEAN:
                return isinstance(value, bool)
            case DataType.DOUBLE:
                return isinstance(value, float) and math.isfinite(value)
            case DataType.TEXT:
                return isinstance(value, str)
            case DataType.BIGINT | DataType.TIMESTAMP:
                return (
                    isinstance(value, int)
                    and not isinstance(value, bool)
                    and SMALLEST_BIGINT <= value <= LARGEST_BIGINT
                )


def instant(moment: datetime) -> Instant:
    """Turn an aware datetime into an instant.

    >>> instant(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000000
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone: say which, for example with tzinfo=UTC")
    return Instant((moment - _EPOCH) // _MICROSECOND)


def moment(at: Instant) -> datetime:
    """Turn an instant into an aware datetime in UTC.

    >>> moment(Instant(1_000_000)).isoformat()
    '1970-01-01T00:00:01+00:00'
    """
    return _EPOCH + timedelta(microseconds=at)
