"""Labelling under a memory limit: Lagrangian relaxation of the number of cached rows, then a greedy fill.

Promises
    1. The rows of what is pushed are never more than the limit.
    2. Where the labels of least cost fit, they are the answer.
    3. `Labelling.at_least` is a lower bound for the cost of *every* labelling within the limit. So the distance to the
       best is known for each answer; it is not bounded beforehand, since the problem is as hard as finding the densest
       part of a graph.
    4. With a price p for a row the labels of least cost + p·rows cost no more than any others that hold no more rows
       than they. What is pushed begins with the best such labels within the limit; filling what room is left only
       makes them cheaper.

Mathematics
    For a price p ≥ 0 let L(p) be the least of cost + p·rows over all labellings: an ordinary workload, with p·rows
    added to what pushing a place costs. For every labelling within the limit, cost ≥ cost + p·(rows − limit) ≥ L(p) −
    p·limit. The best p is where two labellings are equally good, one above the limit and one within it; the line
    through a pair of such gives the next p to try, and each trial finds a better pair or ends. So p is what the last
    region that was given up gained for a row.

    The room that is left is filled one query at a time: the one that gains most for a row among those whose missing
    rows fit, other queries that are answered at home by the way counted.
"""

from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.errors import PlanningError
from slackwater.kernels.box_coverage import touching_plainly, weight_at
from slackwater.planning.push_pull.base import Flags, Floats, Integers, Labeller, Labelling, Workload
from slackwater.planning.push_pull.exact import exact

MOST_TRIALS = 100
"""More prices than this are not tried; the bound holds for each of them. Ten is usual."""
MOST_PAIRS = 20_000_000
"""With more pairs of query and place than this the room that is left stays empty: the table of them would not fit."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """Labels, what they cost and how many rows they hold."""

    push: Flags
    cost: float
    rows: float


def trimmed(workload: Workload, push: Flags) -> Flags:
    """Without the PUSH places that no query answered at home needs: this costs no more.

    Where pulling a place transfers data it stays PUSH, since that saves by itself.
    """
    queries = workload.queries
    home = (~workload.pulled_queries(push)).astype(np.float64)
    needed = weight_at(queries.owners, queries.lows, queries.highs, workload.places, home) > 0
    return push & (needed | (workload.transfer > 0))


def within_rows(workload: Workload, rows: Integers, limit: int, labeller: Labeller = exact) -> Labelling:
    """Label so that the PUSH places hold at most `limit` rows; `rows` counts the rows of each.

    The labeller has to be exact.
    """
    if rows.shape != (len(workload.places),) or (rows < 0).any() or limit < 0:
        raise PlanningError("every place holds 0 or more rows, and a limit is 0 or more")

    def point(cost: float, per_rows: float) -> _Point:
        """The best labels where `per_rows` rows are priced at `cost`."""
        push = trimmed(workload, labeller(_priced(workload, rows, cost, per_rows)).push)
        return _Point(push, workload.cost(push), float(rows[push].sum()))

    above = point(0.0, 1.0)
    if above.rows <= limit:
        return Labelling(above.push, above.cost, above.cost)
    # Dearer than all that could be saved: nothing is held.
    within = point(float(workload.queries.setup.sum() + workload.transfer.sum()) + 1.0, 1.0)
    at_least = above.cost
    for _ in range(MOST_TRIALS):
        saved, freed = within.cost - above.cost, above.rows - within.rows
        found, price = point(saved, freed), saved / freed
        least = found.cost + price * found.rows
        at_least = max(at_least, least - price * limit)
        if least >= within.cost + price * within.rows - _ROUNDING * (1 + abs(least)):
            break
        if found.rows <= limit:
            within = found
        else:
            above = found
    push = _filled(workload, rows, within.push, limit - within.rows)
    cost = workload.cost(push)
    return Labelling(push, cost, min(at_least, cost))


def _priced(workload: Workload, rows: Integers, cost: float, per_rows: float) -> Workload:
    """The workload with a price for rows, all costs times `per_rows`: whole numbers stay whole, which flows like."""
    queries, moves = workload.queries, workload.moves
    return Workload(
        replace(queries, setup=queries.setup * per_rows),
        workload.places,
        workload.push * per_rows + cost * rows,
        workload.transfer * per_rows,
        replace(moves, costs=moves.costs * per_rows),
    )


def _filled(workload: Workload, rows: Integers, push: Flags, room: float) -> Flags:
    queries = workload.queries
    if len(queries) * len(workload.places) > MOST_PAIRS:
        return push
    touching = touching_plainly(queries.owners, queries.lows, queries.highs, workload.places, len(queries))
    push = push.copy()
    while True:
        missing = touching & ~push
        missing = missing[missing.any(axis=1)]
        setup = queries.setup[(touching & ~push).any(axis=1)]
        needed = missing @ rows
        fitting = missing[needed <= room]
        if not len(fitting):
            return push
        needed = needed[needed <= room]
        gained = _gained(workload, push, missing, setup, fitting)
        worth = np.where(gained > _ROUNDING, gained / np.maximum(needed, _ROUNDING), 0.0)
        best = int(worth.argmax())
        if worth[best] <= 0:
            return push
        push |= fitting[best]
        room -= float(needed[best])


def _gained(workload: Workload, push: Flags, missing: Flags, setup: Floats, fitting: Flags) -> Floats:
    """What it would save to push the places that each of some queries is missing."""
    each = fitting.astype(np.float64)
    # A query is answered at home when all that it is missing is among what is pushed.
    home = missing.astype(np.float64) @ each.T >= missing.sum(axis=1)[:, None] - 0.5
    gained = setup @ home + each @ (workload.transfer - workload.push)
    moves = workload.moves
    unpaid = ~push[moves.places].any(axis=1)
    out, to = moves.places[unpaid].T
    gained -= (fitting[:, out] | fitting[:, to]) @ moves.costs[unpaid]
    return np.asarray(gained, np.float64)
