"""SJ-SelectFirst: the queries that want the row first, each then looks for a joining row. O(log n + k_s log m)."""

from typing import ClassVar

import numpy as np

from slackwater.kernels.select_probes import probe_selected
from slackwater.processing.base import Floats
from slackwater.processing.matching.base import JoinSide
from slackwater.processing.matching.indexed import Found, collect
from slackwater.processing.matching.rectangles import ALL
from slackwater.processing.matching.select_join_first import SelectJoinFirst


class SelectFirst(SelectJoinFirst):
    """Selections before the join."""

    SHAPES: ClassVar[tuple[bool, ...]] = (False,)

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        partners, index = self._orders[side.other].packed, self._all[side].searchable()
        by, lows, highs = np.argsort(attributes[:, 0]), self._queries.lows[side.other], self._queries.highs[side.other]
        return collect(
            len(join),
            len(by),
            lambda *out: probe_selected(partners, join, attributes, by, ALL, *index, lows, highs, *out),
        )
