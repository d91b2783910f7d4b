"""Dynamic stabbing partition: at most (1 + ε) times the fewest groups at all times, without full recomputation.

A range that comes joins a group whose point it holds; those that hold none form new groups among themselves. A range
that goes leaves its group. What the number of groups is measured against is where the two kinds differ:

- `LazyPartition` reckons with the worst: after τ₀ groups and m deletions of ranges that were there, at least τ₀ − m are
  needed. It starts over when it has more than (1 + ε)(τ₀ − m) groups; with `strict`, after ετ₀/(ε + 2) changes.
- `RefinedPartition` keeps the ranges in the order of their left ends, with the least right end of each block beside it,
  and *counts* the fewest groups there could be when the reckoning above is used up. It starts over only when its own
  are truly too many, and then with one pass over ranges that are in order already. A change costs O(log n), and a
  count, once in about ετ changes, one look at every block and at the ranges of those blocks in which a group ends.

The published refinement joins and cuts balanced trees to start over in O(τ log n). A pass over sorted arrays costs
more steps and less time at the sizes here, and needs no trees.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.2.3: lazy (Lemma 12) and refined (Theorem 13) partitions. M. J. Katz, F. Nielsen, M. Segal,
    Maintenance of a piercing set for intervals with applications, Algorithmica 36, 2003.
"""

import numpy as np

from slackwater.kernels.stabbing_groups import count_groups
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.groups import Groups
from slackwater.processing.matching.order import PackedOrder
from slackwater.processing.matching.tables import grown, grown_integers

EPSILON = 0.5


class LazyPartition:
    """A partition that reckons with the worst."""

    def __init__(self, epsilon: float = EPSILON, *, strict: bool = False) -> None:
        self.groups = Groups()
        self.epsilon = epsilon
        self.restarts = 0
        self._strict = strict
        self._group_of = np.zeros(0, np.int64)
        self._low, self._high = np.zeros(0), np.zeros(0)
        self._there = np.zeros(0, np.int64)
        """1 where a slot has a range, 2 where it had it when the partition was last made."""
        self._fewest = self._gone = self._changes = 0

    def group_of(self, slots: Integers) -> Integers:
        """The groups that ranges are in."""
        return self._group_of[slots]

    def members(self, group: int) -> Integers:
        """The ranges of a group."""
        return np.flatnonzero((self._group_of == group) & (self._there > 0))

    def slots(self) -> Integers:
        """The slots that have a range, in rising order."""
        return np.flatnonzero(self._there)

    def add(self, slots: Integers, low: Floats, high: Floats) -> None:
        """Ranges come, under slots of the caller's."""
        size = int(slots.max()) + 1 if len(slots) else 0
        self._group_of, self._there = grown_integers(self._group_of, size), grown_integers(self._there, size)
        self._low, self._high = grown(self._low, size), grown(self._high, size)
        self._low[slots], self._high[slots], self._there[slots] = low, high, 1
        found = self.groups.stabbing(low, high)
        rest = np.flatnonzero(found < 0)
        if len(rest):
            found[rest] = self.groups.open_for(low[rest], high[rest])
        self.groups.join(found, low, high)
        self._group_of[slots] = found
        self._changes += len(slots)
        self._entered(slots)

    def remove(self, slots: Integers) -> None:
        """Ranges go."""
        self.groups.leave(self._group_of[slots])
        self._gone += self._lost(slots)
        self._there[slots] = 0
        self._changes += len(slots)
        self._left(slots)

    def settle(self) -> bool:
        """Start over if there are too many groups; True if it did, and ranges may then be in other groups."""
        if not self._due():
            return False
        slots = self.slots()
        self.groups = Groups()
        low, high = self._low[slots], self._high[slots]
        found = self.groups.open_for(low, high)
        self.groups.join(found, low, high)
        self._group_of[slots] = found
        self._there[slots] = 2
        self._reckon(len(self.groups))
        self.restarts += 1
        return True

    def _reckon(self, fewest: int) -> None:
        self._fewest, self._gone, self._changes = fewest, 0, 0

    def _due(self) -> bool:
        if self._strict:
            return self._changes > self.epsilon * self._fewest / (self.epsilon + 2)
        return len(self.groups) > (1 + self.epsilon) * max(self._fewest - self._gone, 0)

    def _lost(self, slots: Integers) -> int:
        """Deletions of ranges that were there when the groups were last counted: each may spare one group."""
        return int((self._there[slots] == 2).sum())

    def _entered(self, slots: Integers) -> None:
        """Ranges have come."""

    def _left(self, slots: Integers) -> None:
        """Ranges have gone; their ends can still be read."""

    def _check(self) -> None:
        slots = self.slots()
        groups = self._group_of[slots]
        points = self.groups.points[groups]
        assert ((self._low[slots] <= points) & (points <= self._high[slots])).all(), (
            "a point outside a range of its group"
        )
        table = self.groups.table
        present, sizes = np.unique(groups, return_counts=True)
        assert np.array_equal(np.sort(table.groups), present)
        assert np.array_equal(self.groups.sizes[present], sizes)
        spare = Groups()
        spare.open_for(self._low[slots], self._high[slots])
        assert len(table) <= (1 + self.epsilon) * len(spare), f"{len(table)} groups where {len(spare)} would do"


class RefinedPartition(LazyPartition):
    """A partition that counts before it starts over."""

    def __init__(self, epsilon: float = EPSILON) -> None:
        super().__init__(epsilon)
        self._order = PackedOrder(width=1, room=128)
        self.counted = 0

    def fewest(self) -> int:
        """The least number of groups that could do."""
        return int(count_groups(self._order.packed))

    def _due(self) -> bool:
        if not super()._due():
            return False
        self.counted += 1
        self._reckon(self.fewest())
        return super()._due()

    def _lost(self, slots: Integers) -> int:
        # Counted often: which ranges were there at the last count is not worth writing down.
        return len(slots)

    def _entered(self, slots: Integers) -> None:
        self._order.insert(self._low[slots], np.zeros(len(slots)), slots, -self._high[slots].reshape(-1, 1))

    def _left(self, slots: Integers) -> None:
        self._order.delete(self._low[slots], np.zeros(len(slots)), slots)

    def _check(self) -> None:
        super()._check()
        self._order._check()
