"""Exhaustive planner: a look at every partition, the test oracle of `exact`. 8 items have 4140 partitions."""

from collections.abc import Iterator
from dataclasses import dataclass

from slackwater.kernels.subsets import least_total_plainly
from slackwater.kernels.waterfilling import share_out_plainly
from slackwater.planning.aggregation.base import NetworkPlan
from slackwater.planning.aggregation.problem import Problem


def partitions(whole: int) -> Iterator[tuple[int, ...]]:
    """Every way to cut a set into parts.

    >>> sorted(partitions(0b11))
    [(1, 2), (3,)]
    """
    if whole == 0:
        yield ()
        return
    low = whole & -whole
    others = some = whole ^ low
    while True:
        for rest in partitions(others ^ some):
            yield (low | some, *rest)
        if some == 0:
            return
        some = (some - 1) & others


@dataclass(frozen=True, slots=True)
class Exhaustive:
    """Plans small queries by trying everything."""

    name: str = "exhaustive"

    def __call__(self, problem: Problem) -> NetworkPlan:
        """Plan a query."""
        problem.check_offered()
        rows = problem.floors.tolist()
        held = {}
        for part in range(1, problem.whole + 1):
            floor, offer = least_total_plainly(rows, problem.members(part))
            if offer >= 0:
                held[part] = (offer, problem.root(part), floor, *problem.taken(offer, part))
        best: tuple[float, tuple[int, ...], list[float]] | None = None
        for parts in partitions(problem.whole):
            if not all(part in held for part in parts):
                continue
            _, roots, floors, spent, most = zip(*(held[part] for part in parts), strict=True)
            shared = share_out_plainly(roots, floors, spent, most, problem.model.exponent, problem.query.within)
            if shared is not None and (best is None or shared[0] < best[0]):
                best = shared[0], parts, shared[1]
        if best is None:
            raise problem.infeasible(self.name, problem.tightest)
        return problem.plan(self.name, [(held[part][0], part) for part in best[1]], best[2])
