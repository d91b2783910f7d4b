"""Trial run: the pulls of a query at its own and at neighbouring bounds and fidelities, on a sampled past.

The scheduler itself is run over a past of the query's items (`history_sampling`), once for each bound and fidelity. For
each fidelity the law of `forecast` is fitted through the runs, which smooths out some of their randomness: the forecast
falls with the bound. Runs at the floor of TTRmax, or with every item at every tick, carry no information about the law;
where fewer than two are left, the forecast is the run itself. A higher fidelity never needs fewer pulls: where random
runs violate that, neighbours get their mean.

*The first price.* A tick outside the bound has a price that feedback finds in the course of time (`prices`). On a past
it can be found before: by halving, so that the fidelity comes out that is desired. It is only ever raised: a bound that
was broken is worse than a pull too many, and the past is short.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.bound import Bound
from slackwater.core.errors import PlanningError
from slackwater.planning.pulling.base import LONGEST, PullQuery
from slackwater.planning.pulling.forecast import Forecast, strength
from slackwater.planning.pulling.history_sampling import Past
from slackwater.planning.pulling.model_constants import FIRST_PRICE
from slackwater.planning.pulling.simulation import run_uncertainty

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
FIDELITIES = (0.90, 0.95, 0.98, 0.99, 0.995)
_FLOOR, _CEILING = 1.1, 0.95
_LOWEST, _HIGHEST, _HALVINGS = 0.0, 6.0, 6


@dataclass(frozen=True, slots=True)
class PullTrial:
    """Pulls a tick: a row for each bound, a number for each fidelity."""

    bounds: tuple[float, ...]
    fidelities: tuple[float, ...]
    pulls: tuple[tuple[float, ...], ...]
    least: float
    most: float

    def at(self, within: float, fidelity: float) -> float:
        """Pulls a tick at one of the bounds and fidelities."""
        return self.pulls[self.bounds.index(within)][self.fidelities.index(fidelity)]


def run_trial(
    query: PullQuery,
    past: Past,
    *,
    costs: Sequence[float] | None = None,
    longest: int = LONGEST,
    factors: Sequence[float] = FACTORS,
    fidelities: Sequence[float] = FIDELITIES,
) -> PullTrial:
    """Try a query, whose items are the columns of the past, alone."""
    within = query.bound.within
    count = len(query.items)
    wanted = tuple(sorted({*fidelities, query.bound.fidelity}))
    bounds = tuple(sorted({within * factor for factor in factors} | {within}))
    deviations = np.sqrt(np.mean(np.diff(past.trace[past.warm :], axis=0) ** 2, axis=0)).tolist()
    rows: list[list[float]] = [[] for _ in bounds]
    for fidelity in wanted:
        asked = [replace(query, bound=Bound(bound, fidelity)) for bound in bounds]
        found = [pulls_a_tick([each], past, costs=costs, longest=longest)[0] for each in asked]
        inside = [
            (strength(each, deviations), pulls)
            for each, pulls in zip(asked, found, strict=True)
            if each.bound.within > 0 and _FLOOR * count / longest < pulls < _CEILING * count
        ]
        if len(inside) >= 2:
            law = Forecast.fit([moved for moved, _ in inside], [pulls for _, pulls in inside], longest)
            found = [law.pulls(each, deviations) for each in asked]
        for row, pulls in zip(rows, found, strict=True):
            row.append(pulls)
    return PullTrial(bounds, wanted, tuple(tuple(rising(row)) for row in rows), count / longest, float(count))


def rising(figures: Sequence[float]) -> list[float]:
    """The nearest figures, by squares, that never fall: neighbours that do share their mean.

    >>> rising([1.0, 5.0, 3.0, 9.0])
    [1.0, 4.0, 4.0, 9.0]
    """
    pools: list[tuple[float, int]] = []
    for figure in figures:
        pool = (figure, 1)
        while pools and pools[-1][0] > pool[0]:
            mean, count = pools.pop()
            pool = ((mean * count + pool[0] * pool[1]) / (count + pool[1]), count + pool[1])
        pools.append(pool)
    return [mean for mean, count in pools for _ in range(count)]


def pulls_a_tick(
    queries: Sequence[PullQuery], past: Past, *, costs: Sequence[float] | None = None, longest: int = LONGEST
) -> list[float]:
    """How often a tick the items of each query would be pulled if all these queries stood together."""
    if not all(query.linear for query in queries):
        raise PlanningError("only weighted sums can be tried on the past, not MIN and MAX")
    pulls = run_uncertainty(queries, past.trace, past.warm, costs=costs, longest=longest).pulls
    return [float(pulls[list(query.items)].sum()) / past.ticks for query in queries]


def first_price(query: PullQuery, past: Past, *, costs: Sequence[float] | None = None, longest: int = LONGEST) -> float:
    """The logarithm of the price that would have met the fidelity, over the one that is guessed without a past."""
    if not query.linear:
        return 0.0
    mean = 1.0 if costs is None else sum(costs) / len(costs)
    guess = FIRST_PRICE * mean / (1.0 - query.bound.fidelity)
    low, high = _LOWEST, _HIGHEST
    middle = low
    for _ in range(_HALVINGS + 1):
        price = guess * math.exp(middle)
        found = run_uncertainty([query], past.trace, past.warm, costs=costs, longest=longest, price=price)
        low, high = (middle, high) if float(found.fidelity[0]) < query.bound.fidelity else (low, middle)
        if high == _LOWEST:
            break
        middle = 0.5 * (low + high)
    return high
