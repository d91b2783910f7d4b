"""Region workload: places merged into regions that share one label.

A partition cuts every attribute into pieces; regions are the products of pieces. Pieces are given by where they begin,
in coordinates. The coarser workload has the pieces as its coordinates and the regions with places as its places, so
every labeller works on it unchanged; `spread` carries its labels back. A move within one region is an update of it.

- `intervals_of_interest`: cut where any query begins or ends. Nothing is lost in M1 and M2.
- `equal_width`, `equal_height`: a number of pieces for each attribute, by value or by events. In general something is
  lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.core.errors import PlanningError
from slackwater.planning.push_pull.base import Floats, Integers, Labelling, Moves, Queries, Workload


@dataclass(frozen=True, slots=True, eq=False)
class Partitioned:
    """A coarser workload, and the region of every place of the finer one."""

    fine: Workload
    coarse: Workload
    region: Integers

    def spread(self, labels: Labelling) -> Labelling:
        """The labels of the regions as labels of their places; never dearer for the finer workload."""
        return Labelling.of(self.fine, labels.push[self.region])


def partition(workload: Workload, begins: Sequence[Integers]) -> Partitioned:
    """Cut attribute a where pieces begin by `begins[a]`, in order; what lies before the first is a piece too."""
    if len(begins) != workload.axes:
        raise PlanningError(f"there are {workload.axes} attributes to cut, not {len(begins)}")
    queries = workload.queries

    def pieces(coordinates: Integers) -> Integers:
        columns = [np.searchsorted(cuts, coordinates[:, axis], "right") for axis, cuts in enumerate(begins)]
        return np.stack(columns, axis=1).astype(np.int64)

    places, region = np.unique(pieces(workload.places), axis=0, return_inverse=True)
    region = region.reshape(-1)
    moved = region[workload.moves.places]
    within = moved[:, 0] == moved[:, 1]
    push = np.bincount(region, workload.push, len(places)) + np.bincount(
        moved[within, 0], workload.moves.costs[within], len(places)
    )
    coarse = Workload(
        Queries(queries.setup, queries.owners, pieces(queries.lows), pieces(queries.highs)),
        places,
        push.astype(np.float64),
        np.bincount(region, workload.transfer, len(places)).astype(np.float64),
        Moves(moved[~within], workload.moves.costs[~within]),
    )
    return Partitioned(workload, coarse, region)


def intervals_of_interest(workload: Workload) -> list[Integers]:
    """Cut where queries begin and just after they end."""
    queries = workload.queries
    return [np.union1d(queries.lows[:, axis], queries.highs[:, axis] + 1) for axis in range(workload.axes)]


def equal_width(workload: Workload, count: int, values: Sequence[Floats] | None = None) -> list[Integers]:
    """Cut into `count` pieces of equal width.

    `values[a][c]` is the value of coordinate c of attribute a, not falling; without it a coordinate is its own value.
    A cut goes between two coordinates, the nearest to where it should be.
    """
    begins = []
    for axis in range(workload.axes):
        low, high = _span(workload, axis)
        if values is None:
            cuts = low + np.ceil((high + 1 - low) * np.arange(1, count) / count).astype(np.int64)
        else:
            known = values[axis]
            edges = known[0] + (known[-1] - known[0]) * np.arange(1, count) / count
            cuts = np.searchsorted(known, edges)
        begins.append(np.unique(cuts))
    return begins


def equal_height(workload: Workload, count: int) -> list[Integers]:
    """Cut into at most `count` pieces with the same number of events each: places, and ends of queries."""
    begins = []
    for axis in range(workload.axes):
        queries = workload.queries
        events = np.sort(np.concatenate((workload.places[:, axis], queries.lows[:, axis], queries.highs[:, axis] + 1)))
        picked = events[(np.arange(1, count) * len(events)) // count] if len(events) else events
        begins.append(np.unique(picked))
    return begins


def _span(workload: Workload, axis: int) -> tuple[int, int]:
    queries = workload.queries
    low = min((int(array[:, axis].min()) for array in (workload.places, queries.lows) if len(array)), default=0)
    high = max((int(array[:, axis].max()) for array in (workload.places, queries.highs) if len(array)), default=0)
    return low, high
