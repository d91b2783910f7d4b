"""Evaluation orders of select-joins without groups: selection first (SJ-SelectFirst) or join first (SJ-JoinFirst).

Kernels take rows in the order `by`, go on where the cursor stands and stop before a row for which there is no room; see
`processing.matching.index_base.collect`.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled
from slackwater.kernels.partners import joins_within
from slackwater.kernels.rectangle_stabbing import stab
from slackwater.kernels.sorted_blocks import Packed, locate

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@compiled
def probe_selected(
    partners: Packed,
    join: Floats,
    own: Floats,
    by: Integers,
    group: float,
    index: Packed,
    coarse: Floats,
    coarser: Floats,
    lows: Floats,
    highs: Floats,
    cursor: Integers,
    offsets: Integers,
    lengths: Integers,
    out: Integers,
) -> None:
    """SJ-SelectFirst: the queries whose own range holds the row; each then looks for a joining row across."""
    used = cursor[1]
    for k in range(cursor[0], len(by)):
        row, begin = by[k], used
        place, offset = locate(partners, join[row], -np.inf, -1)
        if place < partners.meta[0] and partners.first[partners.order[place], offset] == join[row]:
            end = stab(index, coarse, coarser, group, own[row, 0], True, np.inf, False, 0.0, False, out, used)
            if end < 0:
                cursor[0], cursor[1] = k, begin
                return
            for j in range(begin, end):
                slot = out[j]
                if joins_within(partners, join[row], lows[slot, 0], highs[slot, 0]):
                    out[used] = slot
                    used += 1
        offsets[row], lengths[row] = begin, used - begin
    cursor[0], cursor[1] = len(by), used


@compiled
def probe_joined(
    partners: Packed,
    join: Floats,
    own: Floats,
    by: Integers,
    group: float,
    index: Packed,
    coarse: Floats,
    coarser: Floats,
    stamps: Integers,
    before: int,
    cursor: Integers,
    offsets: Integers,
    lengths: Integers,
    out: Integers,
) -> None:
    """SJ-JoinFirst over queries (E): with each joining row ask an index of all rectangles for the point."""
    used = cursor[1]
    for k in range(cursor[0], len(by)):
        row, begin = by[k], used
        place, offset = locate(partners, join[row], -np.inf, -1)
        last = np.nan
        while place < partners.meta[0]:
            block = partners.order[place]
            if offset == partners.sizes[block]:
                place, offset = place + 1, 0
                continue
            if partners.first[block, offset] != join[row]:
                break
            value = partners.second[block, offset]
            offset += 1
            if value == last:
                continue
            last = value
            start = used
            used = stab(index, coarse, coarser, group, own[row, 0], True, value, True, value, True, out, used)
            if used < 0:
                stamps[:] = 0
                cursor[0], cursor[1] = k, begin
                return
            end, used = used, start
            for j in range(start, end):
                slot = out[j]
                if stamps[slot] != before + k + 1:
                    stamps[slot] = before + k + 1
                    out[used] = slot
                    used += 1
        offsets[row], lengths[row] = begin, used - begin
    cursor[0], cursor[1] = len(by), used


@compiled
def probe_each_query(
    partners: Packed,
    join: Floats,
    own: Floats,
    by: Integers,
    slots: Integers,
    own_lows: Floats,
    own_highs: Floats,
    lows: Floats,
    highs: Floats,
    cursor: Integers,
    offsets: Integers,
    lengths: Integers,
    out: Integers,
) -> None:
    """SJ-JoinFirst over rows (S): where anything joins, each query in turn looks into the joining rows."""
    used = cursor[1]
    for k in range(cursor[0], len(by)):
        row, begin = by[k], used
        value = own[row, 0]
        place, offset = locate(partners, join[row], -np.inf, -1)
        joins = place < partners.meta[0] and partners.first[partners.order[place], offset] == join[row]
        for j in range(len(slots) if joins else 0):
            slot = slots[j]
            if own_lows[slot, 0] <= value <= own_highs[slot, 0] and joins_within(
                partners, join[row], lows[slot, 0], highs[slot, 0]
            ):
                if used == len(out):
                    cursor[0], cursor[1] = k, begin
                    return
                out[used] = slot
                used += 1
        offsets[row], lengths[row] = begin, used - begin
    cursor[0], cursor[1] = len(by), used
