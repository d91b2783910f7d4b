"""Between standing queries and planned sums: an aggregate as a `SumQuery`, and a plan as the `core.plan.Plan` of it.

A weighted SUM, or an AVG over listed items, is a sum of items with weights. An item is named by the key of its row.
"""

from collections.abc import Sequence
from dataclasses import replace

from slackwater.core.bound import Bound
from slackwater.core.errors import PlanningError
from slackwater.core.plan import Plan, PlanPart
from slackwater.core.query import Aggregate, AggregateFunction, QueryId, Weight
from slackwater.core.types import Key, Position
from slackwater.planning.aggregation.base import NetworkPlan, SumQuery


def item_name(key: Key) -> str:
    """An item's name in statistics and offers.

    >>> item_name(("IBM",)), item_name((3, "NYSE"))
    ('IBM', '3/NYSE')
    """
    return "/".join(map(str, key))


def as_sum(aggregate: Aggregate) -> SumQuery:
    """The sum that is to be planned."""
    if aggregate.function is not AggregateFunction.SUM or aggregate.weights is None:
        raise PlanningError(
            f"a plan over aggregators is for a SUM whose items are listed with weights, and this is "
            f"{aggregate.function.value}{'' if aggregate.weights else ' without a list'}: write "
            f"SUM(weight * {aggregate.column}) with a VALUES list"
        )
    counting = [weight for weight in aggregate.weights if weight.factor != 0]
    return SumQuery(
        tuple(item_name(weight.key) for weight in counting),
        tuple(weight.factor * aggregate.scale for weight in counting),
        aggregate.bound.within,
    )


def as_plan(query_id: QueryId, aggregate: Aggregate, plan: NetworkPlan, *, epoch: int, takes_effect: Position) -> Plan:
    """The plan as nodes and `EXPLAIN` know it: each part is the same aggregate over fewer items, with its own bound."""
    weights = {item_name(weight.key): weight for weight in aggregate.weights or ()}
    parts = tuple(
        PlanPart(
            part.aggregator,
            replace(
                aggregate,
                bound=Bound(part.within, aggregate.bound.fidelity),
                weights=_ordered([weights[item] for item in part.items], aggregate.weights or ()),
            ),
            part.messages,
        )
        for part in plan.parts
    )
    return Plan(query_id, aggregate, epoch, takes_effect, parts)


def _ordered(some: Sequence[Weight], every: Sequence[Weight]) -> tuple[Weight, ...]:
    """Weights stand in the order of their keys, which the whole query has already."""
    return tuple(weight for weight in every if weight in some)
