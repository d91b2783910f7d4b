"""Item-list detection: the listed items of an aggregate, by weights or by a condition on the key alone.

`WHERE room IN ('a', 'b')` on a table with the key `room` names its rows as a list of weights does, and is kept the
same way: no index over regions, no rows entering and leaving.
"""

import numpy as np

from slackwater.core.extent import Categories, Extent, Interval
from slackwater.core.query import Aggregate
from slackwater.core.region import EVERYTHING
from slackwater.core.types import Key, Scalar
from slackwater.processing.base import Floats, Integers, Latest
from slackwater.processing.regions.typed_extents import fitted


def listed(query: Aggregate, latest: Latest) -> tuple[Integers, Floats] | None:
    """The slots of the items and by how much each counts, or None where a query does not list them."""
    keys: list[Key]
    if query.weights is not None:
        if query.region != EVERYTHING:
            return None
        keys = [weight.key for weight in query.weights]
        factors = query.scale * np.array([weight.factor for weight in query.weights])
    else:
        named = _named(query, latest)
        if named is None:
            return None
        keys = [(value,) for value in named]
        factors = np.full(len(keys), query.scale)
    return latest.slots_of(keys), factors


def _named(query: Aggregate, latest: Latest) -> list[Scalar] | None:
    """The keys that a condition names, in order."""
    table = latest.schema
    if len(table.key) != 1 or len(query.region.boxes) != 1:
        return None
    sides = query.region.boxes[0].sides
    if len(sides) != 1 or sides[0].column != table.key[0]:
        return None
    values = _values(fitted(sides[0].extent, table.column(table.key[0]).type))
    return None if values is None else sorted(values)  # of one type, as the check of queries sees to


def _values(extent: Extent | None) -> list[Scalar] | None:
    match extent:
        case None:
            return []
        case Categories(values, complement=False):
            return list(values)
        case Interval(low, high) if low is not None and low == high:
            return [low]
    return None
