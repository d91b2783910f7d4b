"""Lenient time parser, to infer types and to pace a replay; admission parses strictly.

ISO 8601 text counts as a time, with or without an offset. Numbers do not: their unit would be a guess.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.arrow import INSTANT
from slackwater.core.errors import SourceError

_CLOCK = r"\d{2}(?::?\d{2}(?::?\d{2}(?:\.\d{1,9})?)?)?"
_LOOKS = rf"^\s*\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]{_CLOCK})?\s*(?:[Zz]|[+-]\d{{2}}(?::?\d{{2}})?)?\s*$"
_OFFSET = r"(?:[Zz]|\d[T ]\d{2}.*[+-]\d{2}(?::?\d{2})?)\s*$"
UNKNOWN = np.iinfo(np.int64).min
"""Marker of a time that cannot be parsed."""


def check_timezone(name: str) -> None:
    """Refuse a time zone that Arrow does not know.

    >>> check_timezone("Europe/Copenhagen")
    >>> check_timezone("Copenhagen")
    Traceback (most recent call last):
    slackwater.core.errors.SourceError: unknown time zone 'Copenhagen'; expected a name such as Europe/Copenhagen or UTC
    """
    try:
        pc.assume_timezone(pa.array([0], pa.timestamp("us")), name)
    except pa.ArrowException:
        raise SourceError(f"unknown time zone {name!r}; expected a name such as Europe/Copenhagen or UTC") from None


def are_times(text: pa.Array) -> bool:
    """Whether every cell that is not null reads as a time, and there is one."""
    return text.null_count < len(text) and bool(np.all(instants(text, None)[_valid(text)] != UNKNOWN))


def naive(column: pa.Array) -> bool:
    """Whether some time in the column has no zone."""
    if pa.types.is_timestamp(column.type):
        return column.type.tz is None
    if pa.types.is_string(column.type):
        zoned = pc.fill_null(pc.match_substring_regex(column, _OFFSET), True)
        return not bool(pc.all(zoned).as_py())
    return bool(pa.types.is_date(column.type))


def instants(column: pa.Array, timezone: str | None) -> npt.NDArray[np.int64]:
    """Microseconds since 1970 UTC for each cell, `UNKNOWN` where there is none to be read.

    Naive times are taken in the time zone given, else in UTC: good enough to pace by.

    >>> instants(pa.array(["1970-01-01T00:00:01Z", "1970-01-01 01:00:01+01:00", "soon", None]), None)[:2].tolist()
    [1000000, 1000000]
    """
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        return _numbers(_zoned(column, timezone))
    if pa.types.is_binary(column.type):
        column = pa.array([None if cell is None else cell.decode("utf-8", "replace") for cell in column.to_pylist()])
    if not pa.types.is_string(column.type):
        return np.full(len(column), UNKNOWN, np.int64)
    looks = pc.if_else(pc.match_substring_regex(column, _LOOKS), pc.utf8_trim_whitespace(column), None)
    offset = pc.match_substring_regex(looks, _OFFSET)
    with_offset = _numbers(_parsed(pc.if_else(offset, looks, None), INSTANT))
    without = _numbers(_zoned(_parsed(pc.if_else(offset, None, looks), pa.timestamp("us")), timezone))
    return np.where(with_offset != UNKNOWN, with_offset, without)


def _zoned(column: pa.Array, timezone: str | None) -> pa.Array:
    if column.type.tz is None and timezone is not None:
        column = pc.assume_timezone(column, timezone, ambiguous="earliest", nonexistent="latest")
    return column.cast(pa.timestamp("us", column.type.tz))


def _parsed(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse what parses: halve until only the cells that cannot be parsed fail."""
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        pass
    if len(text) == 1:
        try:
            return text.cast(pa.timestamp("ns", kind.tz)).cast(kind, safe=False)
        except pa.ArrowInvalid:
            return pa.nulls(1, kind)
    middle = len(text) // 2
    return pa.concat_arrays([_parsed(text.slice(0, middle), kind), _parsed(text.slice(middle), kind)])


def _numbers(times: pa.Array) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = pc.fill_null(times.cast(pa.int64()), UNKNOWN).to_numpy(zero_copy_only=False)
    return numbers


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return flags
