"""Equi-height buckets: NAIVE on pieces that hold the same number of events, so that busy parts are cut finely.

References
    A. Bagchi, A. Chaudhary, M. T. Goodrich, C. Li, M. Shmueli-Scheuer, Achieving communication efficiency through
    push-pull partitioning of semantic spaces to disseminate dynamic information, IEEE TKDE 18(10), 2006, section
    IV-A, which names it as an alternative to BUCKETS.
"""

from slackwater.planning.push_pull.base import Labelling, Workload
from slackwater.planning.push_pull.partition import equal_height, partition
from slackwater.planning.push_pull.published.buckets import pieces
from slackwater.planning.push_pull.published.naive import naive


def equi_height(workload: Workload, count: int | None = None) -> Labelling:
    """Label pieces with as many events, each as if it were alone; the cost is that of whole pieces."""
    parted = partition(workload, equal_height(workload, count or pieces(workload.axes)))
    decided = naive(parted.coarse)
    return Labelling(decided.push[parted.region], decided.cost)
