"""Hotspot band join: BJ-SSI for large groups, blocks of like length for the rest (`range_blocks`).

No small group costs a probe of its own.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.3.1: SSI with hotspot tracking.
"""

from typing import ClassVar

import numpy as np

from slackwater.kernels.band_probes import probe_groups
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.band_costs import BandCosts
from slackwater.processing.matching.base import JoinSide, MatcherShape
from slackwater.processing.matching.hotspots import ALPHA, SCATTERED, HotspotTracker
from slackwater.processing.matching.index_base import Found, IndexedMatcher, collect
from slackwater.processing.matching.order import PackedOrder
from slackwater.processing.matching.range_blocks import ScatteredRanges

LEAST = 16
"""Ranges of a group that are sooner looked up one by one than their group is."""


class BandHotspot(IndexedMatcher):
    """Stabbing-set index over hot groups only."""

    SHAPES: ClassVar[tuple[bool, ...]] = (True,)

    def __init__(
        self, shape: MatcherShape, tracker: HotspotTracker | None = None, costs: BandCosts | None = None
    ) -> None:
        super().__init__(shape)
        self.tracker = HotspotTracker(ALPHA, least=LEAST) if tracker is None else tracker
        self._lefts, self._rights = PackedOrder(), PackedOrder()
        self._scattered = ScatteredRanges(self._queries, costs)

    @property
    def groups(self) -> int:
        """How many stabbing groups there are, hot and scattered."""
        return len(self.tracker.hot) + len(self.tracker.scattered.groups)

    def forget_rows(self) -> None:
        """Have no rows on either side."""
        super().forget_rows()
        self._scattered.forget_rows()

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
        self._scattered.insert(slots[cold])

    def _leave(self, slots: Integers, groups: Integers) -> None:
        low, high = self._queries.low[slots], self._queries.high[slots]
        cold = groups == SCATTERED
        hot, numbers = slots[~cold], groups[~cold].astype(np.float64)
        self._lefts.delete(numbers, low[~cold], hot)
        self._rights.delete(numbers, -high[~cold], hot)
        self._scattered.delete(slots[cold])

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        rows, table, by = self._orders[side.other], self.tracker.hot.table, np.argsort(join)
        if not len(table):
            return self._scattered.probe(side, rows, join, by, None)
        lefts = self._lefts.packed, self._lefts.starts(table.groups)
        rights = self._rights.packed, self._rights.starts(table.groups)
        hot = collect(
            len(join),
            len(by),
            lambda *out: probe_groups(
                rows.packed,
                side is JoinSide.RIGHT,
                join,
                by,
                table.points,
                table.groups,
                table.least,
                table.most,
                *lefts,
                *rights,
                self._queries.low,
                *out,
            ),
        )
        return self._scattered.probe(side, rows, join, by, hot) if len(self._scattered) else hot

    def _rows_came(self, side: JoinSide, join: Floats) -> None:
        self._scattered.rows_came(side, join)

    def _rows_went(self, side: JoinSide, join: Floats) -> None:
        self._scattered.rows_went(side, join, self._orders[side])

    def _check(self) -> None:
        super()._check()
        self.tracker._check()
        for order, ends in ((self._lefts, self._queries.low), (self._rights, -self._queries.high)):
            order._check()
            groups, values, slots, _ = order.entries()
            assert np.array_equal(groups, self.tracker.group_of(slots))
            assert np.array_equal(values, ends[slots])
            everything = np.sort(np.concatenate((slots, self._scattered.slots())))
            assert np.array_equal(everything, self._queries.slots.all())
        self._scattered._check(self._orders)
