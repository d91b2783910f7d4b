"""Bulk workload construction for one number attribute: arrays of ranges and updated values, without a loop over them.

Only the values that are updated get a coordinate here, their rank: what lies between them decides nothing. An open end
is the first rank beyond its value, a closed one the rank of the value itself; −∞ and ∞ are no ends at all.
"""

from dataclasses import dataclass

import numpy as np

from experiments.push_pull.sorted_search import placed, placed_ranges
from slackwater.core.errors import PlanningError
from slackwater.planning.push_pull.base import Flags, Floats, Moves, Queries, Workload


@dataclass(frozen=True, slots=True, eq=False)
class NumberRanges:
    """Ranges of a number attribute, each end closed unless marked open."""

    low: Floats
    high: Floats
    low_open: Flags | None = None
    high_open: Flags | None = None

    def __post_init__(self) -> None:
        if len(self.low) != len(self.high) or np.isnan(self.low).any() or np.isnan(self.high).any():
            raise PlanningError("a range needs two ends that are numbers; −∞ and ∞ stand for none")

    def __len__(self) -> int:
        return len(self.low)


def on_a_line(
    ranges: NumberRanges,
    setup: Floats,
    values: Floats,
    costs: Floats,
    rates: Floats | None = None,
    sizes: Floats | None = None,
) -> Workload:
    """Write queries and updates in ranks; in M3 `rates` is the β of each query and `sizes` the data at each update's
    value.

    Where several updates have one value its data count once: the last size given is taken.
    """
    if len(setup) != len(ranges) or len(costs) != len(values) or np.isnan(values).any():
        raise PlanningError("every range and every updated value has one cost, and a value is a number")
    at, push = _summed(values, costs)
    closed = np.zeros(len(ranges), np.bool_)
    low_open = closed if ranges.low_open is None else ranges.low_open
    high_open = closed if ranges.high_open is None else ranges.high_open
    who, first, last = placed_ranges(at, ranges.low, ranges.high, low_open, high_open)
    queries = Queries(np.asarray(setup, np.float64), who, first[:, None], last[:, None])
    transfer = np.zeros(len(at))
    if rates is not None and sizes is not None:
        size = np.zeros(len(at))
        size[placed(at, values, False)] = sizes
        changes = np.bincount(first, rates[who], len(at) + 1)
        changes -= np.bincount(last + 1, rates[who], len(at) + 1)
        # Differences leave dust where nothing is asked; a cost is never below 0.
        transfer = np.maximum(np.cumsum(changes)[:-1], 0.0) * size
    return Workload(queries, np.arange(len(at))[:, None], push, transfer, Moves.none())


def _summed(values: Floats, costs: Floats) -> tuple[Floats, Floats]:
    """The values in order, each once, and the sum of its costs; counting is enough where all costs are the same."""
    if len(costs) and (costs == costs[0]).all():
        at, counts = np.unique(values, return_counts=True)
        return at, (counts * float(costs[0])).astype(np.float64)
    at = np.unique(values)
    return at, np.bincount(placed(at, values, False), costs, len(at)).astype(np.float64)
