"""BJ-MJ: a merge join of the sorted ranges with the sorted rows across. O(n + m) a row.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.3.1: BJ-MJ.
"""

from typing import ClassVar

import numpy as np

from slackwater.kernels.band_probes import probe_by_merging
from slackwater.processing.base import Floats, Integers
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
        flip, values = side is JoinSide.RIGHT, self._orders[side.other].entries()[0]
        values = values[::-1].copy() if flip else values
        low, high, slots, _ = self._ranges.entries()
        found, out = list[Integers](), np.empty(len(slots), np.int64)
        for own in join.tolist():
            used = probe_by_merging(values, own, flip, low, high, slots, out)
            found.append(out[:used].copy())
        lengths = np.array([len(one) for one in found], np.int64)
        return np.cumsum(lengths) - lengths, lengths, np.concatenate([np.zeros(0, np.int64), *found])

    def _check(self) -> None:
        super()._check()
        self._ranges._check()
        assert len(self._ranges) == len(self._queries)
