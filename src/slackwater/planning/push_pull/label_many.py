"""Multi-client labelling: a table's changes are encoded once and shared by the labelling of every client.

Contract
    `label_client` costs what `exact(encode(…))` costs for the queries of the client and all that changes, and what it
    pushes costs no more under that workload. With a limit it keeps the promises of `memory.within_rows`.

Design
    `Activity` is the table's part: the places where something changed or is stored, what happened there, and a tree
    over them (`kernels.kd_tree`). Its axes know the values of rows alone; ends of ranges fall on them or between
    them, which is all that decides. `Footprint` is a query's part, and the same for all clients that ask it. Left for
    a client: find the places its queries touch, through the tree, and label these. A place that no query of this
    client touches is PULL and costs nothing; a row that moves there from a touched place is an update of that place.

    Conditions on columns that are not planned by are dropped from a query: it then touches more, and is answered at
    home only where all of that is pushed.

    What is pushed is written compactly. Should it need more boxes than labels may have, the queries that were asked
    least are given up, half of them at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from slackwater.core.errors import AlgebraError
from slackwater.core.extent import Categories, Missing
from slackwater.core.labels import is_pushable
from slackwater.core.region import Box, Region, Side
from slackwater.kernels.box_coverage import weight_at
from slackwater.kernels.group_rows import group
from slackwater.kernels.kd_tree import halve, held
from slackwater.planning.push_pull.axis import Axis
from slackwater.planning.push_pull.base import Flags, Floats, Integers, Moves, Queries, Workload
from slackwater.planning.push_pull.compact import compact
from slackwater.planning.push_pull.cost_models import Pricing
from slackwater.planning.push_pull.encoding import Changed, Stored, tallied
from slackwater.planning.push_pull.exact import exact
from slackwater.planning.push_pull.memory import trimmed, within_rows


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """A query on the axes of an activity: its boxes as they were written, and in coordinates."""

    boxes: tuple[Box, ...]
    columns: frozenset[str]
    lows: Integers
    highs: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """A query of a client, `times` over; a count that a cache reports for a region is so many queries for it."""

    footprint: Footprint
    price: float = 1.0
    times: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Activity:
    """Changes and stored rows of a table in coordinates, shared by every client."""

    axes: tuple[Axis, ...]
    pricing: Pricing
    places: Integers
    push: Floats
    sizes: Floats
    rows: Integers
    moves: Moves
    moves_of: tuple[Integers, Integers]
    tree: tuple[Integers, Integers, Integers]

    @classmethod
    def of(
        cls, columns: Sequence[str], changed: Sequence[Changed], stored: Sequence[Stored], pricing: Pricing
    ) -> "Activity":
        """Write all that happens to a table in coordinates of these columns."""
        counted = tallied(columns, changed, stored, pricing)
        values = [[value for value in own if value is not None] for own in zip(*counted.places, strict=True)]
        axes = tuple(Axis.of(*pair) for pair in zip(columns, values or [[] for _ in columns], strict=True))
        places, moves = counted.coordinates(axes), counted.moves
        # A move is listed at both of its places, once by its number and once by that and how many there are.
        moves_of = group(np.concatenate((moves.places[:, 0], moves.places[:, 1])), len(places))
        none = np.zeros((0, len(columns)), np.int64)
        tree = halve(places) if len(places) else (np.zeros((0, 2), np.int64), none, none)
        return cls(axes, pricing, places, counted.push, counted.sizes, counted.rows, moves, moves_of, tree)

    def footprint(self, region: Region) -> Footprint:
        """A query on these axes."""
        known = {axis.column for axis in self.axes}
        boxes = tuple(
            box if known.issuperset(box.columns) else Box(tuple(side for side in box.sides if side.column in known))
            for box in region
        )
        ends = [
            ranges for box in boxes for ranges in product(*(axis.ranges(box.extent(axis.column)) for axis in self.axes))
        ]
        both = np.array(ends, np.int64).reshape(len(ends), len(self.axes), 2)
        columns = frozenset(column for box in boxes for column in box.columns)
        return Footprint(boxes, columns, both[:, :, 0].copy(), both[:, :, 1].copy())


@dataclass(frozen=True, slots=True, eq=False)
class ClientPlan:
    """Labels of a client: pushed boxes, the columns of the cut, the cost, its lower bound and the rows held."""

    attributes: tuple[str, ...]
    pushed: Region
    cost: float
    at_least: float
    rows: int


def label_client(activity: Activity, demands: Sequence[Demand], limit: int | None = None) -> ClientPlan:
    """Label what one client asks for, at the least cost, within `limit` rows where one is given."""
    asked: frozenset[str] = frozenset().union(*(demand.footprint.columns for demand in demands))
    # Where data have a price a single place can be worth pushing, and the columns that distinguish it matter.
    every = activity.pricing.rate() > 0
    chosen = [k for k, axis in enumerate(activity.axes) if every or axis.column in asked] or [0]
    attributes = tuple(activity.axes[k].column for k in chosen)
    workload, rows = _workload(activity, demands, chosen)
    labels = exact(workload) if limit is None else within_rows(workload, rows, limit)
    at_least = labels.cost if limit is None else labels.at_least
    home, push = ~workload.pulled_queries(labels.push), trimmed(workload, labels.push)
    while True:
        try:
            pushed = compact(_boxes(activity, demands, chosen, workload, home, push))
            if is_pushable(pushed):
                break
            raise AlgebraError("more boxes than labels may have")
        except AlgebraError:
            home = _fewer(workload, home)
            push = _needed(workload, home)
    return ClientPlan(attributes, pushed, workload.cost(push), at_least, int(rows[push].sum()))


def _workload(activity: Activity, demands: Sequence[Demand], chosen: Sequence[int]) -> tuple[Workload, Integers]:
    """The places that a client's queries touch, and the rows at each."""
    counts = [len(demand.footprint.lows) for demand in demands]
    none = np.zeros((0, len(activity.axes)), np.int64)
    lows = np.concatenate([none, *(demand.footprint.lows for demand in demands)])
    highs = np.concatenate([none, *(demand.footprint.highs for demand in demands)])
    touched = held(lows, highs, *activity.tree) if len(activity.places) else np.zeros(0, np.int64)

    own, joined = activity.places[touched][:, chosen], np.arange(len(touched))
    if not activity.pricing.rate():
        own, joined = _joined(own, lows[:, chosen], highs[:, chosen])
    alone = np.bincount(joined, activity.push[touched], len(own)).astype(np.float64)
    push, moves = _moves(activity, touched, joined, alone)

    pricing = activity.pricing
    times = np.array([demand.times for demand in demands], np.float64)
    setup = np.array([pricing.setup(demand.price) for demand in demands], np.float64) * times
    owners = np.repeat(np.arange(len(demands)), counts)
    queries = Queries(setup, owners, lows[:, chosen], highs[:, chosen])
    transfer = np.zeros(len(own))
    if pricing.rate():
        weight = weight_at(owners, queries.lows, queries.highs, own, times * pricing.rate())
        transfer = weight * np.bincount(joined, activity.sizes[touched], len(own))
    rows = np.bincount(joined, activity.rows[touched], len(own)).astype(np.int64)
    return Workload(queries, own, push, transfer, moves), rows


def _joined(places: Integers, lows: Integers, highs: Integers) -> tuple[Integers, Integers]:
    """One place for all that no end of a query parts, and the number of it for each: such places have one label.

    (Their data have no price here; see `partition.intervals_of_interest`.)
    """
    cell = np.zeros(len(places), np.int64)
    for axis in range(places.shape[1]):
        cuts = np.union1d(lows[:, axis], highs[:, axis] + 1)
        # Numbers are made dense at each axis, so that they stay small in any number of them.
        cell = cell * (len(cuts) + 1) + np.searchsorted(cuts, places[:, axis], "right")
        _, first, cell = np.unique(cell, return_index=True, return_inverse=True)
    return places[first], cell


def _moves(activity: Activity, touched: Integers, joined: Integers, push: Floats) -> tuple[Floats, Moves]:
    """The moves between touched places; those that stay in one or go elsewhere are updates, added to `push`."""
    order, starts = activity.moves_of
    counts = starts[touched + 1] - starts[touched]
    if not counts.sum():
        return push, Moves.none()
    offsets = np.repeat(starts[touched] - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
    listed = order[np.arange(len(offsets)) + offsets]
    number = np.full(len(activity.places), -1)
    number[touched] = joined
    moves = activity.moves
    # A move stands in the list of both its places; where both are touched the first one counts.
    from_list = listed < len(moves)
    listed = listed % len(moves)
    listed = listed[from_list | (number[moves.places[listed, 0]] < 0)]
    costs, ends = moves.costs[listed], number[moves.places[listed]]
    out, to = ends[:, 0], ends[:, 1]
    between = (out >= 0) & (to >= 0) & (out != to)
    push = push + np.bincount(np.maximum(out, to)[~between], costs[~between], len(push))
    pairs, summed = np.unique(out[between] * len(push) + to[between], return_inverse=True)
    return push, Moves(
        np.stack(np.divmod(pairs, len(push)), axis=1),
        np.bincount(summed, costs[between], len(pairs)).astype(np.float64),
    )


def _boxes(
    activity: Activity, demands: Sequence[Demand], chosen: Sequence[int], workload: Workload, home: Flags, push: Flags
) -> list[Box]:
    """Boxes to push: queries that are answered at home, and places that pay by themselves."""
    boxes = [box for demand, own in zip(demands, home, strict=True) if own for box in demand.footprint.boxes]
    if not workload.transfer.any():
        return boxes
    for place in workload.places[push & ~_needed(workload, home) & (workload.transfer > 0)]:
        sides = []
        for k, coordinate in zip(chosen, place, strict=True):
            value = activity.axes[k].value(int(coordinate))
            sides.append(Side(activity.axes[k].column, Missing() if value is None else Categories(frozenset({value}))))
        boxes.append(Box.of(*sides))
    return boxes


def _needed(workload: Workload, home: Flags) -> Flags:
    """The places of the queries that are answered at home."""
    queries = workload.queries
    return weight_at(queries.owners, queries.lows, queries.highs, workload.places, home.astype(np.float64)) > 0


def _fewer(workload: Workload, home: Flags) -> Flags:
    """The half of the queries answered at home that matter most."""
    setup = np.where(home, workload.queries.setup, -1.0)
    kept = np.zeros(len(home), np.bool_)
    kept[np.argsort(-setup, kind="stable")[: np.count_nonzero(home) // 2]] = True
    return kept
