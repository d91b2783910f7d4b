"""NAIVE: each region as if it were alone, PUSH when its queries cost more than its updates.

A query counts in full at every region it touches, as though it were many queries; that leans towards PUSH and goes
wrong when there are many updates.

References
    A. Bagchi, A. Chaudhary, M. T. Goodrich, C. Li, M. Shmueli-Scheuer, Achieving communication efficiency through
    push-pull partitioning of semantic spaces to disseminate dynamic information, IEEE TKDE 18(10), 2006, section
    IV-A: the heuristic of this name.
"""

import numpy as np

from slackwater.kernels.box_coverage import weight_at
from slackwater.planning.push_pull.base import Floats, Labelling, Workload
from slackwater.planning.push_pull.ranks import AttributeRanks


def naive(workload: Workload) -> Labelling:
    """Compare queries with updates region by region."""
    return Labelling.of(workload, asking(workload, workload.queries.setup) + workload.transfer > pushing(workload))


def asking(workload: Workload, weights: Floats) -> Floats:
    """The weight of the queries that touch each place."""
    queries = workload.queries
    if not workload.line:
        return weight_at(queries.owners, queries.lows, queries.highs, workload.places, weights)
    line = AttributeRanks.of(workload)
    own = weights[line.queries]
    beyond = np.bincount(line.last + 1, own, len(line.order) + 1)[:-1]
    answer = np.empty(len(line.order))
    answer[line.order] = np.cumsum(np.bincount(line.first, own, len(line.order)) - beyond)
    return answer


def pushing(workload: Workload) -> Floats:
    """The cost of pushing each place alone; a move counts at both of its places."""
    answer = workload.push.copy()
    for side in range(2):
        answer += np.bincount(workload.moves.places[:, side], workload.moves.costs, len(answer))
    return answer
