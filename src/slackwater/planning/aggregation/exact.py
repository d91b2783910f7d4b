"""Exact planner: the plan with the fewest expected messages; no other partition, aggregator or split costs less.

For a given part only the aggregator with the least X matters, because a part's amount does not depend on who serves it.
(Where floors take from the bound that is a choice: a part is given to the aggregator that holds it most closely.)
What is left is to find the partition; how stands in `kernels.partitions`. Exact means exact in the model: the
plan inherits the model's errors about the data.

References
    R. Gupta, K. Ramamritham, Optimized query planning of continuous aggregation queries in dynamic data
    dissemination networks, WWW 2007, section 4.1: the problem, which is NP-hard.
"""

from dataclasses import dataclass

import numpy as np

from slackwater.kernels.partitions import best_partition
from slackwater.planning.aggregation.base import NetworkPlan
from slackwater.planning.aggregation.problem import Problem


@dataclass(frozen=True, slots=True)
class Exact:
    """Plans queries of up to `problem.MOST_ITEMS` items; infeasible only when no plan is feasible."""

    name: str = "exact"

    def __call__(self, problem: Problem) -> NetworkPlan:
        """Plan a query."""
        return self.searched(problem)[0]

    def searched(self, problem: Problem) -> tuple[NetworkPlan, int]:
        """Return the plan and the number of branches searched: 0 where a lower bound was met without a search."""
        problem.check_offered()
        tables = problem.tables
        scale, power = float(tables.roots.max()), problem.model.exponent
        most = tables.most.copy()
        if scale > 0:
            with np.errstate(over="ignore"):
                most[most < np.inf] *= np.power(problem.query.within / scale, power) / scale
        best = np.zeros(len(problem.query.items), np.int64)
        # In units of the bound and of the largest root: prices are found by doubling and halving.
        count, branches = best_partition(
            tables.roots / scale if scale > 0 else tables.roots,
            tables.floors / problem.query.within,
            tables.spent / problem.query.within,
            most,
            power,
            best,
        )
        if count == 0:
            raise problem.infeasible(self.name, problem.tightest)
        parts = [(int(tables.holders[part]), int(part)) for part in best[:count]]
        return problem.planned(self.name, parts), branches
