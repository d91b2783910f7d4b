"""Groups of a stabbing partition, in columns: point, size, hull and what is common to the ranges of each.

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
        self._table: GroupTable | None = None

    def __len__(self) -> int:
        return int(self._alive.sum())

    @property
    def table(self) -> GroupTable:
        """The groups there are, in the order of their points."""
        if self._table is None:
            there = np.flatnonzero(self._alive)
            there = there[np.argsort(self.points[there], kind="stable")]
            self._table = GroupTable(
                self.points[there],
                there,
                self._least[there],
                self._most[there],
                self._inner_low[there],
                self._inner_high[there],
                self.sizes[there],
            )
        return self._table

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
        self._table = None
        return new

    def close(self, groups: Integers) -> None:
        """Take groups away."""
        self._alive[groups] = False
        self._table = None

    def join(self, groups: Integers, low: Floats, high: Floats) -> None:
        """Ranges join groups, one each."""
        spread_of_groups(groups, low, high, self._least, self._most, self._inner_low, self._inner_high)
        np.add.at(self.sizes, groups, 1)
        self._table = None

    def leave(self, groups: Integers, *, keep: bool = False) -> None:
        """Ranges leave groups; a group without ranges is taken away, or kept."""
        np.subtract.at(self.sizes, groups, 1)
        if not keep:
            self._alive[groups[self.sizes[groups] == 0]] = False
        self._table = None

    def stabbing(self, low: Floats, high: Floats) -> Integers:
        """For each range a group whose point it holds, −1 where there is none."""
        table = self.table
        if not len(table):
            return np.full(len(low), -1, np.int64)
        first = np.minimum(np.searchsorted(table.points, low), len(table) - 1)
        holds = (table.points[first] >= low) & (table.points[first] <= high)
        return np.where(holds, table.groups[first], -1)

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
