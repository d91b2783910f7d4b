"""Aggregates of listed items of one column: short lists and long ones, each kept in its own way."""

from typing import Any

import numpy as np

from slackwater.core.query import AggregateFunction
from slackwater.core.types import Position
from slackwater.kernels import aggregate_tree as kernel
from slackwater.kernels.short_lists import LONGEST
from slackwater.processing.base import Floats, Integers, Values
from slackwater.processing.bounded.aggregate_trees import TreeStore
from slackwater.processing.bounded.short_lists import ShortLists
from slackwater.processing.concatenate import gathered

FUNCTIONS = {
    AggregateFunction.SUM: kernel.SUM,
    AggregateFunction.AVG: kernel.AVG,
    AggregateFunction.COUNT: kernel.COUNT,
    AggregateFunction.MIN: kernel.MIN,
    AggregateFunction.MAX: kernel.MAX,
}


class ListedAggregates:
    """The aggregates of one column that list their items."""

    def __init__(self, slots: Integers, values: Floats) -> None:
        """Begin with these values; NaN is none."""
        self._short = ShortLists(slots, values)
        self._long: TreeStore | None = None
        """Mirrors the column a second time, so it is made for the first long list only."""

    def __len__(self) -> int:
        return len(self._short) + (0 if self._long is None else len(self._long))

    @property
    def numbers(self) -> list[int]:
        """The queries that are kept here."""
        return [*self._short.numbers, *(() if self._long is None else self._long.numbers)]

    @property
    def touches(self) -> int:
        """Memberships of changed items so far, for measurements."""
        return self._short.touches + (0 if self._long is None else self._long.touches)

    def add(
        self, number: int, function: AggregateFunction, slots: Integers, factors: Floats, within: float, changed: int
    ) -> float | None:
        """Keep a query; its value now."""
        if len(slots) <= LONGEST:
            return self._short.add(number, FUNCTIONS[function], slots, factors, within, changed)
        self._short.cover(int(slots.max()) + 1)
        return self._trees().add(number, FUNCTIONS[function], slots, factors, within, changed)

    def remove(self, number: int) -> None:
        """Forget a query."""
        self._home(number).remove(number)
        if self._long is not None and not len(self._long):
            self._long = None

    def apply(self, slots: Integers, values: Floats, position: Position) -> Values | None:
        """Apply new values of some slots; return the values to publish, in order of queries."""
        short = self._short.apply(slots, values, position)
        return short if self._long is None else gathered([short, self._long.apply(slots, values, position)])

    def published(self, number: int) -> tuple[float | None, Position]:
        """Value of a query last published, and its position."""
        return self._home(number).published(number)

    def parts(self) -> dict[str, Any]:
        """All that a snapshot needs."""
        numbers = np.array(sorted(self.numbers), np.int64)
        if self._long is None:
            parts = self._short.parts(numbers)
        else:
            is_long = np.array([number in self._long for number in numbers.tolist()], np.bool_)
            parts = _merged(is_long, self._short.parts(numbers[~is_long]), self._long.parts(numbers[is_long]))
        return {"values": self._short.values, "numbers": numbers, **parts}

    @classmethod
    def of(cls, parts: dict[str, Any]) -> "ListedAggregates":
        """The aggregates that these parts were taken of."""
        values, numbers = parts["values"], parts["numbers"]
        kept = cls(np.arange(len(values)), values)
        is_long = parts["sizes"] > LONGEST
        kept._short.restore(numbers[~is_long], _chosen(parts, ~is_long))
        if is_long.any():
            kept._trees().restore(numbers[is_long], _chosen(parts, is_long))
        return kept

    def _check(self) -> None:
        """Assert the invariants."""
        self._short._check()
        if self._long is not None:
            self._long._check()

    def _home(self, number: int) -> ShortLists | TreeStore:
        return self._short if self._long is None or number in self._short else self._long

    def _trees(self) -> TreeStore:
        if self._long is None:
            self._long = TreeStore(np.arange(self._short.reach), self._short.values)
        return self._long


_OF_QUERIES = ("functions", "within", "said", "there", "changed", "sizes")
_OF_MEMBERS = ("slots", "factors")


def _chosen(parts: dict[str, Any], chosen: np.ndarray) -> dict[str, Any]:
    """The parts of some queries."""
    members = np.repeat(chosen, parts["sizes"])
    return {name: parts[name][members if name in _OF_MEMBERS else chosen] for name in _OF_QUERIES + _OF_MEMBERS}


def _merged(is_second: np.ndarray, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The parts of two stores in the order of their queries."""
    merged = {}
    for name in _OF_QUERIES:
        merged[name] = np.empty(len(is_second), first[name].dtype)
        merged[name][~is_second], merged[name][is_second] = first[name], second[name]
    members = np.repeat(is_second, merged["sizes"])
    for name in _OF_MEMBERS:
        merged[name] = np.empty(len(members), first[name].dtype)
        merged[name][~members], merged[name][members] = first[name], second[name]
    return merged
