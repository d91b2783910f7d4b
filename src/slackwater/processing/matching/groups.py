"""Group table of a stabbing partition, in columns: point, size, hull and common part of each group's ranges.

Hull and common part are those of all ranges that ever joined the group, so after deletions the hull may be too wide and
the common part too narrow: both ways a look too many and never one too few.
"""

from dataclasses import dataclass

import numpy as np

from slackwater.kernels.stabbing_groups import greedy_groups, spread_of_groups
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.tables import grown, grown_integers


@dataclass(frozen=True, slots=True, eq=False)
class GroupTable:
    """The groups there are, in the order of their points."""

    points: Floats
    groups: Integers
    least: Floats
    most: Floats
    inner_low: Floats
    inner_high: Floats
    sizes: Integers

    def __len__(self) -> int:
        return len(self.points)


class Groups:
    """Which groups there are; a group is a small number, given out again when it is empty."""

    def __init__(self) -> None:
        self.points = np.zeros(0)
        self.sizes = np.zeros(0, np.int64)
        self._least, self._most = np.zeros(0), np.zeros(0)
        self._inner_low, self._inner_high = np.zeros(0), np.zeros(0)
        self._alive = np.zeros(0, np.bool_)
        self._count = 0
        self._table: GroupTable | None = None
        self._by_point: tuple[Floats, Integers] | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def table(self) -> GroupTable:
        """The groups there are, in the order of their points."""
        if self._table is None:
            points, there = self._in_order()
            self._table = GroupTable(
                points,
                there,
                self._least[there],
                self._most[there],
                self._inner_low[there],
                self._inner_high[there],
                self.sizes[there],
            )
        return self._table

    def _in_order(self) -> tuple[Floats, Integers]:
        """The points and the groups, by point: it changes only when groups come or go."""
        if self._by_point is None:
            there = np.flatnonzero(self._alive)
            there = there[np.argsort(self.points[there], kind="stable")]
            self._by_point = self.points[there], there
        return self._by_point

    def open(self, points: Floats) -> Integers:
        """New, empty groups with these points."""
        free = np.flatnonzero(~self._alive)[: len(points)]
        ever = len(self._alive)
        new = np.concatenate((free, np.arange(ever, ever + len(points) - len(free))))
        size = ever + len(points) - len(free)
        if size > ever:
            self.points, self.sizes = grown(self.points, size), grown_integers(self.sizes, size)
            self._least, self._most = grown(self._least, size), grown(self._most, size)
            self._inner_low, self._inner_high = grown(self._inner_low, size), grown(self._inner_high, size)
            alive = np.zeros(len(self.points), np.bool_)
            alive[:ever] = self._alive
            self._alive = alive
        self.points[new], self.sizes[new], self._alive[new] = points, 0, True
        self._least[new], self._most[new] = np.inf, -np.inf
        self._inner_low[new], self._inner_high[new] = -np.inf, np.inf
        self._count += len(points)
        self._table = self._by_point = None
        return new

    def close(self, groups: Integers) -> None:
        """Take groups away, each named once."""
        self._alive[groups] = False
        self._count -= len(groups)
        self._table = self._by_point = None

    def join(self, groups: Integers, low: Floats, high: Floats) -> None:
        """Ranges join groups, one each."""
        spread_of_groups(groups, low, high, self._least, self._most, self._inner_low, self._inner_high)
        np.add.at(self.sizes, groups, 1)
        self._table = None

    def leave(self, groups: Integers, *, keep: bool = False) -> None:
        """Ranges leave groups; a group without ranges is taken away, or kept."""
        np.subtract.at(self.sizes, groups, 1)
        self._table = None
        empty = np.unique(groups[self.sizes[groups] == 0])
        if not keep and len(empty):
            self.close(empty)

    def smaller(self, size: float) -> Integers:
        """The groups of fewer ranges than this, and the empty ones."""
        return np.flatnonzero(self._alive & ((self.sizes < size) | (self.sizes == 0)))

    def not_smaller(self, size: float) -> Integers:
        """The groups of so many ranges or more."""
        return np.flatnonzero(self._alive & (self.sizes >= size))

    def stabbing(self, low: Floats, high: Floats) -> Integers:
        """For each range a group whose point it holds, −1 where there is none."""
        points, groups = self._in_order()
        if not len(points):
            return np.full(len(low), -1, np.int64)
        first = np.minimum(np.searchsorted(points, low), len(points) - 1)
        holds = (points[first] >= low) & (points[first] <= high)
        return np.where(holds, groups[first], -1)

    def open_for(self, low: Floats, high: Floats) -> Integers:
        """New groups for these ranges, as few as can be; the ranges do not join yet. Returns the group of each."""
        by = np.argsort(low, kind="stable")
        runs = np.empty(len(low), np.int64)
        count = greedy_groups(low[by], high[by], runs)
        starts = np.searchsorted(runs, np.arange(count))
        inner_low = np.maximum.reduceat(low[by], starts) if count else np.zeros(0)
        inner_high = np.minimum.reduceat(high[by], starts) if count else np.zeros(0)
        new = self.open(_middle(inner_low, inner_high))
        out = np.empty(len(low), np.int64)
        out[by] = new[runs]
        return out


def _middle(low: Floats, high: Floats) -> Floats:
    """A finite point of each range, the middle where both ends are finite: the next range is likely to hold it too."""
    with np.errstate(invalid="ignore", over="ignore"):
        middle = np.where(
            np.isfinite(low) & np.isfinite(high), low + (high - low) / 2, np.where(np.isfinite(low), low, high)
        )
    middle = np.where(
        np.isfinite(middle), middle, np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
    )
    return np.clip(middle, low, high)
