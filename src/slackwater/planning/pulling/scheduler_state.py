"""Scheduler state shared by all schedulers: held values, pulls in flight, missing items and queries."""

import json
import math
from collections.abc import Sequence
from typing import Any

from slackwater.core.errors import PlanningError
from slackwater.planning.pulling.base import LONGEST, PullQuery

NEVER = -1


class SchedulerState:
    """The parts of the contract that do not depend on how items are chosen.

    Subclasses define in `_learn` the use of a value, in `_known` and `_recall` the snapshot's parts beside the values.
    """

    def __init__(self, items: int, costs: Sequence[float] | None = None, longest: int = LONGEST) -> None:
        self.costs = [1.0] * items if costs is None else [float(cost) for cost in costs]
        if items < 1 or len(self.costs) != items or not all(0 < cost < math.inf for cost in self.costs):
            raise PlanningError(f"expected a positive cost of pulling for each of {items} items, but came {costs}")
        if longest < 1:
            raise PlanningError(f"an item is pulled every so many ticks, 1 or more, not {longest}")
        self.longest = longest
        self.values = [0.0] * items
        self.last = [NEVER] * items
        self.flying: set[int] = set()
        self.missing: set[int] = set()
        self.queries: dict[str, PullQuery] = {}
        self.tick = NEVER
        self.pulls = 0
        self._held = [0] * items
        self._holders: list[list[str]] = [[] for _ in range(items)]

    @property
    def items(self) -> int:
        """How many items there are, wanted or not."""
        return len(self.values)

    def register(self, name: str, query: PullQuery) -> None:
        """Keep a query from now on."""
        if name in self.queries:
            raise PlanningError(f"there is a query {name!r} already; unregister it first")
        if max(query.items) >= self.items:
            raise PlanningError(f"{name!r} names item {max(query.items)}, but items are 0 to {self.items - 1}")
        self.queries[name] = query
        for item in query.items:
            self._held[item] += 1
            self._holders[item].append(name)

    def unregister(self, name: str) -> None:
        """Keep a query no longer."""
        if name not in self.queries:
            raise PlanningError(f"there is no query {name!r}")
        for item in self.queries.pop(name).items:
            self._held[item] -= 1
            self._holders[item].remove(name)

    def suspended(self) -> dict[str, tuple[int, ...]]:
        """The suspended queries, each with its missing items."""
        queries = {name: tuple(i for i in query.items if i in self.missing) for name, query in self.queries.items()}
        return {name: items for name, items in queries.items() if items}

    def pulled(self, now: int, item: int, value: float) -> None:
        """Take the value that an item has at this tick."""
        if not math.isfinite(value):
            raise PlanningError(f"the value of item {item} must be a finite number, not {value}")
        self._reach(now)
        last, before = self.last[item], self.values[item]
        self.values[item], self.last[item] = float(value), now
        if item in self.flying:
            self.pulls += 1
        self.flying.discard(item)
        self.missing.discard(item)
        self._learn(now, item, last, value - before)

    def failed(self, now: int, item: int) -> None:
        """Take note that a pull came to nothing."""
        self._reach(now)
        self.flying.discard(item)
        self.missing.add(item)

    def retry(self, now: int, item: int) -> None:
        """Name a missing item again when it is next asked what to pull."""
        self._reach(now)
        self.missing.discard(item)
        self.last[item] = NEVER

    def snapshot(self) -> bytes:
        """Write down everything that is known."""
        held = {
            "items": self.items,
            "queries": list(self.queries),
            "values": self.values,
            "last": self.last,
            "flying": sorted(self.flying),
            "missing": sorted(self.missing),
            "tick": self.tick,
            "pulls": self.pulls,
        }
        return json.dumps({"scheduler": type(self).__name__, **held, "known": self._known()}).encode()

    def restore(self, data: bytes) -> None:
        """Go on from what another scheduler of the same kind, items and queries has written down."""
        try:
            held = json.loads(data)
            ours = (type(self).__name__, self.items, list(self.queries))
            if (held["scheduler"], held["items"], held["queries"]) != ours:
                raise PlanningError("this snapshot is of another scheduler, or of other items or queries")
            self.values, self.last = held["values"], held["last"]
            self.flying, self.missing = set(held["flying"]), set(held["missing"])
            self.tick, self.pulls = held["tick"], held["pulls"]
            self._recall(held["known"])
        except (ValueError, KeyError, TypeError) as wrong:
            raise PlanningError(f"this is not a snapshot of a scheduler: {wrong}") from wrong

    def _reach(self, now: int) -> None:
        """Let time pass up to a tick."""
        if now < self.tick:
            raise PlanningError(f"time went back, from tick {self.tick} to {now}")
        while self.tick < now:
            self.tick += 1
            self._pass_tick()

    def _overdue(self) -> list[int]:
        """Items that are to be pulled whatever is predicted, and are not on their way."""
        return [item for item in range(self.items) if self._free(item) and self._age(item) >= self.longest]

    def _age(self, item: int) -> int:
        return self.longest if self.last[item] == NEVER else self.tick - self.last[item]

    def _free(self, item: int) -> bool:
        return self._held[item] > 0 and item not in self.flying and item not in self.missing

    def _active(self, query: PullQuery) -> bool:
        return not self.missing or not any(item in self.missing for item in query.items)

    def _fly(self, items: Sequence[int]) -> tuple[int, ...]:
        self.flying.update(items)
        return tuple(items)

    def _pass_tick(self) -> None:
        """Let `self.tick` begin."""

    def _learn(self, now: int, item: int, last: int, change: float) -> None:
        """Learn from a value; `last` is the tick of the one before, or NEVER."""

    def _known(self) -> dict[str, Any]:
        return {}

    def _recall(self, known: dict[str, Any]) -> None:
        pass
