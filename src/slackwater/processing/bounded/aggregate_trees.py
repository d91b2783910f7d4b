"""Aggregate-tree store: bounded aggregates of long lists over one column, registered and removed at any time.

A forest mirrors its column by slot, because a touched query reads the values of all its items, changed or not.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from slackwater.core.types import Position
from slackwater.kernels import aggregate_tree as kernel
from slackwater.kernels.adjacency import Adjacency
from slackwater.processing.base import Floats, Integers, Values
from slackwater.processing.bounded.ranges import RangeAllocator


class TreeStore:
    """The aggregates of long lists of one column."""

    def __init__(self, slots: Integers, values: Floats) -> None:
        """Begin with these values; NaN is none."""
        self._values: Floats = np.full(64, np.nan)
        self._index = Adjacency()
        self._nodes = np.zeros(64, kernel.NODE)
        self._members = np.zeros(256, kernel.MEMBER)
        self._node_ranges, self._member_ranges = RangeAllocator(), RangeAllocator()
        self._roots: dict[int, tuple[int, int, int]] = {}  # number: first node, nodes, members
        self._scratch()
        self.touches = 0
        """Memberships of changed items so far, for measurements."""
        self._cover(int(slots[-1]) + 1 if len(slots) else 0)
        self._values[slots] = values

    def __len__(self) -> int:
        return len(self._roots)

    def __contains__(self, number: int) -> bool:
        return number in self._roots

    @property
    def numbers(self) -> Iterable[int]:
        """The queries that are kept here."""
        return self._roots

    def add(
        self, number: int, function: int, slots: Integers, factors: Floats, within: float, changed: int
    ) -> float | None:
        """Keep a query; its value now."""
        self._cover(int(slots.max()) + 1 if len(slots) else 0)
        order = np.argsort(slots)
        levels = [max(1, -(-len(slots) // kernel.FAN))]
        while levels[-1] > 1:
            levels.append(-(-levels[-1] // kernel.FAN))
        count = sum(levels)
        first, member = self._node_ranges.take(count), self._member_ranges.take(len(slots))
        self._make_room()
        members = self._members[member : member + len(slots)]
        members["slot"], members["factor"] = slots[order], factors[order]
        root = kernel.plant(self._nodes, self._members, self._values, first, member, len(slots), function)
        leaves = first + np.arange(len(slots), dtype=np.int32) // kernel.FAN
        self._index.add(members["slot"].copy(), members["factor"].copy(), leaves)
        there, value = kernel.value_of(self._nodes, root)
        node = self._nodes[root]
        node["said"], node["there"], node["within"], node["number"] = value, there, within, number
        node["changed"] = changed
        self._roots[number] = (first, count, len(slots))
        return float(value) if there else None

    def remove(self, number: int) -> None:
        """Forget a query."""
        first, count, size = self._roots.pop(number)
        for at in range(first, first + count):
            node = self._nodes[at]
            if node["kind"] == kernel.LEAF:
                start = int(node["first"])
                slots = self._members["slot"][start : start + int(node["size"])]
                self._index.remove(np.ascontiguousarray(slots), at)
        leaf = int(self._nodes[first]["first"])
        self._member_ranges.give_back(leaf, size)
        self._node_ranges.give_back(first, count)

    def apply(self, slots: Integers, values: Floats, position: Position) -> Values | None:
        """Apply new values of some slots; return the values to publish, in order of queries."""
        self._cover(int(slots[-1]) + 1 if len(slots) else 0)
        count, touches = kernel.touch(
            slots,
            values,
            self._index.starts,
            self._index.lengths,
            self._index.arena,
            self._nodes,
            self._members,
            self._values,
            self._marks,
            self._queue,
            position,
            self._published,
        )
        self.touches += touches
        if not count:
            return None
        nodes = self._nodes[self._published[:count]]
        nodes = nodes[np.argsort(nodes["number"])]
        return Values(nodes["number"].copy(), nodes["said"].copy(), nodes["there"].astype(np.bool_))

    def published(self, number: int) -> tuple[float | None, Position]:
        """Value of a query last published, and its position."""
        node = self._nodes[self._root(number)]
        return (float(node["said"]) if node["there"] else None), Position(int(node["changed"]))

    def parts(self, numbers: Integers) -> dict[str, Any]:
        """All that a snapshot needs of some queries, in this order."""
        roots = self._nodes[np.array([self._root(number) for number in numbers.tolist()], np.int64)]
        members = [self._members_of(number) for number in numbers.tolist()]
        every = np.concatenate([np.zeros(0, kernel.MEMBER), *members])
        return {
            "functions": roots["function"].copy(),
            "within": roots["within"].copy(),
            "said": roots["said"].copy(),
            "there": roots["there"].copy(),
            "changed": roots["changed"].copy(),
            "sizes": np.array([len(part) for part in members], np.int64),
            "slots": every["slot"].copy(),
            "factors": every["factor"].copy(),
        }

    def restore(self, numbers: Integers, parts: dict[str, Any]) -> None:
        """Keep the queries that these parts were taken of."""
        at = 0
        for k, (number, size) in enumerate(zip(numbers.tolist(), parts["sizes"].tolist(), strict=True)):
            slots, factors = parts["slots"][at : at + size], parts["factors"][at : at + size]
            at += size
            function = int(parts["functions"][k])
            self.add(number, function, slots, factors, float(parts["within"][k]), int(parts["changed"][k]))
            node = self._nodes[self._root(number)]
            node["said"], node["there"] = parts["said"][k], parts["there"][k]

    def _check(self) -> None:
        """Assert the invariants."""
        assert not self._marks.any()
        for number, (first, count, _) in self._roots.items():
            root = first + count - 1
            assert self._nodes[root]["parent"] == kernel.NONE
            assert self._nodes[root]["number"] == number
            kept = self._nodes[first : first + count].copy()
            for at in range(first, first + count):
                kernel.compute(self._nodes, self._members, self._values, at)
            assert kept.tobytes() == self._nodes[first : first + count].tobytes(), f"query {number} is out of date"
            assert not kernel.say(self._nodes, root, -1), f"query {number} is outside its bound"

    def _root(self, number: int) -> int:
        first, count, _ = self._roots[number]
        return first + count - 1

    def _members_of(self, number: int) -> np.ndarray[Any, np.dtype[np.void]]:
        first, _, size = self._roots[number]
        start = int(self._nodes[first]["first"])
        return self._members[start : start + size]

    def _cover(self, reach: int) -> None:
        """Have a value, maybe none, for every slot below this number."""
        if reach > len(self._values):
            more = np.full(max(reach, 2 * len(self._values)) - len(self._values), np.nan)
            self._values = np.concatenate([self._values, more])
        self._index.reach(reach)

    def _make_room(self) -> None:
        if self._node_ranges.top > len(self._nodes):
            self._nodes = _grown(self._nodes, self._node_ranges.top)
            self._scratch()
        if self._member_ranges.top > len(self._members):
            self._members = _grown(self._members, self._member_ranges.top)

    def _scratch(self) -> None:
        self._marks = np.zeros(len(self._nodes), np.uint8)
        self._queue = np.zeros(len(self._nodes), np.int32)
        self._published = np.zeros(len(self._nodes), np.int32)


def _grown(records: np.ndarray[Any, np.dtype[np.void]], needed: int) -> np.ndarray[Any, np.dtype[np.void]]:
    grown = np.zeros(max(needed, 2 * len(records)), records.dtype)
    grown[: len(records)] = records
    return grown
