"""One attribute, exact: the recurrence of the paper, to be read; `line.py` finds the same faster.

Mathematics
    f(i, j) is the least cost of the updates in regions 1..i and of the queries that touch them and do not reach beyond
    j, when i+1..j are PUSH and j + 1 is the next PULL region:
        f(0, j) = 0,    f(i, j) = min( U(i) + f(i−1, j),                    i is PUSH
                                       P(i) + Q(i, j) + f(i−1, i−1) )       i is PULL
    with Q(i, j) the cost of the queries that hold i and end at j or before. The answer is f(n, n).

    Let R(i) be the last region of any query that holds i (i itself where there is none). No query that touches 1..i
    reaches beyond R(i), so f(i, j) = f(i, R(i)) for j ≥ R(i), and a row needs only the columns i..R(i): O(n·l) in all,
    where l is the number of regions of the longest query.

References
    A. Bagchi, A. Chaudhary, M. T. Goodrich, C. Li, M. Shmueli-Scheuer, Achieving communication efficiency through
    push-pull partitioning of semantic spaces to disseminate dynamic information, IEEE TKDE 18(10), 2006, section III.
"""

import numpy as np

from slackwater.planning.push_pull.base import Flags, Labelling, Workload
from slackwater.planning.push_pull.ranks import AttributeRanks


def exact_by_recurrence(workload: Workload) -> Labelling:
    """Label one attribute at the least cost, in O(n·l)."""
    line = AttributeRanks.of(workload)
    count = len(line.order)
    ending = np.zeros(count)  # by last region: the cost of the queries that have begun
    beginning = np.argsort(line.first, kind="stable")
    starts = np.searchsorted(line.first[beginning], np.arange(count + 1))
    above, reach = np.zeros(1), -1  # the row before, and R of it
    pulled_where: list[Flags] = []
    reaches: list[int] = []
    for i in range(count):
        begun = beginning[starts[i] : starts[i + 1]]
        np.add.at(ending, line.last[begun], line.costs[begun])
        own_reach = max(i, reach, int(line.last[begun].max(initial=i)))
        columns = np.arange(i, own_reach + 1)
        pushing = line.push[i] + above[np.minimum(columns, max(reach, i - 1)) - (i - 1)]
        pulling = line.transfer[i] + np.cumsum(ending[i : own_reach + 1]) + above[0]
        pulled_where.append(pulling < pushing)
        reaches.append(own_reach)
        above, reach = np.minimum(pushing, pulling), own_reach
    push = np.ones(count, np.bool_)
    j = count - 1
    for i in range(count - 1, -1, -1):
        if pulled_where[i][min(j, reaches[i]) - i]:
            push[i] = False
            j = i - 1
    return Labelling.of(workload, line.back(push), at_least=float(above[-1]) if count else 0.0)
