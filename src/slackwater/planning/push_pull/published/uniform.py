"""UNIFORM: the cheaper single label for all places, the best that a system without regions can do.

When everything is PULL every query is pulled, also one that touches no place where something changed: the client does
not know that.

References
    A. Bagchi, A. Chaudhary, M. T. Goodrich, C. Li, M. Shmueli-Scheuer, Achieving communication efficiency through
    push-pull partitioning of semantic spaces to disseminate dynamic information, IEEE TKDE 18(10), 2006, sections
    IV-A and VI-B: the baseline of this name.
"""

import numpy as np

from slackwater.planning.push_pull.base import Labelling, Workload


def uniform(workload: Workload) -> Labelling:
    """Push everything or pull everything."""
    count = len(workload.places)
    pushing = Labelling.of(workload, np.ones(count, np.bool_))
    pulling = Labelling(np.zeros(count, np.bool_), float(workload.queries.setup.sum() + workload.transfer.sum()))
    return pushing if pushing.cost < pulling.cost else pulling
