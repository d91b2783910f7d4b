"""Random networks and queries, drawn as in the paper.

25 aggregators with up to 10 of 25 items each, 500 queries of up to 10 items with weights 2–10. The paper's bounds are
in dollars of 2007 and ticks of seconds; ours are in a *unit* that makes the two comparable: the one in which optc at
C = 0.8 takes as large a part of the ticks as it did there (1024 messages for a query in traces of about 10 000
ticks).
"""

from collections.abc import Callable, Sequence

import numpy as np

from experiments.plans.message_count import plan_messages, sum_messages
from experiments.plans.traces import Trace
from slackwater.planning.aggregation import CostModel, Dynamics, Offer, OptC, Problem, SumQuery

PUBLISHED_SHARE = 0.1024
"""Messages of optc at C = 0.8 for each tick."""


def draw_offers(
    generator: np.random.Generator,
    items: Sequence[str],
    *,
    aggregators: int = 25,
    most: int = 10,
    tight: float = 0.005,
    loose: float = 0.02,
) -> tuple[Offer, ...]:
    """Each aggregator has 1 to `most` items within a bound between `tight` and `loose`; every item is somewhere."""
    held: list[set[str]] = []
    for _ in range(aggregators):
        count = int(generator.integers(1, most + 1))
        held.append({str(item) for item in generator.choice(items, count, replace=False)})
    for item in items:
        if not any(item in some for some in held):
            held[int(generator.integers(aggregators))].add(item)
    return tuple(
        Offer(f"D{number + 1}", {item: float(generator.uniform(tight, loose)) for item in sorted(some)})
        for number, some in enumerate(held)
    )


def draw_queries(
    generator: np.random.Generator, items: Sequence[str], *, count: int = 500, least: int = 1, most: int = 10
) -> tuple[SumQuery, ...]:
    """Queries of `least` to `most` items within 1; the experiments set their bounds."""
    queries = []
    for _ in range(count):
        size = int(generator.integers(least, most + 1))
        chosen = tuple(sorted(str(item) for item in generator.choice(items, size, replace=False)))
        queries.append(SumQuery(chosen, tuple(generator.uniform(2.0, 10.0, size).tolist()), 1.0))
    return tuple(queries)


def rescaled(offers: Sequence[Offer], unit: float) -> tuple[Offer, ...]:
    """The same offers in other units."""
    return tuple(
        Offer(offer.aggregator, {item: unit * bound for item, bound in offer.within.items()}) for offer in offers
    )


def published_unit(trace: Trace, dynamics: Dynamics, model: CostModel, queries: Sequence[SumQuery]) -> float:
    """The unit in which optc at C = 0.8 takes the published share of the ticks."""
    free = (Offer("free", dict.fromkeys(trace.items, 0.0)),)

    def taken(unit: float) -> int:
        asked = (SumQuery(query.items, query.weights, 0.8 * unit) for query in queries)
        return sum(plan_messages(trace, OptC()(Problem(query, free, dynamics, model))) for query in asked)

    return _unit(taken, PUBLISHED_SHARE * len(trace.values) * len(queries))


def sum_unit(trace: Trace, queries: Sequence[SumQuery]) -> float:
    """The unit in which the queries as one sum each, at C = 0.8, take that share."""

    def taken(unit: float) -> int:
        return sum(sum_messages(trace, query.items, query.weights, 0.8 * unit) for query in queries)

    return _unit(taken, PUBLISHED_SHARE * len(trace.values) * len(queries))


def _unit(taken: Callable[[float], int], wanted: float) -> float:
    """Halve until as much is taken as is wanted; the larger the unit, the less."""
    low, high = 1e-4, 1e6
    for _ in range(24):
        unit = float(np.sqrt(low * high))
        low, high = (unit, high) if taken(unit) > wanted else (low, unit)
    return high
