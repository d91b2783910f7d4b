"""BJ-SSI: the ranges in stabbing groups, each sorted by left end and by right end. O(τ log m + k) a row.

Seen as differences, the ranges of a group all hold its point. Take the rows across nearest that point on either side: a
range of the group that holds any row holds one of these two. So a group's affected queries are a beginning of its
list by left end and a beginning of its list by right end; no other query is looked at, and no other row.

The same lists serve both sides: only the direction in which differences run along the rows changes.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.3.1: BJ-SSI.
"""

from typing import ClassVar

import numpy as np

from slackwater.kernels.band_probes import count_by_groups, probe_groups
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.base import JoinRows, JoinSide, MatcherShape, check_rows
from slackwater.processing.matching.index_base import Found, IndexedMatcher, collect
from slackwater.processing.matching.order import PackedOrder
from slackwater.processing.matching.partition import LazyPartition, RefinedPartition


class BandSSI(IndexedMatcher):
    """Stabbing-set index over all groups."""

    SHAPES: ClassVar[tuple[bool, ...]] = (True,)

    def __init__(self, shape: MatcherShape, partition: LazyPartition | None = None) -> None:
        super().__init__(shape)
        self.partition = RefinedPartition() if partition is None else partition
        self._lefts, self._rights = PackedOrder(), PackedOrder()

    @property
    def groups(self) -> int:
        """How many stabbing groups there are."""
        return len(self.partition.groups)

    def count(self, side: JoinSide, rows: JoinRows) -> Integers:
        """How many queries have results with each row; groups that a row affects as a whole are not looked into."""
        if not self._certain:
            return super().count(side, rows)
        check_rows(self._shape, side, rows)
        table, counts = self.partition.groups.table, np.zeros(len(rows), np.int64)
        count_by_groups(
            self._orders[side.other].packed,
            side is JoinSide.RIGHT,
            rows.join,
            np.argsort(rows.join),
            table.points,
            table.groups,
            table.inner_low,
            table.inner_high,
            table.sizes,
            self._lefts.packed,
            self._lefts.starts(table.groups),
            self._rights.packed,
            self._rights.starts(table.groups),
            self._queries.low,
            counts,
        )
        return counts

    def _added(self, slots: Integers) -> None:
        low, high = self._queries.low[slots], self._queries.high[slots]
        self.partition.add(slots, low, high)
        if not self._restarted():
            groups = self.partition.group_of(slots).astype(np.float64)
            self._lefts.insert(groups, low, slots)
            self._rights.insert(groups, -high, slots)

    def _removed(self, slots: Integers) -> None:
        groups = self.partition.group_of(slots).astype(np.float64)
        self._lefts.delete(groups, self._queries.low[slots], slots)
        self._rights.delete(groups, -self._queries.high[slots], slots)
        self.partition.remove(slots)
        self._restarted()

    def _restarted(self) -> bool:
        if not self.partition.settle():
            return False
        slots = self._queries.slots.all()
        groups = self.partition.group_of(slots).astype(np.float64)
        self._lefts.build(groups, self._queries.low[slots], slots)
        self._rights.build(groups, -self._queries.high[slots], slots)
        return True

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        partners, table, low = self._orders[side.other].packed, self.partition.groups.table, self._queries.low
        lefts = self._lefts.packed, self._lefts.starts(table.groups)
        rights = self._rights.packed, self._rights.starts(table.groups)
        by, flip = np.argsort(join), side is JoinSide.RIGHT
        return collect(
            len(join),
            len(by),
            lambda *out: probe_groups(
                partners,
                flip,
                join,
                by,
                table.points,
                table.groups,
                table.least,
                table.most,
                *lefts,
                *rights,
                low,
                *out,
            ),
        )

    def _check(self) -> None:
        super()._check()
        self.partition._check()
        for order, ends in ((self._lefts, self._queries.low), (self._rights, -self._queries.high)):
            order._check()
            groups, values, slots, _ = order.entries()
            assert np.array_equal(np.sort(slots), self._queries.slots.all())
            assert np.array_equal(groups, self.partition.group_of(slots))
            assert np.array_equal(values, ends[slots])
