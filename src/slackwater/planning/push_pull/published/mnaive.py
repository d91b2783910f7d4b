"""MNAIVE: as NAIVE, region after region, forgetting queries that are already paid for.

A query that touches a region labelled PULL is pulled whatever comes, so it speaks for no other region. On a line
regions come from left to right, with more attributes in the order of increasing cost of their queries.

References
    A. Bagchi, A. Chaudhary, M. T. Goodrich, C. Li, M. Shmueli-Scheuer, Achieving communication efficiency through
    push-pull partitioning of semantic spaces to disseminate dynamic information, IEEE TKDE 18(10), 2006, section
    IV-A: the heuristic of this name.
"""

import numpy as np

from slackwater.kernels.box_coverage import grab, grab_on_a_line
from slackwater.planning.push_pull.base import Floats, Labelling, Workload
from slackwater.planning.push_pull.published.naive import asking, pushing
from slackwater.planning.push_pull.ranks import AttributeRanks


def mnaive(workload: Workload) -> Labelling:
    """Label one region after the other, each with the queries that are left."""
    return grabbing(workload, workload.queries.setup)


def grabbing(workload: Workload, weights: Floats) -> Labelling:
    """The same with weights of queries of one's own choice."""
    # A region's saved transfer does not depend on the queries that are paid for: it counts against its updates.
    push = pushing(workload) - workload.transfer
    if workload.line:
        line = AttributeRanks.of(workload)
        own = weights[line.queries]
        answer = grab_on_a_line(line.begins(own), line.first_ending, line.first, own, push[line.order])
        return Labelling.of(workload, line.back(answer))
    queries = workload.queries
    order = np.argsort(asking(workload, weights), kind="stable")
    answer = grab(queries.owners, queries.lows, queries.highs, workload.places, order, push, weights)
    return Labelling.of(workload, answer)
