"""BUCKETS: NAIVE on pieces of equal width, whose number does not grow with the workload.

References
    A. Bagchi, A. Chaudhary, M. T. Goodrich, C. Li, M. Shmueli-Scheuer, Achieving communication efficiency through
    push-pull partitioning of semantic spaces to disseminate dynamic information, IEEE TKDE 18(10), 2006, section
    IV-A: the heuristic of this name.
"""

from collections.abc import Sequence

from slackwater.planning.push_pull.base import Floats, Labelling, Workload
from slackwater.planning.push_pull.partition import equal_width, partition
from slackwater.planning.push_pull.published.naive import naive

BUCKETS = 500
"""How many pieces one attribute is cut into; more attributes are cut into `REGIONS` regions together."""

REGIONS = 10_000


def buckets(workload: Workload, values: Sequence[Floats] | None = None, count: int | None = None) -> Labelling:
    """Label pieces of equal width, each as if it were alone; the cost is that of whole pieces."""
    parted = partition(workload, equal_width(workload, count or pieces(workload.axes), values))
    decided = naive(parted.coarse)
    return Labelling(decided.push[parted.region], decided.cost)


def pieces(axes: int) -> int:
    """How many pieces along each of so many attributes.

    >>> pieces(1), pieces(2), pieces(3)
    (500, 100, 22)
    """
    return BUCKETS if axes == 1 else round(float(REGIONS ** (1 / axes)))
