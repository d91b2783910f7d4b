"""BJ-DOuter: an interval index of the queries, probed by each row across. O(m log n) a row, more with many overlaps.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.3.1: BJ-DOuter.
"""

from typing import ClassVar

import numpy as np

from experiments.joins.published.each_row import probe_each_row
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.base import JoinSide, MatcherShape
from slackwater.processing.matching.index_base import Found, IndexedMatcher, collect
from slackwater.processing.matching.order import PackedOrder


class BandDataOuter(IndexedMatcher):
    """Rows as the outer loop."""

    SHAPES: ClassVar[tuple[bool, ...]] = (True,)

    def __init__(self, shape: MatcherShape) -> None:
        super().__init__(shape)
        self._ranges = PackedOrder(width=1, room=64)

    def _added(self, slots: Integers) -> None:
        queries = self._queries
        self._ranges.insert(queries.low[slots], np.zeros(len(slots)), slots, queries.high[slots].reshape(-1, 1))

    def _removed(self, slots: Integers) -> None:
        self._ranges.delete(self._queries.low[slots], np.zeros(len(slots)), slots)

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        partners, ranges = self._orders[side.other].packed, self._ranges.packed
        by, stamps, flip = np.argsort(join), np.zeros(self._queries.slots.ever, np.int64), side is JoinSide.RIGHT
        return collect(
            len(join),
            len(by),
            lambda *out: probe_each_row(partners, flip, join, by, ranges, stamps, *out),
        )

    def _check(self) -> None:
        super()._check()
        self._ranges._check()
        assert len(self._ranges) == len(self._queries)
