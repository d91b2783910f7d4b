"""Greedy attribute selection: the attributes to cut the space along, the most useful first.

Dropping an attribute leaves every region whole along it: a query touches all places that agree with it in the
attributes that are kept. So a labelling with fewer attributes is one of those with more, and its cost is never lower;
what is won is fewer and simpler regions. An attribute is added while it lowers the cost by more than a share `worth`
of it.
"""

from dataclasses import dataclass

import numpy as np

from slackwater.core.errors import PlanningError
from slackwater.planning.push_pull.base import Integers, Labeller, Labelling, Workload
from slackwater.planning.push_pull.partition import Partitioned, partition


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The attributes in the order in which they were chosen, the cost after each, and the labels of the places."""

    axes: tuple[int, ...]
    costs: tuple[float, ...]
    labels: Labelling


def only(workload: Workload, axes: tuple[int, ...]) -> Partitioned:
    """The workload with the other attributes in one piece each."""
    nowhere = np.zeros(0, np.int64)
    begins: list[Integers] = []
    for axis in range(workload.axes):
        ends = (workload.places[:, axis], workload.queries.lows[:, axis], workload.queries.highs[:, axis] + 1)
        begins.append(np.unique(np.concatenate(ends)) if axis in axes else nowhere)
    return partition(workload, begins)


def choose_attributes(workload: Workload, labeller: Labeller, most: int | None = None, worth: float = 0.01) -> Chosen:
    """Add one attribute after the other while it pays, at most so many."""
    if not 0 <= worth < 1:
        raise PlanningError(f"what an attribute must be worth is a share of the cost below 1, not {worth}")
    parted = only(workload, ())
    labels = labeller(parted.coarse)
    best = Labelling(labels.push[parted.region], labels.cost)
    axes: tuple[int, ...] = ()
    costs = [best.cost]
    while len(axes) < (workload.axes if most is None else most):
        tried = []
        for axis in range(workload.axes):
            if axis not in axes:
                parted = only(workload, (*axes, axis))
                labels = labeller(parted.coarse)
                tried.append((labels.cost, axis, labels.push[parted.region]))
        if not tried:
            break
        cost, axis, push = min(tried, key=lambda one: one[:2])
        if cost >= best.cost * (1 - worth):
            break
        axes, best = (*axes, axis), Labelling(push, cost)
        costs.append(cost)
    return Chosen(axes, tuple(costs), best)
