"""BJ-MJ: a merge join of the sorted ranges with the sorted rows across. O(n + m) a row.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.3.1: BJ-MJ.
"""

import numpy as np

from slackwater.kernels.band_probes import probe_by_merging
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.index_base import Found
from slackwater.processing.matching.order import PackedOrder


def merge_join(partners: PackedOrder, ranges: PackedOrder, join: Floats, *, flip: bool) -> Found:
    """The queries in `ranges`, by left end and right end, that are affected by each row."""
    values = partners.entries()[0]
    values = values[::-1].copy() if flip else values
    low, high, slots, _ = ranges.entries()
    found, out = list[Integers](), np.empty(len(slots), np.int64)
    for own in join.tolist():
        used = probe_by_merging(values, own, flip, low, high, slots, out)
        found.append(out[:used].copy())
    lengths = np.array([len(one) for one in found], np.int64)
    return np.cumsum(lengths) - lengths, lengths, np.concatenate([np.zeros(0, np.int64), *found])
