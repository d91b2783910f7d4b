"""The ways to find the affected select-joins of some rows of a batch, as functions: matchers use one, the router all.

All take the rows across, the rows of the batch, and `by`, which of them to do and in which order.
"""

import numpy as np

from slackwater.kernels.packed import Packed
from slackwater.kernels.select_probes import probe_each_query, probe_joined, probe_selected
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.indexed import Found, collect
from slackwater.processing.matching.rectangles import Rectangles
from slackwater.processing.matching.tables import QueryTable


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
    partners: Packed, join: Floats, attributes: Floats, by: Integers, index: Rectangles, group: int, ever: int
) -> Found:
    """SJ-JoinFirst over queries (E); `ever` is how many slots of queries there have been."""
    rectangles, stamps = index.searchable(), np.zeros(ever, np.int64)
    return collect(
        len(join),
        len(by),
        lambda *out: probe_joined(partners, join, attributes, by, group, *rectangles, stamps, *out),
    )


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
