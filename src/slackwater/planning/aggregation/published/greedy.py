"""Greedy partition: the best part that an aggregator can serve of the items left, again and again.

Which is best is what the planners differ in. Aggregators that could serve the same items differ only in how closely:
the closest stands for all of them. A tie goes to the part with the lower floor for each of its items, then to the
first aggregator.

References
    R. Gupta, K. Ramamritham, Optimized query planning of continuous aggregation queries in dynamic data
    dissemination networks, WWW 2007, sections 4.2 and 4.3.
"""

from collections.abc import Callable
from typing import TypeAlias

from slackwater.planning.aggregation.problem import Problem

Score: TypeAlias = Callable[[int, float], float]
"""Of a part and its floor X: the lower, the better."""


def greedy(problem: Problem, score: Score) -> list[tuple[int, int]]:
    """The parts as (offer, set)."""
    problem.check_offered()
    left = problem.whole
    chosen = []
    while left:
        candidates = {held & left for held in problem.held} - {0}
        rated = []
        for part in candidates:
            offer, floor = problem.holder(part)
            size = part.bit_count()
            rated.append((score(part, floor), floor / size, offer, part))
        _, _, offer, part = min(rated)
        chosen.append((offer, part))
        left ^= part
    return chosen


def positive(problem: Problem, root: float) -> float:
    """A root to divide by: of a part that never moves, next to nothing instead of nothing."""
    least = 1e-9 * max((problem.root(1 << place) for place in range(len(problem.query.items))), default=1.0)
    return max(root, least) or 1.0
