"""Exact labelling on a line, in O((n + m)·log n): one pass over the places from left to right.

Places that lie between the same ends of queries always have the same label in M1 and M2: they could be joined first.
The pass costs so little that joining them does not pay. In M3 places that are not joined are what makes the answer
exact: a place whose updates cost no more than its transfer is PUSH whatever its neighbours are (`transfer.py`).
"""

from slackwater.kernels.prefix_minimum import pulled
from slackwater.planning.push_pull.base import Labelling, Workload
from slackwater.planning.push_pull.ranks import AttributeRanks


def exact_on_a_line(workload: Workload) -> Labelling:
    """Label one attribute at the least cost."""
    line = AttributeRanks.of(workload)
    answer = pulled(line.push, line.transfer, line.begins(line.costs), line.first_ending, line.first, line.costs)
    return Labelling.of(workload, line.back(~answer))
