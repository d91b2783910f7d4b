"""Rank space of a line: places in order, each query from its first place to its last, queries by their ends.

Every line algorithm begins here. Queries that touch no place are left out: they cost nothing whatever is decided.
"""

from dataclasses import dataclass

import numpy as np

from slackwater.core.errors import PlanningError
from slackwater.kernels.group_rows import group
from slackwater.planning.push_pull.base import Flags, Floats, Integers, Workload, count_on_a_line


@dataclass(frozen=True, slots=True, eq=False)
class AttributeRanks:
    """The places of one attribute from left to right, and the queries that touch any."""

    order: Integers
    push: Floats
    transfer: Floats
    first: Integers
    last: Integers
    costs: Floats
    queries: Integers
    first_ending: Integers

    @classmethod
    def of(cls, workload: Workload) -> "AttributeRanks":
        """Put a workload of one attribute in order."""
        if not workload.line:
            raise PlanningError(
                "this needs one attribute, ranges in one piece and rows that do not move; "
                "the minimum cut takes everything else"
            )
        order = np.argsort(workload.places[:, 0], kind="stable")
        queries = workload.queries
        first, beyond = count_on_a_line(workload.places[:, 0], queries.lows[:, 0], queries.highs[:, 0])
        last = beyond - 1
        some = first <= last
        if not some.all():
            first, last, owners = first[some], last[some], queries.owners[some]
        else:
            owners = queries.owners
        by_end, first_ending = group(last, len(order))
        owners = owners[by_end]
        return cls(
            order,
            workload.push[order],
            workload.transfer[order],
            first[by_end],
            np.repeat(np.arange(len(order)), np.diff(first_ending)),
            queries.setup[owners],
            owners,
            first_ending,
        )

    def begins(self, weights: Floats) -> Floats:
        """The weight of the queries that begin at each place."""
        return np.bincount(self.first, weights, len(self.order)).astype(np.float64)

    def back(self, push: Flags) -> Flags:
        """Labels from left to right, in the order of the workload's places."""
        answer = np.empty(len(push), np.bool_)
        answer[self.order] = push
        return answer
