"""Conversion of a standing aggregate into a `SumQuery`.

A weighted SUM, or an AVG over listed items, is a sum of items with weights. An item is named by the key of its row.
"""

from slackwater.core.errors import PlanningError
from slackwater.core.query import Aggregate, AggregateFunction
from slackwater.core.types import Key
from slackwater.planning.aggregation.base import SumQuery


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
