"""Ticks: the input columns of summaries, grouped by item and sorted by time.

Rows may come in any order. They are brought into order once, for all summaries that read the batch: not at all
when they already are, by a counting sort when they are in order of time with items mixed (a log, a wide trace), by
a full sort otherwise. Rows of an item with the same time keep the order in which they came.

A row whose value is null is no update and is left out. Values beyond ±1e150 are taken as ±1e150, so that no sum of
squares overflows. NaN, infinity, null items and null times never pass admission and are refused here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.errors import StatisticsError
from slackwater.kernels.group_rows import group
from slackwater.statistics.rules import Floats, Integers

LARGEST_VALUE = 1e150
MOST_ITEMS = 1 << 20
MOST_NAME_LENGTH = 65_536

Column: TypeAlias = pa.Array | pa.ChunkedArray | Sequence[object] | npt.NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class Ticks:
    """Rows `starts[g]..starts[g+1]−1` are those of item `names[g]`, in order of time (microseconds); none is empty.

    >>> ticks = Ticks.of(["b", "a", "b"], [30, 20, 10], [1.0, 2.0, 3.0])
    >>> ticks.names, ticks.starts.tolist(), ticks.times.tolist(), ticks.values.tolist()
    (('b', 'a'), [0, 2, 3], [10, 30, 20], [3.0, 1.0, 2.0])
    """

    names: tuple[str, ...]
    starts: Integers
    times: Integers
    values: Floats

    @classmethod
    def of(cls, items: Column, times: Column, values: Column) -> "Ticks":
        """Bring three columns of equal length into order."""
        names, codes, ordered_times, (ordered_values,) = grouped_columns(items, times, [values])
        return cls(names, codes, ordered_times, _checked(ordered_values))

    @classmethod
    def from_arrow(
        cls, batch: pa.RecordBatch | pa.Table, item: str = "item", time: str = "time", value: str = "value"
    ) -> "Ticks":
        """Take the three columns of these names out of a batch."""
        for name in (item, time, value):
            if name not in batch.schema.names:
                raise StatisticsError(f"expected a column {name!r}, but there are {', '.join(batch.schema.names)}")
        return cls.of(batch.column(item), batch.column(time), batch.column(value))

    def __len__(self) -> int:
        return len(self.times)

    @property
    def firsts(self) -> Integers:
        """The row of each item's first tick."""
        return self.starts[:-1]

    @property
    def lasts(self) -> Integers:
        """The row of each item's last tick."""
        return self.starts[1:] - 1

    @property
    def items(self) -> Integers:
        """Which item each row is of, as a place in `names`."""
        return np.repeat(np.arange(len(self.names)), np.diff(self.starts))

    def take(self, start: int, end: int) -> "Ticks":
        """The rows with `start` ≤ time < `end`."""
        kept = (self.times >= start) & (self.times < end)
        counts = np.add.reduceat(kept, self.firsts, dtype=np.int64) if len(self) else np.zeros(0, np.int64)
        names = tuple(name for name, count in zip(self.names, counts, strict=True) if count)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[counts > 0])])
        return Ticks(names, starts, self.times[kept], self.values[kept])


def grouped_columns(
    items: Column, times: Column, columns: Sequence[Column]
) -> tuple[tuple[str, ...], Integers, Integers, list[Floats]]:
    """Names, where each begins, times and the other columns, brought into order; rows with a null in those left out."""
    item, time = _flat(items), _instants(times)
    others = [_flat(column) for column in columns]
    if any(len(column) != len(item) for column in (time, *others)):
        lengths = ", ".join(str(len(column)) for column in (item, time, *others))
        raise StatisticsError(f"columns of a batch must be of equal length, but have {lengths} rows")
    if item.null_count or time.null_count:
        raise StatisticsError("a row without an item or a time cannot be counted: send rows through admission first")
    if any(column.null_count for column in others):
        whole = pc.is_valid(others[0])
        for column in others[1:]:
            whole = pc.and_(whole, pc.is_valid(column))
        item, time, others = item.filter(whole), time.filter(whole), [column.filter(whole) for column in others]
    names, codes = _encoded(item)
    when: Integers = time.to_numpy(zero_copy_only=False)
    numbers: list[Floats] = [_numbers(column) for column in others]
    counts = np.bincount(codes, minlength=len(names))
    if not _in_order(codes, when):
        order, starts = group(codes, len(names))
        if np.any((np.diff(when[order]) < 0) & (np.diff(codes[order]) == 0)):
            order = np.lexsort((when, codes))
        when, numbers = when[order], [column[order] for column in numbers]
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[counts > 0])])
    present = tuple(name for name, count in zip(names, counts, strict=True) if count)
    return present, starts, when, numbers


def _in_order(codes: Integers, times: Integers) -> bool:
    steps = np.diff(codes)
    return not np.any(steps < 0) and not np.any((steps == 0) & (np.diff(times) < 0))


def _flat(column: Column) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.unify_dictionaries().combine_chunks()
    return column if isinstance(column, pa.Array) else pa.array(column)


def _instants(column: Column) -> pa.Array:
    flat = _flat(column)
    if pa.types.is_timestamp(flat.type):
        return flat.cast(pa.timestamp("us", tz=flat.type.tz), safe=False).cast(pa.int64())
    if len(flat) == 0 or pa.types.is_integer(flat.type):
        return flat.cast(pa.int64())
    raise StatisticsError(f"times must be timestamps or whole microseconds, but came {flat.type}")


def _numbers(column: pa.Array) -> Floats:
    try:
        numbers: Floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise StatisticsError(f"values must be numbers, but came {column.type}: {error}") from None
    return numbers


def _encoded(item: pa.Array) -> tuple[list[str], Integers]:
    """The names and, for each row, the place of its name among them."""
    if not pa.types.is_dictionary(item.type):
        item = item.cast(pa.string()).dictionary_encode()
    elif item.dictionary.null_count or len(item.dictionary.unique()) != len(item.dictionary):
        item = item.dictionary_decode().cast(pa.string()).dictionary_encode()
    names: list[str] = item.dictionary.cast(pa.string()).to_pylist()
    if len(names) > MOST_ITEMS:
        raise StatisticsError(f"a batch may hold at most {MOST_ITEMS} items, but came {len(names)}")
    codes: Integers = item.indices.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return names, codes


def _checked(values: Floats) -> Floats:
    if len(values) == 0:
        return values
    low, high = float(values.min()), float(values.max())
    if not np.isfinite(low) or not np.isfinite(high):
        raise StatisticsError("values must be finite: send rows through admission first")
    return np.clip(values, -LARGEST_VALUE, LARGEST_VALUE) if max(-low, high) > LARGEST_VALUE else values
