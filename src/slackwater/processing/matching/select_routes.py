"""Select-join methods as functions over rows of a batch: a matcher uses one of them, the router all.

All take the rows across, the rows of the batch, and `by`, which of them to do and in which order.
"""

import numpy as np

from slackwater.kernels.select_orders import probe_each_query, probe_joined, probe_selected
from slackwater.kernels.sorted_blocks import Packed
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.index_base import Found, collect
from slackwater.processing.matching.rectangles import Rectangles
from slackwater.processing.matching.tables import QueryTable, grown_integers


def select_first(
    partners: Packed,
    join: Floats,
    attributes: Floats,
    by: Integers,
    index: Rectangles,
    group: int,
    queries: QueryTable,
    across: int,
) -> Found:
    """SJ-SelectFirst over the queries of one group."""
    rectangles, lows, highs = index.searchable(), queries.lows[across], queries.highs[across]
    return collect(
        len(join),
        len(by),
        lambda *out: probe_selected(partners, join, attributes, by, group, *rectangles, lows, highs, *out),
    )


def join_first(
    partners: Packed, join: Floats, attributes: Floats, by: Integers, index: Rectangles, group: int, stamps: "Stamps"
) -> Found:
    """SJ-JoinFirst over queries (E)."""
    rectangles, (marks, before) = index.searchable(), stamps.take(len(by))
    return collect(
        len(join),
        len(by),
        lambda *out: probe_joined(partners, join, attributes, by, group, *rectangles, marks, before, *out),
    )


class Stamps:
    """Which row last found each query, so that no row finds one twice; not wiped between batches."""

    def __init__(self, queries: QueryTable) -> None:
        self._queries = queries
        self._marks = np.zeros(0, np.int64)
        self._used = 0

    def take(self, rows: int) -> tuple[Integers, int]:
        """The marks, and a number after which as many as there are rows are fresh."""
        self._marks = grown_integers(self._marks, self._queries.slots.ever)
        self._used += rows
        return self._marks, self._used - rows


def each_query(
    partners: Packed, join: Floats, attributes: Floats, by: Integers, queries: QueryTable, across: int
) -> Found:
    """SJ-JoinFirst over rows (S)."""
    own, slots = 1 - across, queries.slots.all()
    return collect(
        len(join),
        len(by),
        lambda *out: probe_each_query(
            partners,
            join,
            attributes,
            by,
            slots,
            queries.lows[own],
            queries.highs[own],
            queries.lows[across],
            queries.highs[across],
            *out,
        ),
    )
