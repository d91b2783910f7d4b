"""SJ-SelectFirst: the queries whose own range holds the row, then a joining row for each. O(log n + k_s log m).

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.3.2: SJ-SelectFirst.
"""

from typing import ClassVar

import numpy as np

from experiments.joins.published.select_join_first import SelectJoinFirst
from slackwater.processing.base import Floats
from slackwater.processing.matching.base import JoinSide
from slackwater.processing.matching.index_base import Found
from slackwater.processing.matching.rectangles import ALL
from slackwater.processing.matching.select_routes import select_first


class SelectFirst(SelectJoinFirst):
    """Selections before the join."""

    SHAPES: ClassVar[tuple[bool, ...]] = (False,)

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        by, partners = np.argsort(attributes[:, 0]), self._orders[side.other].packed
        return select_first(partners, join, attributes, by, self._all[side], ALL, self._queries, side.other)
