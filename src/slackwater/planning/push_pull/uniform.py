"""UNIFORM: one label for everything, the cheaper one. What a system without regions can do at best."""

import numpy as np

from slackwater.planning.push_pull.base import Labelling, Workload


def uniform(workload: Workload) -> Labelling:
    """Push everything or pull everything."""
    count = len(workload.places)
    all_push = Labelling.of(workload, np.ones(count, np.bool_))
    all_pull = Labelling.of(workload, np.zeros(count, np.bool_))
    return all_push if all_push.cost < all_pull.cost else all_pull
