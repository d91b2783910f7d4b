"""Hotspots: the stabbing groups with so large a share of the ranges that they deserve an index of their own.

The ranges are split into *hot* groups and a *scattered* rest, which is kept in a dynamic partition only to see where a
new hotspot grows. Ranges join a hot group if they hold its point. At every moment that can be observed, which is after
`settle`, of n ranges that need τ groups at least:

(I1) every group of h = αn ranges or more is hot, every hot group has h/2 or more; so there are at most 2/α hot ones;
(I2) there are at most (1 + ε)τ + 2/α groups;
(I3) no more than 5 ranges for each change, amortised, ever moved between hot and scattered.

Where an index of a few ranges costs more than they do, h is a least size instead, or n/16 if that is less, as long as
it is more than αn.

The gap between h and h/2 is what pays for (I3): between becoming hot and ceasing to be, a group must see changes in
proportion to what it then moves.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.2.2: hotspot tracking (Theorem 12).
"""

from dataclasses import dataclass

import numpy as np

from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.groups import Groups
from slackwater.processing.matching.partition import EPSILON, RefinedPartition
from slackwater.processing.matching.tables import grown, grown_integers

ALPHA = 0.001
SCATTERED = -1
FEW = 16
"""Of few ranges, so large a share is hot whatever the least size: there are then few groups to search."""


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """Ranges that went from one hot group, or from the SCATTERED ones, to another."""

    slots: Integers
    old: int
    new: int


class HotspotTracker:
    """Hot groups and the scattered rest of ranges that come and go, each under a slot of the caller's.

    >>> tracker = HotspotTracker(alpha=0.5)
    >>> tracker.add(np.arange(4), np.array([0.0, 1.0, 2.0, 50.0]), np.array([5.0, 6.0, 7.0, 51.0]))
    >>> moves = tracker.settle()
    >>> len(tracker.hot), tracker.hot_share, (tracker.group_of(np.arange(4)) == SCATTERED).tolist()
    (1, 0.75, [False, False, False, True])
    """

    def __init__(self, alpha: float = ALPHA, epsilon: float = EPSILON, least: int = 0) -> None:
        self.alpha, self.least = alpha, least
        self.hot = Groups()
        self.scattered = RefinedPartition(epsilon)
        self.changes = self.moves = 0
        self._group_of = np.zeros(0, np.int64)
        self._low, self._high = np.zeros(0), np.zeros(0)
        self._there = np.zeros(0, np.int64)
        self._count = self._hot_count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def hot_share(self) -> float:
        """The share of the ranges that is hot."""
        return self._hot_count / max(self._count, 1)

    @property
    def hot_size(self) -> float:
        """From so many ranges on a group becomes hot; it stays hot with half of them."""
        return max(self.alpha * self._count, min(self.least, self._count / FEW))

    @property
    def scattered_count(self) -> int:
        """How many ranges are not hot."""
        return self._count - self._hot_count

    def group_of(self, slots: Integers) -> Integers:
        """The hot groups of ranges; SCATTERED for the others."""
        return self._group_of[slots]

    def add(self, slots: Integers, low: Floats, high: Floats) -> None:
        """Ranges come."""
        size = int(slots.max()) + 1 if len(slots) else 0
        self._group_of, self._there = grown_integers(self._group_of, size), grown_integers(self._there, size)
        self._low, self._high = grown(self._low, size), grown(self._high, size)
        self._low[slots], self._high[slots], self._there[slots] = low, high, 1
        found = self.hot.stabbing(low, high)
        self._group_of[slots] = found
        hot = found >= 0
        self.hot.join(found[hot], low[hot], high[hot])
        if not hot.all():
            self.scattered.add(slots[~hot], low[~hot], high[~hot])
        self._count += len(slots)
        self._hot_count += int(hot.sum())
        self.changes += len(slots)

    def remove(self, slots: Integers) -> None:
        """Ranges go."""
        groups = self._group_of[slots]
        hot = groups >= 0
        # A hot group that runs empty stays until `settle` finds it too small: others may come before.
        self.hot.leave(groups[hot], keep=True)
        if not hot.all():
            self.scattered.remove(slots[~hot])
        self._there[slots] = 0
        self._count -= len(slots)
        self._hot_count -= int(hot.sum())
        self.changes += len(slots)

    def settle(self) -> list[Move]:
        """Restore the invariants; return the moves of ranges between groups, in order."""
        small = self.hot.smaller(self.hot_size / 2)
        moves = [self._demote(group) for group in small.tolist()]
        self.scattered.settle()
        while len(large := self.scattered.groups.not_smaller(self.hot_size)):
            moves += [self._promote(group) for group in large.tolist()]
            self.scattered.settle()
        self.moves += sum(len(move.slots) for move in moves)
        return [move for move in moves if len(move.slots)]

    def _demote(self, group: int) -> Move:
        slots = np.flatnonzero((self._group_of == group) & (self._there == 1))
        self.hot.close(np.array([group]))
        self._group_of[slots] = SCATTERED
        self.scattered.add(slots, self._low[slots], self._high[slots])
        self._hot_count -= len(slots)
        return Move(slots, group, SCATTERED)

    def _promote(self, group: int) -> Move:
        slots = self.scattered.members(group)
        new = int(self.hot.open(self.scattered.groups.points[[group]])[0])
        self.hot.join(np.full(len(slots), new), self._low[slots], self._high[slots])
        self._group_of[slots] = new
        self.scattered.remove(slots)
        self._hot_count += len(slots)
        return Move(slots, SCATTERED, new)

    def _check(self) -> None:
        slots = np.flatnonzero(self._there)
        groups = self._group_of[slots]
        hot = groups >= 0
        assert len(slots) == self._count
        assert hot.sum() == self._hot_count
        points = self.hot.points[groups[hot]]
        assert ((self._low[slots[hot]] <= points) & (points <= self._high[slots[hot]])).all()
        present, sizes = np.unique(groups[hot], return_counts=True)
        table = self.hot.table
        assert np.array_equal(np.sort(table.groups), present)
        assert np.array_equal(self.hot.sizes[present], sizes)
        self.scattered._check()
        assert np.array_equal(self.scattered.slots(), slots[~hot])
        scattered = self.scattered.groups.table
        assert (scattered.sizes < self.hot_size).all(), "I1: a hotspot among the scattered"
        assert (table.sizes >= self.hot_size / 2).all(), "I1: a hot group that is no hotspot"
        spare = Groups()
        spare.open_for(self._low[slots], self._high[slots])
        most = (1 + self.scattered.epsilon) * len(spare) + 2 / self.alpha
        assert len(table) + len(scattered) <= most, "I2: too many groups"
        assert self.moves <= 5 * self.changes, "I3: ranges move too often"
