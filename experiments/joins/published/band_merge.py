"""BJ-MJ: a merge join of the sorted ranges with the sorted rows across. O(n + m) a row.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.3.1: BJ-MJ.
"""

from typing import ClassVar

from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.band_merge import merge_join
from slackwater.processing.matching.base import JoinSide, MatcherShape
from slackwater.processing.matching.index_base import Found, IndexedMatcher
from slackwater.processing.matching.order import PackedOrder


class BandMerge(IndexedMatcher):
    """A merge join for each arriving row."""

    SHAPES: ClassVar[tuple[bool, ...]] = (True,)

    def __init__(self, shape: MatcherShape) -> None:
        super().__init__(shape)
        self._ranges = PackedOrder()

    def _added(self, slots: Integers) -> None:
        self._ranges.insert(self._queries.low[slots], self._queries.high[slots], slots)

    def _removed(self, slots: Integers) -> None:
        self._ranges.delete(self._queries.low[slots], self._queries.high[slots], slots)

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        return merge_join(self._orders[side.other], self._ranges, join, flip=side is JoinSide.RIGHT)

    def _check(self) -> None:
        super()._check()
        self._ranges._check()
        assert len(self._ranges) == len(self._queries)
