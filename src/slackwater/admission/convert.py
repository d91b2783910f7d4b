"""Type conversion: a source's columns to a table's declared types, cell by cell where a whole column fails.

Rules
    TEXT        anything; bytes must be UTF-8
    DOUBLE      numbers, and text that reads as one
    BIGINT      whole numbers, and text that reads as one; 3.0 is whole, 3.5 is not
    BOOLEAN     true/false, 0/1, and text that reads as one of those
    TIMESTAMP   times, dates (midnight), ISO 8601 text; without an offset they need the source's time zone. Finer
                than a microsecond is cut off. Local times that occur twice when clocks go back mean the first, those
                that are skipped when clocks go forward the moment after. Numbers are refused: their unit is a guess.

Empty text is null, except in a TEXT column.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.admission.reasons import Reason
from slackwater.core.arrow import ARROW_TYPES, INSTANT
from slackwater.core.types import DataType

Flags = npt.NDArray[np.bool_]
_YEAR_1, _YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000
HAS_OFFSET = r":\d{2}(?:\.\d+)?\s?(?:[Zz]|[+-]\d{2}(?::?\d{2})?)$"


@dataclass(frozen=True, slots=True)
class ConversionFailure:
    """The rows of a column that could not be converted, and why."""

    reason: Reason
    rows: Flags
    expected: str


@dataclass(frozen=True, slots=True)
class Converted:
    """A column in its declared type, null in the rows that `troubles` names."""

    column: pa.Array
    troubles: tuple[ConversionFailure, ...] = ()


def convert(column: pa.Array, kind: DataType, timezone: str | None) -> Converted:
    """Bring a column to its declared type; rows that will not go become null and are named."""
    column = decoded(column)
    target = ARROW_TYPES[kind]
    if pa.types.is_null(column.type):
        return Converted(pa.nulls(len(column), target))
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
        text, undecodable = _utf8(column)
        if kind is not DataType.TEXT:
            text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
        done = _from_text(text, kind, timezone)
    else:
        undecodable = ()
        done = _from_typed(column, kind, timezone)
    return Converted(done.column, (*undecodable, *done.troubles))


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same columns in layouts that can be taken apart."""
    columns = [decoded(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names) if columns else batch


def decoded(column: pa.Array) -> pa.Array:
    """Plain strings and binaries in place of dictionaries, runs and the large and view layouts."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    if (
        pa.types.is_large_binary(column.type)
        or pa.types.is_fixed_size_binary(column.type)
        or pa.types.is_binary_view(column.type)
    ):
        return column.cast(pa.binary())
    return column


def _utf8(column: pa.Array) -> tuple[pa.Array, tuple[ConversionFailure, ...]]:
    """Text that is known to be UTF-8: readers may hand over bytes unchecked, even under a string type."""
    if pa.types.is_string(column.type):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            column = column.view(pa.binary())
        else:
            return column, ()
    text, bad = _each(column, lambda part: part.cast(pa.string()), pa.string())
    return text, _trouble(Reason.WRONG_ENCODING, bad, "text in UTF-8")


def _from_text(text: pa.Array, kind: DataType, timezone: str | None) -> Converted:
    if kind is DataType.TEXT:
        return Converted(text)
    text = pc.utf8_trim_whitespace(text)
    text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    if kind is DataType.TIMESTAMP:
        return _times_from_text(text, timezone)
    target = ARROW_TYPES[kind]
    column, bad = _each(text, lambda part: part.cast(target), target)
    return Converted(column, _trouble(Reason.WRONG_TYPE, bad, _EXPECTED[kind]))


def _from_typed(column: pa.Array, kind: DataType, timezone: str | None) -> Converted:
    found, target = column.type, ARROW_TYPES[kind]
    number = pa.types.is_integer(found) or pa.types.is_floating(found) or pa.types.is_decimal(found)
    time = pa.types.is_timestamp(found) or pa.types.is_date(found)
    if kind is DataType.TIMESTAMP and time:
        return _times(column, timezone)
    if kind is DataType.BOOLEAN and number:
        if not pa.types.is_integer(found):
            column = column.cast(pa.float64(), safe=False)
            found = pa.float64()
        bad = ~_true(pc.is_in(column, pa.array([0, 1]).cast(found))) & _true(pc.is_valid(column))
        column = pc.if_else(pa.array(bad), pa.scalar(None, found), column).cast(target)
        return Converted(column, _trouble(Reason.WRONG_TYPE, bad, _EXPECTED[kind]))
    fits = (
        (kind is DataType.TEXT and not pa.types.is_nested(found))
        or (kind is DataType.BOOLEAN and pa.types.is_boolean(found))
        or (kind in (DataType.BIGINT, DataType.DOUBLE) and number)
    )
    if not fits:
        bad = _true(pc.is_valid(column))
        return Converted(pa.nulls(len(column), target), _trouble(Reason.WRONG_TYPE, bad, _EXPECTED[kind]))
    # A DOUBLE takes any whole number, to the nearest it can hold; a BIGINT takes nothing that is not whole.
    safe = kind is not DataType.DOUBLE
    converted, bad = _each(column, lambda part: part.cast(target, safe=safe), target)
    if kind is DataType.TEXT and time:
        bad |= _unwritable(column)
        converted = pc.if_else(pa.array(bad), pa.scalar(None, target), converted)
    return Converted(converted, _trouble(Reason.WRONG_TYPE, bad, _EXPECTED[kind]))


def _unwritable(times: pa.Array) -> Flags:
    """Times outside the years 1 to 9999, for which Arrow writes nonsense."""
    naive = times.cast(pa.timestamp(times.type.unit)) if pa.types.is_timestamp(times.type) else times
    fine = naive.type == pa.timestamp("ns")
    micros, beyond = _each(naive, lambda part: part.cast(pa.timestamp("us"), safe=not fine), pa.timestamp("us"))
    number = micros.cast(pa.int64())
    outside = pc.or_(pc.less(number, _YEAR_1), pc.greater_equal(number, _YEAR_10000))
    return beyond | _true(outside)


def _times_from_text(text: pa.Array, timezone: str | None) -> Converted:
    aware = _true(pc.match_substring_regex(text, HAS_OFFSET))
    with_offset, bad_offset = _each(
        pc.if_else(pa.array(aware), text, pa.scalar(None, pa.string())), _parse(INSTANT), INSTANT
    )
    plain, bad_plain = _each(
        pc.if_else(pa.array(~aware), text, pa.scalar(None, pa.string())),
        _parse(pa.timestamp("us")),
        pa.timestamp("us"),
    )
    local = _times(plain, timezone)
    column = pc.if_else(pa.array(aware), with_offset, local.column)
    unreadable = _trouble(Reason.WRONG_TYPE, bad_offset | bad_plain, _EXPECTED[DataType.TIMESTAMP])
    return Converted(column, (*unreadable, *local.troubles))


def _parse(target: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """Text to times; a fraction finer than a microsecond is read as nanoseconds and cut off."""

    def parse(part: pa.Array) -> pa.Array:
        try:
            return part.cast(target)
        except pa.ArrowInvalid:
            return part.cast(pa.timestamp("ns", tz=target.tz)).cast(target, safe=False)

    return parse


def _times(column: pa.Array, timezone: str | None) -> Converted:
    if not pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms"))
    fine = column.type.unit == "ns"
    if column.type.tz is not None:
        converted, bad = _each(column, lambda part: part.cast(INSTANT, safe=not fine), INSTANT)
        return Converted(converted, _trouble(Reason.WRONG_TYPE, bad, _EXPECTED[DataType.TIMESTAMP]))
    if timezone is None:
        bad = _true(pc.is_valid(column))
        return Converted(pa.nulls(len(column), INSTANT), _trouble(Reason.NAIVE_TIME, bad, "a time with its zone"))

    def localise(part: pa.Array) -> pa.Array:
        plain = part.cast(pa.timestamp("us"), safe=not fine)
        return pc.assume_timezone(plain, timezone, ambiguous="earliest", nonexistent="latest").cast(INSTANT)

    converted, bad = _each(column, localise, INSTANT)
    return Converted(converted, _trouble(Reason.WRONG_TYPE, bad, _EXPECTED[DataType.TIMESTAMP]))


def _each(column: pa.Array, function: Callable[[pa.Array], pa.Array], target: pa.DataType) -> tuple[pa.Array, Flags]:
    """Apply a conversion that fails as a whole when one cell does: halve until only the bad cells fail.

    Costs log₂(rows) tries for each bad cell, and one try when there is none.
    """
    try:
        return function(column), np.zeros(len(column), np.bool_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError):
        if len(column) <= 1:
            return pa.nulls(len(column), target), np.ones(len(column), np.bool_)
    middle = len(column) // 2
    left, bad_left = _each(column.slice(0, middle), function, target)
    right, bad_right = _each(column.slice(middle), function, target)
    return pa.concat_arrays([left, right]), np.concatenate([bad_left, bad_right])


def _true(flags: pa.Array) -> Flags:
    """An Arrow mask as NumPy, null counting as false."""
    result: Flags = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
    return result


def _trouble(reason: Reason, rows: Flags, expected: str) -> tuple[ConversionFailure, ...]:
    return (ConversionFailure(reason, rows, expected),) if rows.any() else ()


_EXPECTED = {
    DataType.BOOLEAN: "a BOOLEAN (true, false, 0 or 1)",
    DataType.BIGINT: "a BIGINT (a whole number of 64 bits)",
    DataType.DOUBLE: "a DOUBLE (a number)",
    DataType.TEXT: "TEXT",
    DataType.TIMESTAMP: "a TIMESTAMP (ISO 8601 text or a time)",
}
