"""Hotspot select-join: SJ-SSI for hotspots, SJ-SelectFirst for the rest.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.3.2: SSI with hotspot tracking.
"""

from typing import ClassVar

import numpy as np

from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.base import JoinSide, MatcherShape
from slackwater.processing.matching.group_sides import StabbedRectangles
from slackwater.processing.matching.hotspots import ALPHA, SCATTERED, HotspotTracker
from slackwater.processing.matching.index_base import Found, IndexedMatcher, both
from slackwater.processing.matching.select_routes import select_first


class SelectHotspot(IndexedMatcher):
    """Stabbing-set index over hot groups only."""

    SHAPES: ClassVar[tuple[bool, ...]] = (False,)

    def __init__(self, shape: MatcherShape, alpha: float = ALPHA) -> None:
        super().__init__(shape)
        self.trackers = (HotspotTracker(alpha), HotspotTracker(alpha))
        """For rows of the left side, of the ranges on the right; and the other way round."""
        self._indexes = (StabbedRectangles(self._queries, 0), StabbedRectangles(self._queries, 1))

    def _added(self, slots: Integers) -> None:
        for side in JoinSide:
            across, tracker = side.other, self.trackers[side]
            tracker.add(slots, self._queries.lows[across][slots, 0], self._queries.highs[across][slots, 0])
            self._indexes[side].insert(slots, tracker.group_of(slots))
            self._settle(side)

    def _removed(self, slots: Integers) -> None:
        for side in JoinSide:
            self._indexes[side].delete(slots, self.trackers[side].group_of(slots))
            self.trackers[side].remove(slots)
            self._settle(side)

    def _settle(self, side: JoinSide) -> None:
        for move in self.trackers[side].settle():
            self._indexes[side].delete(move.slots, np.full(len(move.slots), move.old))
            self._indexes[side].insert(move.slots, np.full(len(move.slots), move.new))

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        return self._by_hotspots(side, join, attributes, np.argsort(attributes[:, 0]))

    def _by_hotspots(self, side: JoinSide, join: Floats, attributes: Floats, by: Integers) -> Found:
        """The affected queries of the rows in `by`."""
        partners, index, tracker = self._orders[side.other], self._indexes[side], self.trackers[side]
        hot = index.probe(partners, join, attributes, by, tracker.hot.table)
        if tracker.hot_share == 1:
            return hot
        cold = select_first(
            partners.packed, join, attributes, by, index.rectangles, SCATTERED, self._queries, side.other
        )
        return both(hot, cold)

    def _check(self) -> None:
        super()._check()
        for side in JoinSide:
            self.trackers[side]._check()
            self._indexes[side]._check(self.trackers[side].group_of(np.arange(self._queries.slots.ever)))
