"""UNIFORM: one label for everything, the cheaper one. What a system without regions can do at best.

When everything is PULL every query is pulled, also one that touches no place where something changed: nobody knows
that.
"""

import numpy as np

from slackwater.planning.push_pull.base import Labelling, Workload


def uniform(workload: Workload) -> Labelling:
    """Push everything or pull everything."""
    count = len(workload.places)
    pushing = Labelling.of(workload, np.ones(count, np.bool_))
    pulling = Labelling(np.zeros(count, np.bool_), float(workload.queries.setup.sum() + workload.transfer.sum()))
    return pushing if pushing.cost < pulling.cost else pulling
