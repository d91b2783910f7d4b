"""Row admission: partitions an arrival into accepted, quarantined and duplicate rows.

`admit` is a pure function: the same arrival, table, memory and moment give the same result. Every row of an arrival
ends in exactly one of three places, and a bad row never touches its neighbours. In order:

1.  The row's number: `$seq`. A number that is missing or not from 0 to 2⁶² is refused. Without the column, a row with
    an event time of its own is known by its content (`identity`), and any other by its place in the arrival alone.
2.  Repeats: rows whose number was seen are counted and left out, also those that had been refused. A row outside the
    window, of which it is not known whether it was seen, is refused by name. A row without identity is never a repeat.
3.  Each column is brought to its declared type (`convert`) and checked. A row with several faults is refused for the
    first, in the order of the table's columns.
4.  The event time: the table's EVENT TIME column, else `$time`, else the moment of admission. That moment is the log
    clock (`hosting.log_clock`), so rows that bring no time are ordered as they came; within an arrival by number.

Columns that the table does not have are left out and named in the result.
"""

import json
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.admission.convert import Converted, convert, plain_batch
from slackwater.admission.deduplication import LARGEST_SEQUENCE, MOST_RANGES, SMALLEST_CONTENT, Seen
from slackwater.admission.fast_path import admit_run
from slackwater.admission.identity import of_text, own_numbers
from slackwater.admission.limits import Limits
from slackwater.admission.outcome import Admission
from slackwater.admission.reasons import Reason
from slackwater.core.arrival import Arrival, Refusal
from slackwater.core.arrow import EVENT_TIME, INSTANT, OPERATION, QUARANTINE, SEQUENCE, update_schema
from slackwater.core.schema import RESERVED_PREFIX, Column, TableSchema
from slackwater.core.types import DataType, Instant, moment
from slackwater.core.update import Operation

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


def admit(arrival: Arrival, table: TableSchema, seen: Seen, now: Instant, limits: Limits | None = None) -> Admission:
    """Check an arrival against its table; see the module for the rules."""
    limits = limits or Limits()
    run = admit_run((arrival,), (now,), table, {arrival.source: seen}, limits)
    if run is None:
        original = arrival if arrival.original is None else arrival.original()
        return admit_generally(original, table, seen, now, limits)
    return Admission(run.accepted, _NONE_QUARANTINED, 0, run.seen[arrival.source], ignored_columns=run.ignored_columns)


def admit_generally(arrival: Arrival, table: TableSchema, seen: Seen, now: Instant, limits: Limits) -> Admission:
    """The same row by row where it must be, for arrivals of any kind; the plain twin of the fast path."""
    arrival = replace(arrival, batch=plain_batch(arrival.batch))
    raw = arrival.batch
    sequences, bad_sequence = _sequences(arrival, table)
    outside = seen.outside(sequences)
    fresh, seen, given_up = _fresh(sequences, bad_sequence, seen)
    refused_fresh, seen, also_given_up = _fresh_refusals(arrival, seen)

    # Almost always the window is whole.
    kept = np.flatnonzero(fresh | outside if outside.any() else fresh)
    rows = _Rows(arrival, raw if len(kept) == raw.num_rows else raw.take(pa.array(kept)), sequences[kept], kept)
    faults = _Faults(rows.count)
    faults.add(Reason.BAD_SEQUENCE, bad_sequence[kept], "$seq must be a whole number from 0 to 2^62")
    if outside.any():
        faults.add(Reason.OUTSIDE_WINDOW, outside[kept], _outside(arrival.source, seen))
    accepted = _checked(rows, table, faults, now, limits)

    quarantined = _quarantine(rows, faults, now, limits, refused_fresh)
    return Admission(
        accepted=accepted,
        quarantined=quarantined,
        repeats=raw.num_rows - rows.count + len(arrival.refused) - len(refused_fresh),
        seen=seen,
        given_up=given_up + also_given_up,
        ignored_columns=tuple(
            name for name in raw.schema.names if not table.has(name) and not name.startswith(RESERVED_PREFIX)
        ),
        outside_window=int(outside.sum()),
    )


def _outside(source: str, seen: Seen) -> str:
    return (
        f"the numbers of {source} are known from {seen.floor} on, because more than {MOST_RANGES} gaps were open: "
        f"whether this row was taken is not known; send it under another source if it was not"
    )


_NONE_QUARANTINED = pa.RecordBatch.from_pylist([], QUARANTINE)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of an arrival that are no repeats; `numbers` are their places in the arrival's batch."""

    arrival: Arrival
    batch: pa.RecordBatch
    sequences: Integers
    numbers: npt.NDArray[np.intp]

    @property
    def count(self) -> int:
        return int(self.batch.num_rows)

    def at(self, row: int) -> int:
        """The number of a row at its place."""
        number = int(self.numbers[row])
        return number + 1 if self.arrival.rows is None else int(self.arrival.rows[number].as_py())

    def column(self, name: str) -> pa.Array | None:
        position = self.batch.schema.get_field_index(name)
        return None if position < 0 else self.batch.column(position)


@dataclass(slots=True)
class _Faults:
    """The first fault found in each row."""

    count: int
    found: dict[int, tuple[Reason, str]] = field(default_factory=dict)

    def add(self, reason: Reason, rows: Flags, detail: str, showing: pa.Array | None = None) -> None:
        for row in np.flatnonzero(rows).tolist():
            if row not in self.found:
                came = "" if showing is None else f", but came {_shown(showing[row])}"
                self.found[row] = (reason, f"{detail}{came}")

    def good(self) -> Flags:
        good = np.ones(self.count, np.bool_)
        good[list(self.found)] = False
        return good


def _sequences(arrival: Arrival, table: TableSchema) -> tuple[Integers, Flags]:
    """Every row's number, and which rows have none that can be used."""
    batch = arrival.batch
    position = batch.schema.get_field_index(SEQUENCE)
    if position < 0:
        return own_numbers(batch, table), np.zeros(batch.num_rows, np.bool_)
    numbers = convert(batch.column(position), DataType.BIGINT, None).column
    bad: Flags = pc.is_null(numbers).to_numpy(zero_copy_only=False)
    sequences: Integers = pc.fill_null(numbers, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return sequences, bad | (sequences < 0) | (sequences > LARGEST_SEQUENCE)


def _fresh(sequences: Integers, unusable: Flags, seen: Seen) -> tuple[Flags, Seen, int]:
    """Rows not seen before; a row without a usable number counts as fresh, to be refused."""
    if not unusable.any():
        return seen.admit(sequences)
    fresh = np.ones(len(sequences), np.bool_)
    fresh[~unusable], seen, given_up = seen.admit(sequences[~unusable])
    return fresh, seen, given_up


def _fresh_refusals(arrival: Arrival, seen: Seen) -> tuple[list[int], Seen, int]:
    """Which of the rows the source itself refused are news; those outside the window may be, and are kept again."""
    numbers = np.array([_number_of(refusal) for refusal in arrival.refused], np.int64)
    outside = seen.outside(numbers)
    fresh, seen, given_up = seen.admit(numbers)
    return np.flatnonzero(fresh | outside).tolist(), seen, given_up


def _number_of(refusal: Refusal) -> int:
    """Content hash as the number of a refused row without one (a torn last line)."""
    return refusal.sequence if refusal.sequence is not None else of_text(f"{refusal.reason}\x1f{refusal.row}")


def _checked(rows: _Rows, table: TableSchema, faults: _Faults, now: Instant, limits: Limits) -> pa.RecordBatch:
    operations = _operations(rows, faults)
    deleted = operations == int(Operation.DELETE)
    columns = [_column(rows, table, column, deleted, faults, now, limits) for column in table.columns]
    times = _event_times(rows, table, columns, faults, now, limits)
    good = faults.good()
    schema = update_schema(table)
    arrays = [
        *columns,
        pa.array(operations),
        times,
        pa.repeat(rows.arrival.source, rows.count),
        pa.array(rows.sequences),
    ]
    if not good.all():
        arrays = [array.filter(pa.array(good)) for array in arrays]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _operations(rows: _Rows, faults: _Faults) -> npt.NDArray[np.int8]:
    given = rows.column(OPERATION)
    if given is None:
        return np.full(rows.count, int(Operation.UPSERT), np.int8)
    numbers = convert(given, DataType.BIGINT, None).column
    legal = pa.array([int(operation) for operation in Operation])
    faults.add(
        Reason.BAD_OPERATION,
        ~np.asarray(pc.is_in(numbers, legal).to_numpy(zero_copy_only=False), np.bool_),
        "$op must be 0 (upsert) or 1 (delete)",
        given,
    )
    clipped: npt.NDArray[np.int8] = (
        pc.if_else(pc.is_in(numbers, legal), numbers, 0).cast(pa.int8()).to_numpy(zero_copy_only=False)
    )
    return clipped


def _column(
    rows: _Rows,
    table: TableSchema,
    column: Column,
    deleted: Flags,
    faults: _Faults,
    now: Instant,
    limits: Limits,
) -> pa.Array:
    """One column in its declared type; faults are noted, and null in a deletion unless it is the key."""
    is_key = column.name in table.key
    is_time = column.name == table.event_time
    raw = rows.column(column.name)
    counts = np.ones(rows.count, np.bool_) if is_key or is_time else ~deleted
    if raw is None:
        converted = convert(pa.nulls(rows.count), column.type, None)
    else:
        converted = convert(raw, column.type, rows.arrival.timezone)
    for trouble in converted.troubles:
        faults.add(trouble.reason, trouble.rows & counts, f"{column.name}: expected {trouble.expected}", raw)
    values = converted.column
    found = _time_faults(values, now, limits) if is_time else _value_faults(column, values, now, limits)
    for reason, bad, detail in found:
        faults.add(reason, bad & counts, f"{column.name}: {detail}", raw)
    null: Flags = pc.is_null(values).to_numpy(zero_copy_only=False)
    if is_key:
        faults.add(Reason.MISSING_KEY, null, f"{column.name}: a key column must have a value")
    elif is_time:
        faults.add(Reason.MISSING_TIME, null & ~deleted, f"{column.name}: the event time must have a value")
    elif not column.nullable:
        faults.add(Reason.MISSING_VALUE, null & counts, f"{column.name}: a NOT NULL column must have a value")
    if not counts.all():
        values = pc.if_else(pa.array(counts), values, pa.scalar(None, values.type))
    return values


def _value_faults(column: Column, values: pa.Array, now: Instant, limits: Limits) -> list[tuple[Reason, Flags, str]]:
    match column.type:
        case DataType.DOUBLE:
            finite: Flags = pc.fill_null(pc.is_finite(values), True).to_numpy(zero_copy_only=False)
            return [(Reason.NOT_FINITE, ~finite, "expected a finite number")]
        case DataType.TEXT:
            long = pc.fill_null(pc.greater(pc.binary_length(values), limits.longest_text), False)
            return [
                (
                    Reason.HUGE_FIELD,
                    long.to_numpy(zero_copy_only=False),
                    f"expected at most {limits.longest_text} bytes",
                )
            ]
        case DataType.TIMESTAMP:
            times = limits.earliest, Instant(now + limits.column_ahead)
            return [(Reason.ABSURD_TIME, _outside_times(values, *times), _sane(*times))]
        case _:
            return []


def _time_faults(times: pa.Array, now: Instant, limits: Limits) -> list[tuple[Reason, Flags, str]]:
    """Faults of an event time: it must not be absurd, nor ahead of the log clock by more than the limit."""
    if not _outside_times(times, limits.earliest, Instant(now + limits.ahead)).any():
        return []
    micros = times.cast(pa.int64())
    early = pc.fill_null(pc.less(micros, limits.earliest), False).to_numpy(zero_copy_only=False)
    late = pc.fill_null(pc.greater(micros, now + limits.ahead), False).to_numpy(zero_copy_only=False)
    hours = f"{limits.ahead / 3_600_000_000:g}"
    return [
        (Reason.ABSURD_TIME, early, f"expected a time from {moment(limits.earliest):%Y-%m-%d} on"),
        (
            Reason.TIME_AHEAD,
            late,
            f"expected an event time at most {hours} h ahead of the log clock, which is at "
            f"{moment(now):%Y-%m-%d %H:%M:%S} UTC (--event-time-ahead)",
        ),
    ]


def _sane(earliest: Instant, latest: Instant) -> str:
    return f"expected a time from {moment(earliest):%Y-%m-%d} to {moment(latest):%Y-%m-%d}"


def _outside_times(times: pa.Array, earliest: Instant, latest: Instant) -> Flags:
    """Flag the times before the earliest and after the latest."""
    micros = times.cast(pa.int64())
    outside = pc.or_(pc.less(micros, earliest), pc.greater(micros, latest))
    flags: Flags = pc.fill_null(outside, False).to_numpy(zero_copy_only=False)
    return flags


def _event_times(
    rows: _Rows, table: TableSchema, columns: list[pa.Array], faults: _Faults, now: Instant, limits: Limits
) -> pa.Array:
    admitted = pa.scalar(now, pa.int64()).cast(INSTANT)
    if table.event_time is not None:
        # A deletion may leave the time out; it then counts from the moment it was admitted.
        return pc.fill_null(columns[table.index(table.event_time)], admitted)
    given = rows.column(EVENT_TIME)
    if given is None:
        return pa.repeat(admitted, rows.count)
    converted: Converted = convert(given, DataType.TIMESTAMP, rows.arrival.timezone)
    for trouble in converted.troubles:
        faults.add(trouble.reason, trouble.rows, f"$time: expected {trouble.expected}", given)
    for reason, bad, detail in _time_faults(converted.column, now, limits):
        faults.add(reason, bad, f"$time: {detail}", given)
    null = pc.is_null(converted.column).to_numpy(zero_copy_only=False)
    faults.add(Reason.MISSING_TIME, null, "$time: the event time must have a value")
    return pc.fill_null(converted.column, admitted)


def _quarantine(rows: _Rows, faults: _Faults, now: Instant, limits: Limits, refusals: list[int]) -> pa.RecordBatch:
    arrival = rows.arrival
    bad = sorted(faults.found)
    whole = rows.batch.take(pa.array(bad, pa.int64())) if bad else None
    reasons = [faults.found[row] for row in bad]
    refused = [arrival.refused[k] for k in refusals]
    places = [f"{arrival.place}, row {rows.at(row)}" for row in bad]
    numbers: list[int | None] = [
        None if reason is Reason.BAD_SEQUENCE or rows.sequences[row] < SMALLEST_CONTENT else int(rows.sequences[row])
        for row, (reason, _) in zip(bad, reasons, strict=True)
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(
                [
                    *(_row_text(whole, k, limits) for k in range(len(bad))),
                    *(_clean(refusal.row)[: limits.kept_row] for refusal in refused),
                ],
                pa.string(),
            ),
            pa.array([*(str(reason) for reason, _ in reasons), *(refusal.reason for refusal in refused)], pa.string()),
            pa.array([*(detail for _, detail in reasons), *(_clean(r.detail) for r in refused)], pa.string()),
            pa.array([*places, *(arrival.place for _ in refused)], pa.string()),
            pa.array([now] * (len(bad) + len(refused)), pa.int64()).cast(INSTANT),
            pa.array([arrival.source] * (len(bad) + len(refused)), pa.string()),
            pa.array([*numbers, *(_number_of(refusal) for refusal in refused)], pa.int64()),
        ],
        schema=QUARANTINE,
    )


def _row_text(batch: pa.RecordBatch, row: int, limits: Limits) -> str:
    cells = {name: _plain(batch.column(k)[row]) for k, name in enumerate(batch.schema.names)}
    return json.dumps(cells, ensure_ascii=False, default=str)[: limits.kept_row]


def _plain(cell: pa.Scalar) -> object:
    """A cell as Python, whatever its bytes are."""
    if not cell.is_valid:
        return None
    if pa.types.is_string(cell.type) or pa.types.is_binary(cell.type):
        return cell.as_buffer().to_pybytes().decode("utf-8", "replace")
    try:
        return cell.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        # A time beyond what Python can write: the number is what came.
        return f"{getattr(cell, 'value', 'unreadable')} {cell.type}"


def _shown(cell: pa.Scalar) -> str:
    shown = repr(_plain(cell))
    return shown if len(shown) <= 80 else f"{shown[:77]}…"


def _clean(text: str) -> str:
    """Text that Arrow can hold: a lone surrogate from a lenient decoder cannot be."""
    return text.encode("utf-8", "replace").decode("utf-8")
