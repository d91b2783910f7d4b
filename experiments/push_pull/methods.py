"""Method comparison: every labelling method on one workload."""

from collections.abc import Callable, Mapping

from slackwater.planning.push_pull.base import Workload
from slackwater.planning.push_pull.exact import exact
from slackwater.planning.push_pull.partition import equal_width, intervals_of_interest, partition
from slackwater.planning.push_pull.published.buckets import buckets
from slackwater.planning.push_pull.published.equi_height import equi_height
from slackwater.planning.push_pull.published.mnaive import mnaive
from slackwater.planning.push_pull.published.naive import naive
from slackwater.planning.push_pull.published.prop import prop
from slackwater.planning.push_pull.published.uniform import uniform

GRID = 100
"""Pieces along each attribute of the grid to which the exact method is snapped for comparison."""

METHODS: Mapping[str, Callable[[Workload], float]] = {
    "exact": lambda workload: exact(workload).cost,
    "exact on a grid": lambda workload: exact(partition(workload, equal_width(workload, GRID)).coarse).cost,
    "UNIFORM": lambda workload: uniform(workload).cost,
    "NAIVE": lambda workload: naive(_interest(workload)).cost,
    "MNAIVE": lambda workload: mnaive(_interest(workload)).cost,
    "PROP": lambda workload: prop(_interest(workload)).cost,
    "BUCKETS": lambda workload: buckets(workload).cost,
    "equi-height": lambda workload: equi_height(workload).cost,
}


def _interest(workload: Workload) -> Workload:
    return partition(workload, intervals_of_interest(workload)).coarse


def costs(workload: Workload) -> dict[str, float]:
    """Cost of each method."""
    return {name: method(workload) for name, method in METHODS.items()}
