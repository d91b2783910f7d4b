"""Hotspot band join: BJ-SSI for large groups, an older method for the rest; no small group costs a probe of its own.

Few scattered queries are asked one by one (BJ-QOuter), in the order of their left ends, so that one looks where the one
before it looked. Where they are more than a thirtieth of the rows across, a merge join (BJ-MJ) is quicker: it steps
along both lists, and a step costs a thirtieth of a search.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.3.1: SSI with hotspot tracking.
"""

from typing import ClassVar

import numpy as np

from slackwater.kernels.band_probes import probe_each_query, probe_groups
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.band_merge import merge_join
from slackwater.processing.matching.base import JoinSide, MatcherShape
from slackwater.processing.matching.hotspots import ALPHA, SCATTERED, HotspotTracker
from slackwater.processing.matching.index_base import Found, IndexedMatcher, both, collect
from slackwater.processing.matching.order import PackedOrder


class BandHotspot(IndexedMatcher):
    """Stabbing-set index over hot groups only."""

    SHAPES: ClassVar[tuple[bool, ...]] = (True,)

    def __init__(
        self, shape: MatcherShape, tracker: HotspotTracker | None = None, *, steps_a_search: float = 30
    ) -> None:
        super().__init__(shape)
        self._steps_a_search = steps_a_search
        self.tracker = HotspotTracker(ALPHA) if tracker is None else tracker
        self._lefts, self._rights = PackedOrder(), PackedOrder()
        self._cold = PackedOrder()

    @property
    def groups(self) -> int:
        """How many stabbing groups there are, hot and scattered."""
        return len(self.tracker.hot) + len(self.tracker.scattered.groups)

    def _added(self, slots: Integers) -> None:
        self.tracker.add(slots, self._queries.low[slots], self._queries.high[slots])
        self._enter(slots, self.tracker.group_of(slots))
        self._settle()

    def _removed(self, slots: Integers) -> None:
        self._leave(slots, self.tracker.group_of(slots))
        self.tracker.remove(slots)
        self._settle()

    def _settle(self) -> None:
        for move in self.tracker.settle():
            self._leave(move.slots, np.full(len(move.slots), move.old))
            self._enter(move.slots, np.full(len(move.slots), move.new))

    def _enter(self, slots: Integers, groups: Integers) -> None:
        low, high = self._queries.low[slots], self._queries.high[slots]
        cold = groups == SCATTERED
        hot, numbers = slots[~cold], groups[~cold].astype(np.float64)
        self._lefts.insert(numbers, low[~cold], hot)
        self._rights.insert(numbers, -high[~cold], hot)
        self._cold.insert(low[cold], high[cold], slots[cold])

    def _leave(self, slots: Integers, groups: Integers) -> None:
        low, high = self._queries.low[slots], self._queries.high[slots]
        cold = groups == SCATTERED
        hot, numbers = slots[~cold], groups[~cold].astype(np.float64)
        self._lefts.delete(numbers, low[~cold], hot)
        self._rights.delete(numbers, -high[~cold], hot)
        self._cold.delete(low[cold], high[cold], slots[cold])

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        partners, table, queries = self._orders[side.other].packed, self.tracker.hot.table, self._queries
        lefts = self._lefts.packed, self._lefts.starts(table.groups)
        rights = self._rights.packed, self._rights.starts(table.groups)
        by, flip, low, high = np.argsort(join), side is JoinSide.RIGHT, queries.low, queries.high
        hot = collect(
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
        if not len(self._cold):
            return hot
        if len(self._cold) * self._steps_a_search > len(self._orders[side.other]) + len(self._cold):
            return both(hot, merge_join(self._orders[side.other], self._cold, join, flip=flip))
        cold = self._cold.entries()[2]
        return both(
            hot,
            collect(
                len(join),
                len(by),
                lambda *out: probe_each_query(partners, flip, join, by, cold, low, high, *out),
            ),
        )

    def _check(self) -> None:
        super()._check()
        self.tracker._check()
        for order, ends in ((self._lefts, self._queries.low), (self._rights, -self._queries.high)):
            order._check()
            groups, values, slots, _ = order.entries()
            assert np.array_equal(groups, self.tracker.group_of(slots))
            assert np.array_equal(values, ends[slots])
            everything = np.sort(np.concatenate((slots, self._cold.entries()[2])))
            assert np.array_equal(everything, self._queries.slots.all())
