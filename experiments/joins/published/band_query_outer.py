"""BJ-QOuter: each query in turn looks into the ordered rows across. O(n log m) a row, without upkeep.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.3.1: BJ-QOuter.
"""

from typing import ClassVar

import numpy as np

from slackwater.kernels.band_probes import probe_each_query
from slackwater.processing.base import Floats
from slackwater.processing.matching.base import JoinSide
from slackwater.processing.matching.index_base import Found, IndexedMatcher, collect


class BandQueryOuter(IndexedMatcher):
    """Queries as the outer loop."""

    SHAPES: ClassVar[tuple[bool, ...]] = (True,)

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        partners, queries = self._orders[side.other].packed, self._queries
        by, slots, flip = np.argsort(join), queries.slots.all(), side is JoinSide.RIGHT
        return collect(
            len(join),
            len(by),
            lambda *out: probe_each_query(partners, flip, join, by, slots, queries.low, queries.high, *out),
        )
