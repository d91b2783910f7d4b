"""SJ-JoinFirst: the row is joined with the other table first, then matched to the queries.

Two variants. Over queries (E): each joining row asks an index of all rectangles, O(log m + k_j · g(n)). Over rows (S):
each query asks the joining rows, O(log m + n log k_j), with no index of queries at all.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.3.2: SJ-JoinFirst; its variants: section 4.5.1.
"""

from typing import ClassVar

import numpy as np

from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.base import JoinSide, MatcherShape
from slackwater.processing.matching.index_base import Found, IndexedMatcher
from slackwater.processing.matching.rectangles import ALL, Rectangles
from slackwater.processing.matching.select_routes import Stamps, each_query, join_first


class SelectJoinFirst(IndexedMatcher):
    """SJ-JoinFirst over queries (E)."""

    SHAPES: ClassVar[tuple[bool, ...]] = (False,)

    def __init__(self, shape: MatcherShape) -> None:
        super().__init__(shape)
        self._all = (Rectangles(self._queries, 0), Rectangles(self._queries, 1))
        self._stamps = Stamps(self._queries)

    def _added(self, slots: Integers) -> None:
        for index in self._all:
            index.insert(slots, np.full(len(slots), ALL))

    def _removed(self, slots: Integers) -> None:
        for index in self._all:
            index.delete(slots, np.full(len(slots), ALL))

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        by, partners = np.argsort(attributes[:, 0]), self._orders[side.other].packed
        return join_first(partners, join, attributes, by, self._all[side], ALL, self._stamps)

    def _check(self) -> None:
        super()._check()
        for index in self._all:
            index._check(np.full(self._queries.slots.ever, ALL))


class SelectJoinFirstRows(IndexedMatcher):
    """SJ-JoinFirst over rows (S)."""

    SHAPES: ClassVar[tuple[bool, ...]] = (False,)

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        by, partners = np.argsort(join), self._orders[side.other].packed
        return each_query(partners, join, attributes, by, self._queries, side.other)
