"""Fast path of admission: arrivals without a fault, which is nearly all of them.

Rows that come in the declared types, with no repeat among them and nothing to refuse, need no conversion and no list of
faults. Whether they are such is a few looks at whole columns, most of them at the buffers alone. `admit_run` returns
None as soon as anything is unusual; then the general path (`admit.admit_generally`) decides, and says why. It never
accepts what the general path would not, and what it accepts is equal to the last bit.

It takes arrivals of one table and layout together, as if one after the other: each has its moment of admission, and the
memory of a source after one arrival is the memory before the next. So requests of many senders share the cost.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.admission.convert import HAS_OFFSET, plain_batch
from slackwater.admission.deduplication import FIRST_ORDINAL, LARGEST_SEQUENCE, SMALLEST_CONTENT, Seen
from slackwater.admission.identity import own_numbers
from slackwater.admission.limits import Limits
from slackwater.admission.outcome import RunAdmission
from slackwater.core.arrival import Arrival
from slackwater.core.arrow import ARROW_TYPES, EVENT_TIME, INSTANT, OPERATION, SEQUENCE, update_schema
from slackwater.core.schema import RESERVED_PREFIX, Column, TableSchema
from slackwater.core.types import DataType, Instant
from slackwater.core.update import Operation

Integers = npt.NDArray[np.int64]
_NULL, _LONG, _TEXT, _DOUBLE = pa.null(), pa.int64(), pa.string(), pa.float64()


def admit_run(
    arrivals: Sequence[Arrival],
    stamps: Sequence[Instant],
    table: TableSchema,
    seen: Mapping[str, Seen],
    limits: Limits,
) -> RunAdmission | None:
    """Admit arrivals of one table, each at its moment, the earliest first; None where anything is unusual."""
    whole = _whole(arrivals)
    if whole is None:
        return None
    names = whole.schema.names
    places = {name: place for place, name in enumerate(names)}
    if OPERATION in places or len(places) != len(names):
        return None
    counts = tuple([arrival.batch.num_rows for arrival in arrivals])
    sequences = _sequences(arrivals, whole, places, table)
    if sequences is None:
        return None
    after = _remembered(arrivals, counts, sequences, seen)
    if after is None:
        return None
    timezone = arrivals[0].timezone
    columns: list[pa.Array] = []
    for column in table.columns:
        place = places.get(column.name)
        raw = None if place is None else whole.column(place)
        values = _column(raw, len(sequences), column, table, timezone, stamps[0], limits)
        if values is None:
            return None
        columns.append(values)
    times = _event_times(whole, places, columns, counts, table, timezone, stamps, limits)
    if times is None:
        return None
    provenance = [_UPSERTS.slice(0, whole.num_rows), times, _sources(arrivals, counts), pa.array(sequences)]
    if whole.num_rows > len(_UPSERTS):
        provenance[0] = pa.array(np.zeros(whole.num_rows, np.int8))
    accepted = pa.RecordBatch.from_arrays([*columns, *provenance], schema=update_schema(table))
    ignored = tuple([name for name in names if not (table.has(name) or name.startswith(RESERVED_PREFIX))])
    return RunAdmission(accepted, counts, sequences, after, ignored)


_UPSERTS = pa.array(np.full(1024, int(Operation.UPSERT), np.int8))


def _whole(arrivals: Sequence[Arrival]) -> pa.RecordBatch | None:
    """The rows of all arrivals, if they have one layout and nothing was refused before."""
    first = arrivals[0]
    for arrival in arrivals:
        if arrival.refused or not arrival.batch.num_rows:
            return None
    if len(arrivals) == 1:
        return first.batch
    for arrival in arrivals:
        if arrival.timezone != first.timezone or not arrival.batch.schema.equals(first.batch.schema):
            return None
    try:
        return pa.concat_batches([arrival.batch for arrival in arrivals])
    except pa.ArrowException:
        # Too much text for one array, for example.
        return None


def _sequences(
    arrivals: Sequence[Arrival], whole: pa.RecordBatch, places: Mapping[str, int], table: TableSchema
) -> Integers | None:
    """The number of each row, as the source gives it, or by its content, or by its place in the arrival."""
    place = places.get(SEQUENCE)
    if place is not None:
        column = whole.column(place)
        if column.type != _LONG or column.null_count:
            return None
        numbers: Integers = column.to_numpy()
        if len(numbers) == 1:
            return numbers if 0 <= numbers[0] <= LARGEST_SEQUENCE else None
        return numbers if numbers.min() >= 0 and numbers.max() <= LARGEST_SEQUENCE else None
    if (table.event_time or EVENT_TIME) in places:
        return np.concatenate([own_numbers(plain_batch(arrival.batch), table) for arrival in arrivals])
    if len(arrivals) == 1:
        return FIRST_ORDINAL + np.arange(whole.num_rows, dtype=np.int64)
    return np.concatenate([FIRST_ORDINAL + np.arange(arrival.batch.num_rows, dtype=np.int64) for arrival in arrivals])


def _remembered(
    arrivals: Sequence[Arrival], counts: Sequence[int], sequences: Integers, seen: Mapping[str, Seen]
) -> dict[str, Seen] | None:
    """The memory of each source after its arrivals; None if a row is a repeat or out of the window."""
    after: dict[str, Seen] = {}
    begin = 0
    for arrival, count in zip(arrivals, counts, strict=True):
        own = sequences[begin : begin + count]
        begin += count
        before = after.get(arrival.source) or seen.get(arrival.source) or Seen()
        first = int(own[0])
        if first >= 0 and (count == 1 or (own[1:] - own[:-1] == 1).all()):
            extended = before.after_next(first, first + count - 1)
            if extended is not None:
                after[arrival.source] = extended
                continue
        if first < SMALLEST_CONTENT and own.max() < SMALLEST_CONTENT:
            # Without identity: always fresh, and not remembered.
            after[arrival.source] = before
            continue
        fresh, after[arrival.source], given_up = before.admit(own)
        if given_up or not fresh.all():
            return None
    return after


def _column(
    raw: pa.Array | None,
    rows: int,
    column: Column,
    table: TableSchema,
    timezone: str | None,
    now: Instant,
    limits: Limits,
) -> pa.Array | None:
    """A column in its declared type; None where a cell is missing or cannot be taken as it is."""
    target = ARROW_TYPES[column.type]
    is_time = column.name == table.event_time
    if raw is None or raw.type == _NULL:
        values = pa.nulls(rows, target)
    else:
        found = _values(raw, column.type, limits)
        if found is None:
            return None
        values = found
    if values.null_count and (is_time or not column.nullable):
        return None
    if column.type is DataType.TIMESTAMP:
        ahead = limits.ahead if is_time else limits.column_ahead
        if not _are_sane(values, Instant(limits.earliest), Instant(now + ahead)):
            return None
    return values


def _values(raw: pa.Array, kind: DataType, limits: Limits) -> pa.Array | None:
    """The cells in their declared type, if they come in it or nearly so."""
    found = raw.type
    match kind:
        case DataType.DOUBLE:
            if found == _LONG:
                return raw.cast(_DOUBLE, safe=False)
            return raw if found == _DOUBLE and _are_finite(raw) else None
        case DataType.TEXT:
            return raw if found == _TEXT and _is_sound(raw, limits.longest_text) else None
        case DataType.TIMESTAMP:
            return _with_offsets(raw) if found == _TEXT else raw if found == INSTANT else None
        case _:
            return raw if found == ARROW_TYPES[kind] else None


def _are_finite(values: pa.Array) -> bool:
    """True if no cell is infinite or not a number. What lies below a null may be anything: then the answer is no."""
    return bool(np.isfinite(_numbers(values, np.dtype(np.float64))).all())


def _is_sound(text: pa.Array, longest: int) -> bool:
    """True if all text is UTF-8 and no cell is too long."""
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    # No cell is longer than all of them together.
    content = text.buffers()[2]
    if content is None or content.size <= longest:
        return True
    most = pc.max(pc.binary_length(text)).as_py()
    return most is None or most <= longest


def _with_offsets(text: pa.Array) -> pa.Array | None:
    """Times written with their offsets; None if one is not, or is unusual in another way."""
    if not pc.all(pc.match_substring_regex(text, HAS_OFFSET), min_count=0).as_py():
        return None
    try:
        text.validate(full=True)
        return text.cast(INSTANT)
    except pa.ArrowInvalid:
        return None


def _are_sane(times: pa.Array, earliest: Instant, latest: Instant) -> bool:
    """True if all times lie between two. What lies below a null may be anything: then the answer is no."""
    numbers = _numbers(times, np.dtype(np.int64))
    if times.null_count == len(times):
        return True
    return bool(numbers.min() >= earliest and numbers.max() <= latest)


def _numbers(values: pa.Array, kind: "np.dtype[np.generic]") -> npt.NDArray[np.generic]:
    """The numbers in an array's buffer, those below nulls too."""
    # A buffer may be longer than its numbers, and not by whole ones.
    found: npt.NDArray[np.generic] = np.frombuffer(
        values.buffers()[1], kind, len(values), values.offset * kind.itemsize
    )
    return found


def _event_times(
    whole: pa.RecordBatch,
    places: Mapping[str, int],
    columns: Sequence[pa.Array],
    counts: Sequence[int],
    table: TableSchema,
    timezone: str | None,
    stamps: Sequence[Instant],
    limits: Limits,
) -> pa.Array | None:
    if table.event_time is not None:
        return columns[table.index(table.event_time)]
    place = places.get(EVENT_TIME)
    if place is None:
        moments = np.repeat(np.array(stamps, np.int64), counts) if len(counts) > 1 else np.full(counts[0], stamps[0])
        return pa.Array.from_buffers(INSTANT, len(moments), [None, pa.py_buffer(moments)], 0)
    values = _values(whole.column(place), DataType.TIMESTAMP, limits)
    if values is None or values.null_count or not _are_sane(values, limits.earliest, Instant(stamps[0] + limits.ahead)):
        return None
    return values


def _sources(arrivals: Sequence[Arrival], counts: Sequence[int]) -> pa.Array:
    if len(arrivals) == 1:
        return pa.repeat(arrivals[0].source, counts[0])
    if max(counts) == 1:
        return pa.array([arrival.source for arrival in arrivals], _TEXT)
    return pa.concat_arrays([pa.repeat(arrival.source, count) for arrival, count in zip(arrivals, counts, strict=True)])
