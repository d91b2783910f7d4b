"""Regional aggregates: running totals over regions of one table, recomputed from the rows when they lose precision.

`kernels.accumulators` has the test for that. Reading again costs one pass over the table; the totals of sums hardly
ever need it, a minimum needs it when the row that has it goes and nothing as small comes.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.query import Aggregate, AggregateFunction
from slackwater.core.types import Position
from slackwater.kernels import accumulators as kernel
from slackwater.kinds.registry import plain_query, query_of
from slackwater.processing.base import Changes, Floats, Integers, Latest, Values
from slackwater.processing.bounded.column_aggregates import FUNCTIONS
from slackwater.processing.bounded.ranges import RangeAllocator
from slackwater.processing.regions import RegionIndex, Sheet, inside

_KEPT = ("high", "low", "magnitude", "largest", "steps", "count", "said", "changed", "there", "stale")
"""Fields of an accumulator in a snapshot; the rest follows from the query."""


class RegionalAggregates:
    """The aggregates over regions of one table."""

    def __init__(self) -> None:
        self._queries: dict[int, Aggregate] = {}
        self._places: dict[int, int] = {}
        self._place_ranges, self._weight_ranges = RangeAllocator(), RangeAllocator()
        self._records = np.zeros(16, kernel.ACCUMULATOR)
        self._weight_slots: Integers = np.zeros(16, np.int64)
        self._weights: Floats = np.zeros(16)
        self._columns: dict[str | None, int] = {}
        self._index = RegionIndex()
        self._scratch()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def numbers(self) -> list[int]:
        """The queries that are kept here."""
        return list(self._places)

    def add(self, number: int, query: Aggregate, slots: Integers, latest: Latest, changed: int) -> float | None:
        """Keep a query, whose weights are for the keys of these slots; its value now."""
        place = self._place(number, query, slots, np.array([one.factor for one in query.weights or ()]), changed)
        self._read(place, latest)
        record = self._records[place]
        there, value = kernel.value_of(record)
        record["said"], record["there"] = value, there
        return float(value) if there else None

    def remove(self, number: int) -> None:
        """Forget a query."""
        del self._queries[number]
        place = self._places.pop(number)
        self._index.remove(place)
        record = self._records[place]
        if record["size"] > 0:
            self._weight_ranges.give_back(int(record["first"]), int(record["size"]))
        self._place_ranges.give_back(place, 1)

    def apply(self, changes: Changes, before: Sheet, after: Sheet, latest: Latest, position: Position) -> Values | None:
        """Apply changes; return the values to publish, in order of queries."""
        waiting = 0
        for sign, sheet in ((-1, before), (1, after)):
            rows, places = self._index.match(sheet, latest.schema)
            if len(rows):
                values = np.concatenate([sheet.numbers(column) for column in self._columns])
                waiting = kernel.change(
                    self._records,
                    self._weight_slots,
                    self._weights,
                    rows,
                    places,
                    changes.slots,
                    values,
                    sign,
                    self._marks,
                    self._queue,
                    waiting,
                )
        if not waiting:
            return None
        stale = kernel.doubt(self._records, self._queue, waiting, self._marks)
        for place in self._queue[:stale].tolist():
            self._read(place, latest)
        count = kernel.say(self._records, self._queue, waiting, position, self._published)
        if not count:
            return None
        changed = self._records[self._published[:count]]
        changed = changed[np.argsort(changed["number"])]
        return Values(changed["number"].copy(), changed["said"].copy(), changed["there"].astype(np.bool_))

    def published(self, number: int) -> tuple[float | None, Position]:
        """Value of a query last published, and its position."""
        record = self._records[self._places[number]]
        return (float(record["said"]) if record["there"] else None), Position(int(record["changed"]))

    def parts(self) -> dict[str, Any]:
        """All that a snapshot needs."""
        numbers = sorted(self._places)
        records = self._records[np.array([self._places[number] for number in numbers], np.int64)]
        return {
            "numbers": np.array(numbers, np.int64),
            "queries": [plain_query(self._queries[number]) for number in numbers],
            "slots": [self._weights_of(record)[0] for record in records],
            "factors": [self._weights_of(record)[1] for record in records],
            **{name: records[name].copy() for name in _KEPT},
        }

    @classmethod
    def of(cls, parts: dict[str, Any]) -> "RegionalAggregates":
        """Restore the accumulators that these parts were taken of."""
        regional = cls()
        for k, (number, plain) in enumerate(zip(parts["numbers"].tolist(), parts["queries"], strict=True)):
            query = query_of(plain)
            assert isinstance(query, Aggregate)
            place = regional._place(number, query, parts["slots"][k], parts["factors"][k], 0)
            for name in _KEPT:
                regional._records[place][name] = parts[name][k]
        return regional

    def _place(self, number: int, query: Aggregate, slots: Integers, factors: Floats, changed: int) -> int:
        """Write down all of a query but its total."""
        place = self._place_ranges.take(1)
        if place >= len(self._records):
            records = np.zeros(2 * place, kernel.ACCUMULATOR)
            records[: len(self._records)] = self._records
            self._records = records
            self._scratch()
        self._records[place] = np.zeros((), kernel.ACCUMULATOR)
        record = self._records[place]
        record["number"], record["within"], record["scale"] = number, query.bound.within, query.scale
        record["function"], record["changed"], record["size"] = FUNCTIONS[query.function], changed, -1
        record["column"] = self._columns.setdefault(query.column, len(self._columns))
        if query.weights is not None:
            first = self._weight_ranges.take(len(slots))
            if self._weight_ranges.top > len(self._weights):
                more = np.zeros(2 * self._weight_ranges.top - len(self._weights))
                self._weights = np.concatenate([self._weights, more])
                self._weight_slots = np.concatenate([self._weight_slots, more.astype(np.int64)])
            order = np.argsort(slots)
            self._weight_slots[first : first + len(slots)] = slots[order]
            self._weights[first : first + len(slots)] = factors[order]
            record["first"], record["size"] = first, len(slots)
        self._places[number], self._queries[number] = place, query
        self._index.add(place, query.region)
        return place

    def _read(self, place: int, latest: Latest) -> None:
        """Compute a total from the rows."""
        record = self._records[place]
        query = self._queries[int(record["number"])]
        rows: pa.RecordBatch = latest.rows
        chosen = inside(query.region, latest.schema, rows)
        numbers = Sheet(rows, chosen).numbers(query.column)
        factors = np.full(len(numbers), query.scale)
        if query.weights is not None:
            slots, weights = self._weights_of(record)
            at = np.searchsorted(slots, latest.slots)
            listed = np.append(slots, -1)[at] == latest.slots
            numbers[~listed] = np.nan
            factors = query.scale * np.append(weights, 0.0)[at]
        there = ~np.isnan(numbers)
        with np.errstate(over="ignore", invalid="ignore"):  # beyond DOUBLE there is no value, as everywhere
            parts = factors[there] * numbers[there] + 0.0
            record["count"], record["low"], record["steps"], record["stale"] = len(parts), 0.0, 0, 0
            if query.function is AggregateFunction.MIN:
                record["high"] = parts.min(initial=np.inf) if len(parts) else 0.0
            elif query.function is AggregateFunction.MAX:
                record["high"] = parts.max(initial=-np.inf) if len(parts) else 0.0
            elif query.function is not AggregateFunction.COUNT:
                kernel.read(self._records, place, parts)

    def _weights_of(self, record: np.void) -> tuple[Integers, Floats]:
        """The slots of a query's weights, in order, and the weights."""
        first, size = int(record["first"]), max(int(record["size"]), 0)
        return self._weight_slots[first : first + size].copy(), self._weights[first : first + size].copy()

    def _scratch(self) -> None:
        self._marks = np.zeros(len(self._records), np.uint8)
        self._queue = np.zeros(len(self._records), np.int64)
        self._published = np.zeros(len(self._records), np.int64)
