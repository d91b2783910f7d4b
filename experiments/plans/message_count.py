"""Message counter: the messages of a plan on a trace, each part sent when its value leaves its bound."""

from collections.abc import Sequence

import numpy as np

from experiments.plans.pushes import count_pushes
from experiments.plans.traces import Trace
from slackwater.planning.aggregation import NetworkPlan


def sum_messages(trace: Trace, items: Sequence[str], weights: Sequence[float], within: float) -> int:
    """Messages of one weighted sum kept within a bound."""
    course = trace.values[:, trace.columns(items)] @ np.array(weights)
    return count_pushes(course, within)


def plan_messages(trace: Trace, plan: NetworkPlan) -> int:
    """Messages to the client of all parts."""
    return sum(sum_messages(trace, part.items, part.weights, part.within) for part in plan.parts)
