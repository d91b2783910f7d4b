"""PROP: as MNAIVE, with the cost of a query shared equally among the regions it touches.

Regions without updates take a share too, and waste it: with few updates MNAIVE is better, with many PROP.

References
    A. Bagchi, A. Chaudhary, M. T. Goodrich, C. Li, M. Shmueli-Scheuer, Achieving communication efficiency through
    push-pull partitioning of semantic spaces to disseminate dynamic information, IEEE TKDE 18(10), 2006, section
    IV-A: the heuristic of this name.
"""

import numpy as np

from slackwater.planning.push_pull.base import Floats, Labelling, Workload
from slackwater.planning.push_pull.published.mnaive import grabbing


def prop(workload: Workload) -> Labelling:
    """Label one region after the other, each with its shares of the queries that are left."""
    return grabbing(workload, shares(workload))


def shares(workload: Workload) -> Floats:
    """What a query gives to each region it touches: its cost over their number, empty regions included."""
    queries = workload.queries
    regions = (queries.highs - queries.lows + 1).astype(np.float64).prod(axis=1)
    touched = np.bincount(queries.owners, regions, len(queries))
    return queries.setup / np.maximum(touched, 1.0)
