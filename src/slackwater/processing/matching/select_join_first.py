"""SJ-JoinFirst: join the row with the other table first, then see which queries want a result.

Two variants. Over queries (E): each joining row asks an index of all rectangles, O(log m + k_j · g(n)). Over rows (S):
each query asks the joining rows, O(log m + n log k_j), with no index of queries at all.
"""

from typing import ClassVar

import numpy as np

from slackwater.kernels.select_probes import probe_each_query, probe_joined
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.base import JoinSide, Shape
from slackwater.processing.matching.indexed import Found, IndexedMatcher, collect
from slackwater.processing.matching.rectangles import ALL, Rectangles


class SelectJoinFirst(IndexedMatcher):
    """SJ-JoinFirst over queries (E)."""

    SHAPES: ClassVar[tuple[bool, ...]] = (False,)

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._all = (Rectangles(self._queries, 0), Rectangles(self._queries, 1))

    def _added(self, slots: Integers) -> None:
        for index in self._all:
            index.insert(slots, np.full(len(slots), ALL))

    def _removed(self, slots: Integers) -> None:
        for index in self._all:
            index.delete(slots, np.full(len(slots), ALL))

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        partners, index = self._orders[side.other].packed, self._all[side].searchable()
        by, stamps = np.argsort(attributes[:, 0]), np.zeros(self._queries.slots.ever, np.int64)
        return collect(
            len(join),
            len(by),
            lambda *out: probe_joined(partners, join, attributes, by, ALL, *index, stamps, *out),
        )

    def _check(self) -> None:
        super()._check()
        for index in self._all:
            index._check(np.full(self._queries.slots.ever, ALL))


class SelectJoinFirstRows(IndexedMatcher):
    """SJ-JoinFirst over rows (S)."""

    SHAPES: ClassVar[tuple[bool, ...]] = (False,)

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        partners, queries, other = self._orders[side.other].packed, self._queries, side.other
        by, slots = np.argsort(join), queries.slots.all()
        return collect(
            len(join),
            len(by),
            lambda *out: probe_each_query(
                partners,
                join,
                attributes,
                by,
                slots,
                queries.lows[side],
                queries.highs[side],
                queries.lows[other],
                queries.highs[other],
                *out,
            ),
        )
