"""Short-list store: bounded aggregates of a few listed items over one column, registered and removed at any time.

The arrays are those of `kernels.short_lists`. A query has a *node*, its lane in a block; blocks are of one function and
one width, and a lane that a query leaves waits for the next of its kind.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from slackwater.core.types import Position
from slackwater.kernels import list_passes as passes
from slackwater.kernels import short_lists as kernel
from slackwater.kernels.adjacency import Adjacency
from slackwater.kernels.aggregate_tree import COUNT
from slackwater.kernels.short_lists import LANES, Entries, Marks
from slackwater.processing.base import Floats, Integers, Values

_FIRST_BLOCKS, _FIRST_MEMBERS = 16, 512
_EXACT, _STEP = 8, 4
"""Blocks are as wide as their lists up to eight members, then in steps of four."""


class ShortLists:
    """Aggregates of at most `LONGEST` listed items of one column."""

    def __init__(self, slots: Integers, values: Floats) -> None:
        """Begin with these values; NaN is none."""
        self._values: Floats = np.full(64, np.nan)
        self.reach = 0
        """Slots below it have a value here, maybe none."""
        self._index = Adjacency()
        self._nodes: dict[int, int] = {}
        self._free: dict[tuple[int, int], list[int]] = {}
        self._blocks = self._top = 0
        room = LANES * _FIRST_BLOCKS
        self._lists = kernel.Lists(
            firsts=np.zeros(_FIRST_BLOCKS, np.int64),
            widths=np.zeros(_FIRST_BLOCKS, np.int32),
            functions=np.zeros(_FIRST_BLOCKS, np.int8),
            slots=np.zeros(_FIRST_MEMBERS, np.int32),
            factors=np.zeros(_FIRST_MEMBERS),
            numbers=np.full(room, kernel.FREE),
            said=np.zeros(room),
            there=np.zeros(room, np.uint8),
            within=np.zeros(room),
            changed=np.zeros(room, np.int64),
            slack=np.zeros(2 * room),
            centers=np.zeros(room),
            reaches=np.zeros(room),
        )
        self._scratch()
        self._swept = False
        """A sweep has passed since gaps and rooms were right."""
        self.touches = 0
        """Memberships of changed items so far, for measurements."""
        self.cover(int(slots[-1]) + 1 if len(slots) else 0)
        self._values[slots + 1] = values

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, number: int) -> bool:
        return number in self._nodes

    @property
    def numbers(self) -> Iterable[int]:
        """The queries that are kept here."""
        return self._nodes

    @property
    def values(self) -> Floats:
        """The values of all slots so far."""
        return self._values[1 : self.reach + 1]

    def add(
        self, number: int, function: int, slots: Integers, factors: Floats, within: float, changed: int
    ) -> float | None:
        """Keep a query; its value now."""
        self.cover(max(slots.tolist(), default=-1) + 1)
        node = self._lane(function, _width(len(slots)))
        lists = self._lists
        lists.numbers[node], lists.within[node], lists.changed[node] = number, within, changed
        kernel.plant(lists, self._values, node, slots, factors, True)
        counted = factors if function != COUNT else np.zeros(len(slots))
        self._index.add(slots, counted, np.full(len(slots), node, np.int32))
        self._nodes[number] = node
        return float(lists.said[node]) if lists.there[node] else None

    def remove(self, number: int) -> None:
        """Forget a query."""
        node, lists = self._nodes.pop(number), self._lists
        slots, _, _ = self._members_of(np.array([node]))
        self._index.remove(slots, node)
        kernel.clear(lists, node)
        block = node // LANES
        self._free[int(lists.functions[block]), int(lists.widths[block])].append(node)

    def apply(self, slots: Integers, values: Floats, position: Position) -> Values | None:
        """Apply new values of some slots; return the values to publish, in order of queries."""
        if len(slots) and slots[-1] >= self.reach:
            self.cover(int(slots[-1]) + 1)
        moved, olds = np.empty(len(slots), np.int64), np.empty(len(slots))
        index, lists = self._index, self._lists
        count, touches = passes.take(slots, values, self._values, index.lengths, moved, olds)
        self.touches += touches
        if not touches:
            return None
        moved, olds = moved[:count], olds[:count]
        reached = (moved, olds, self._values, index.starts, index.lengths, index.arena)
        was_swept, self._swept = self._swept, passes.is_sweep_cheaper(touches, self._top)
        if self._swept or was_swept:
            waiting = passes.sweep(*reached, lists, self._blocks, self._marks, self._queue)
        else:
            waiting = passes.walk(*reached, index.factors, lists.slack, self._marks, self._queue)
        count = passes.publish(lists, self._values, position, waiting, self._marks, self._queue) if waiting else 0
        if was_swept and not self._swept:
            # The values are those after this batch: gaps made good any earlier would have its changes twice.
            kernel.refresh(lists, self._values, LANES * self._blocks)
        if not count:
            return None
        nodes = self._queue[:count]
        numbers = lists.numbers[nodes]
        if count > 1:
            order = np.argsort(numbers)
            nodes, numbers = nodes[order], numbers[order]
        return Values(numbers, lists.said[nodes], lists.there[nodes].view(np.bool_))

    def published(self, number: int) -> tuple[float | None, Position]:
        """Value of a query last published, and its position."""
        node, lists = self._nodes[number], self._lists
        return (float(lists.said[node]) if lists.there[node] else None), Position(int(lists.changed[node]))

    def parts(self, numbers: Integers) -> dict[str, Any]:
        """All that a snapshot needs of some queries, in this order."""
        nodes = np.fromiter(map(self._nodes.__getitem__, numbers.tolist()), np.int64, len(numbers))
        slots, factors, sizes = self._members_of(nodes)
        lists = self._lists
        return {
            "functions": lists.functions[nodes // LANES],
            "within": lists.within[nodes],
            "said": lists.said[nodes],
            "there": lists.there[nodes].view(np.int8),
            "changed": lists.changed[nodes],
            "sizes": sizes,
            "slots": slots,
            "factors": factors,
        }

    def restore(self, numbers: Integers, parts: dict[str, Any]) -> None:
        """Keep the queries that these parts were taken of; there are none yet."""
        sizes, functions = parts["sizes"], parts["functions"].astype(np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        widths = np.array([_width(size) for size in range(kernel.LONGEST + 1)])[sizes]
        sorts, sort_of = np.unique(np.stack([functions, widths]), axis=1, return_inverse=True)
        nodes = np.empty(len(numbers), np.int64)
        for sort, (function, width) in enumerate(sorts.T.tolist()):
            mine = np.flatnonzero(sort_of == sort)
            nodes[mine] = self._lanes(function, width, len(mine))
        lists = self._lists
        lists.numbers[nodes], lists.within[nodes] = numbers, parts["within"]
        lists.changed[nodes], lists.said[nodes] = parts["changed"], parts["said"]
        lists.there[nodes] = parts["there"].view(np.uint8)
        kernel.plant_all(lists, self._values, nodes, starts, parts["slots"], parts["factors"])
        counted = np.where(np.repeat(functions, sizes) == COUNT, 0.0, parts["factors"])
        self._index.fill(parts["slots"], counted, np.repeat(nodes, sizes).astype(np.int32))
        self._nodes = dict(zip(numbers.tolist(), nodes.tolist(), strict=True))

    def cover(self, reach: int) -> None:
        """Have a value, maybe none, for every slot below this number."""
        if reach >= len(self._values):
            more = np.full(max(reach + 1, 2 * len(self._values)) - len(self._values), np.nan)
            self._values = np.concatenate([self._values, more])
        self.reach = max(self.reach, reach)
        self._index.reach(self.reach)

    def _check(self) -> None:
        """Assert the invariants."""
        lists = self._lists
        assert not self._marks.any()
        assert np.isnan(self._values[0])
        used, free = sorted(self._nodes.values()), [node for some in self._free.values() for node in some]
        assert sorted(used + free) == list(range(LANES * self._blocks))
        assert np.flatnonzero(lists.numbers != kernel.FREE).tolist() == used
        for number, node in self._nodes.items():
            total, _, count = kernel.compute(lists, self._values, node)
            there, value = kernel.value_of(int(lists.functions[node // LANES]), total, count)
            assert there == bool(lists.there[node]), f"query {number} has a value, or has none"
            assert not there or abs(value - lists.said[node]) <= lists.within[node], f"query {number} is out of bound"

    def _members_of(self, nodes: Integers) -> tuple[Integers, Floats, Integers]:
        """The members of some queries, and how many each has."""
        room = int(self._lists.widths[nodes // LANES].sum())
        slots, factors, sizes = np.empty(room, np.int64), np.empty(room), np.empty(len(nodes), np.int64)
        top = kernel.members_of(self._lists, nodes, sizes, slots, factors)
        return slots[:top], factors[:top], sizes

    def _lane(self, function: int, width: int) -> int:
        """A lane without a query."""
        free = self._free.setdefault((function, width), [])
        if not free:
            first = self._make_blocks(function, width, 1)
            free += range(first + LANES - 1, first - 1, -1)
        return free.pop()

    def _lanes(self, function: int, width: int, count: int) -> Integers:
        """So many lanes side by side."""
        blocks = -(-count // LANES)
        first = self._make_blocks(function, width, blocks)
        self._free.setdefault((function, width), []).extend(range(first + blocks * LANES - 1, first + count - 1, -1))
        return np.arange(first, first + count)

    def _make_blocks(self, function: int, width: int, blocks: int) -> int:
        """Make blocks; returns the first of their lanes."""
        begun, top = self._blocks, self._top
        self._blocks, self._top = begun + blocks, top + blocks * width * LANES
        self._make_room()
        own = slice(begun, self._blocks)
        self._lists.firsts[own] = top + width * LANES * np.arange(blocks)
        self._lists.widths[own], self._lists.functions[own] = width, function
        return begun * LANES

    def _make_room(self) -> None:
        lists = self._lists
        if self._blocks > len(lists.firsts):
            room = max(self._blocks, 2 * len(lists.firsts))
            of_blocks = {name: _grown(getattr(lists, name), room) for name in ("firsts", "widths", "functions")}
            names = ("said", "there", "within", "changed", "centers", "reaches")
            of_nodes = {name: _grown(getattr(lists, name), LANES * room) for name in names}
            numbers = _grown(lists.numbers, LANES * room, kernel.FREE)
            slack = _grown(lists.slack, 2 * LANES * room)
            self._lists = lists._replace(**of_blocks, **of_nodes, numbers=numbers, slack=slack)
            self._scratch()
        if self._top > len(lists.slots):
            room = max(self._top, 2 * len(lists.slots))
            self._lists = self._lists._replace(slots=_grown(lists.slots, room), factors=_grown(lists.factors, room))

    def _scratch(self) -> None:
        self._marks: Marks = np.zeros(len(self._lists.said), np.uint8)
        self._queue: Entries = np.zeros(len(self._lists.said), np.int32)


def _grown(array: np.ndarray[Any, Any], room: int, filler: int = 0) -> np.ndarray[Any, Any]:
    grown = np.full(room, filler, array.dtype)
    grown[: len(array)] = array
    return grown


def _width(size: int) -> int:
    return size if size <= _EXACT else -(-size // _STEP) * _STEP
