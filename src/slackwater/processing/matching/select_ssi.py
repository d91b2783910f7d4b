"""SJ-SSI: the ranges across in stabbing groups, the queries of a group as rectangles. O(τ (log m + g(n)) + k) a row.

Of the joining rows take the two nearest a group's point: a query of the group whose range across holds any joining row
holds one of these two. Rows of the left side need groups of the right ranges, rows of the right side groups of the
left ones: two indexes, each with every query once.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.3.2: SJ-SSI.
"""

from typing import ClassVar

import numpy as np

from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.base import JoinSide, MatcherShape
from slackwater.processing.matching.group_sides import StabbedRectangles
from slackwater.processing.matching.index_base import Found, IndexedMatcher
from slackwater.processing.matching.partition import LazyPartition, RefinedPartition


class SelectSSI(IndexedMatcher):
    """Stabbing-set index over all groups."""

    SHAPES: ClassVar[tuple[bool, ...]] = (False,)

    def __init__(self, shape: MatcherShape, partitions: tuple[LazyPartition, LazyPartition] | None = None) -> None:
        super().__init__(shape)
        self.partitions = (RefinedPartition(), RefinedPartition()) if partitions is None else partitions
        """For rows of the left side, of the ranges on the right; and the other way round."""
        self._indexes = (StabbedRectangles(self._queries, 0), StabbedRectangles(self._queries, 1))

    @property
    def groups(self) -> tuple[int, int]:
        """How many stabbing groups there are for rows of either side."""
        return len(self.partitions[0].groups), len(self.partitions[1].groups)

    def _added(self, slots: Integers) -> None:
        for side in JoinSide:
            across, partition = side.other, self.partitions[side]
            partition.add(slots, self._queries.lows[across][slots, 0], self._queries.highs[across][slots, 0])
            if not self._restarted(side):
                self._indexes[side].insert(slots, partition.group_of(slots))

    def _removed(self, slots: Integers) -> None:
        for side in JoinSide:
            self._indexes[side].delete(slots, self.partitions[side].group_of(slots))
            self.partitions[side].remove(slots)
            self._restarted(side)

    def _restarted(self, side: JoinSide) -> bool:
        if not self.partitions[side].settle():
            return False
        slots = self._queries.slots.all()
        self._indexes[side].clear()
        self._indexes[side].insert(slots, self.partitions[side].group_of(slots))
        return True

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        by, table = np.argsort(attributes[:, 0]), self.partitions[side].groups.table
        return self._indexes[side].probe(self._orders[side.other], join, attributes, by, table)

    def _check(self) -> None:
        super()._check()
        for side in JoinSide:
            self.partitions[side]._check()
            self._indexes[side]._check(self.partitions[side].group_of(np.arange(self._queries.slots.ever)))
