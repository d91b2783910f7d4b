"""Plannable queries: the test, and the normal form in which they are planned.

A SUM over listed items, with or without weights, that is to hold always within a bound above 0. Its rows are listed
by keys alone: whether a condition on another column holds, an aggregator does not know exactly. Not an AVG: how many
rows there are may change, and then it is no sum with fixed weights. Not a single item: there is nothing to cut, and
aggregators themselves ask for single items. Not with numbers so large or so small that their squares are none any more.
"""

from dataclasses import replace

from slackwater.core.query import Aggregate, AggregateFunction, StandingQuery, Weight
from slackwater.core.region import EVERYTHING
from slackwater.core.region_keys import keys_in, may_hold
from slackwater.core.schema import TableSchema
from slackwater.kinds.aggregate.kind import as_aggregate
from slackwater.planning.aggregation.sum_query import item_name

LEAST_ITEMS, MOST_ITEMS = 2, 256
LEAST, MOST = 1e-100, 1e100
"""Of bounds, and of weights without their sign: planners square both, and put one over the other."""


def plannable(asked: StandingQuery, schema: TableSchema) -> Aggregate | None:
    """The same sum with a weight for each of its items and no condition; None where it is not for a network."""
    query = as_aggregate(asked)
    if query is None or query.function is not AggregateFunction.SUM:
        return None
    if (
        not query.bound.always
        or not LEAST <= query.bound.within <= MOST
        or query.scale == 0
        or query.column in schema.key
    ):
        return None
    if {name for box in query.region for name in box.columns} - set(schema.key):
        return None
    if query.weights is not None:
        listed = [one for one in query.weights if one.factor != 0 and may_hold(query.region, one.key, schema)]
    else:
        keys = keys_in(query.region, schema) if query.region != EVERYTHING else None
        if keys is None or len(keys) > MOST_ITEMS:
            return None
        listed = [Weight(key, 1.0) for key in sorted(keys)]
    if not all(LEAST <= abs(one.factor * query.scale) <= MOST for one in listed):
        return None
    names = {item_name(one.key) for one in listed}
    if not LEAST_ITEMS <= len(listed) <= MOST_ITEMS or len(names) != len(listed):
        return None
    return replace(query, region=EVERYTHING, weights=tuple(listed))
