"""BJ-MJ: the ranges by left end and the rows across, both in order, walked side by side. O(n + m) a row."""

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
        return merge_join(self._orders[side.other], self._ranges, join, flip=side is JoinSide.RIGHT)

    def _check(self) -> None:
        super()._check()
        self._ranges._check()
        assert len(self._ranges) == len(self._queries)


def merge_join(partners: PackedOrder, ranges: PackedOrder, join: Floats, *, flip: bool) -> Found:
    """The queries in `ranges`, by left end and right end, that are affected by each row."""
    values = partners.entries()[0]
    values = values[::-1].copy() if flip else values
    low, high, slots, _ = ranges.entries()
    found, out = list[Integers](), np.empty(len(slots), np.int64)
    for own in join.tolist():
        used = probe_by_merging(values, own, flip, low, high, slots, out)
        found.append(out[:used].copy())
    lengths = np.array([len(one) for one in found], np.int64)
    return np.cumsum(lengths) - lengths, lengths, np.concatenate([np.zeros(0, np.int64), *found])
