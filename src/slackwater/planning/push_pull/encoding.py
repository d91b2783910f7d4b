"""Coordinate encoding of conditions and rows.

Design
    Along every attribute values become coordinates by `axis.py`. Here every value that occurs has one, ends of
    ranges included; `clients.py` does with the values of rows alone.

    Attributes that a box does not mention may be anything, null included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from slackwater.core.errors import PlanningError
from slackwater.core.extent import Categories, Missing
from slackwater.core.region import NOTHING, Box, Region, Side
from slackwater.core.types import Scalar
from slackwater.kernels.box_coverage import weight_at
from slackwater.planning.push_pull.axis import Axis, values_of
from slackwater.planning.push_pull.base import Floats, Integers, Labelling, Moves, Queries, Workload
from slackwater.planning.push_pull.cost_models import Pricing

Row = Mapping[str, Scalar | None]


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, `times` over."""

    region: Region
    price: float = 1.0
    times: int = 1


@dataclass(frozen=True, slots=True)
class Changed:
    """An update of a row that is at `place`, and was at `before` where it has moved; `times` over."""

    place: Row
    before: Row | None = None
    price: float = 1.0
    size: float = 1.0
    times: int = 1


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows of a place that remainder queries have to transfer when it is PULL: how much together, and how many."""

    place: Row
    size: float = 1.0
    rows: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A workload in coordinates, with the way back."""

    workload: Workload
    axes: tuple[Axis, ...]
    asked: tuple[Asked, ...]
    rows: tuple[tuple[Scalar | None, ...], ...]

    def pushed(self, labels: Labelling) -> Region:
        """Regions the server pushes: the queries that are answered at home, and the PUSH places outside them.

        This costs what the labelling costs for this workload, or less. Where nothing was asked nothing is pushed, so
        that updates to come do not cost in unqueried regions.
        """
        home = ~self.workload.pulled_queries(labels.push)
        region = NOTHING
        for query, at_home in zip(self.asked, home, strict=True):
            if at_home and not region.covers(query.region):
                region = region.union(query.region)
        for row, push, transfer in zip(self.rows, labels.push, self.workload.transfer, strict=True):
            if push and transfer > 0:
                values = {axis.column: value for axis, value in zip(self.axes, row, strict=True)}
                if not region.contains(values.get):
                    region = region.union(Region((_point(values),)))
        return region


def _point(values: Row) -> Box:
    sides = (
        Side(column, Missing() if value is None else Categories(frozenset({value}))) for column, value in values.items()
    )
    return Box.of(*sides)


@dataclass(frozen=True, slots=True, eq=False)
class Tallied:
    """Changes and stored rows, place by place."""

    places: tuple[tuple[Scalar | None, ...], ...]
    push: Floats
    sizes: Floats
    rows: Integers
    moves: Moves

    def coordinates(self, axes: Sequence[Axis]) -> Integers:
        """The places in coordinates."""
        return np.array(
            [[axis.at(value) for axis, value in zip(axes, place, strict=True)] for place in self.places], np.int64
        ).reshape(len(self.places), len(axes))


def tallied(columns: Sequence[str], changed: Sequence[Changed], stored: Sequence[Stored], pricing: Pricing) -> Tallied:
    """Count what changes and what is stored at each place."""
    numbers: dict[tuple[Scalar | None, ...], int] = {}

    def number(row: Row) -> int:
        for column in columns:
            if column not in row:
                raise PlanningError(f"a place says what {column!r} is, or that it is null; this one does not")
        return numbers.setdefault(tuple(row[column] for column in columns), len(numbers))

    pushing: dict[int, float] = {}
    moved: dict[tuple[int, int], float] = {}
    for update in changed:
        cost, to = pricing.pushing(update.price, update.size) * update.times, number(update.place)
        out = to if update.before is None else number(update.before)
        if out == to:
            pushing[to] = pushing.get(to, 0.0) + cost
        else:
            moved[out, to] = moved.get((out, to), 0.0) + cost
    sizes: dict[int, float] = {}
    rows: dict[int, int] = {}
    for held in stored:
        at = number(held.place)
        sizes[at] = sizes.get(at, 0.0) + held.size
        rows[at] = rows.get(at, 0) + held.rows
    return Tallied(
        tuple(numbers),
        np.array([pushing.get(k, 0.0) for k in range(len(numbers))]),
        np.array([sizes.get(k, 0.0) for k in range(len(numbers))]),
        np.array([rows.get(k, 0) for k in range(len(numbers))], np.int64),
        Moves(np.array(list(moved), np.int64).reshape(len(moved), 2), np.array(list(moved.values()), np.float64)),
    )


def encode(
    columns: Sequence[str],
    asked: Sequence[Asked],
    changed: Sequence[Changed],
    pricing: Pricing,
    stored: Sequence[Stored] = (),
) -> Encoded:
    """Write a workload in coordinates of these columns; a query must not constrain others."""
    given: dict[str, list[Scalar]] = {column: [] for column in columns}
    for query in asked:
        for box in query.region:
            for side in box.sides:
                if side.column not in given:
                    raise PlanningError(f"a query asks for {side.column!r}, which is not one of {', '.join(columns)}")
                given[side.column] += values_of(side.extent)
    rows = tallied(columns, changed, stored, pricing)
    for place in rows.places:
        for column, value in zip(columns, place, strict=True):
            if value is not None:
                given[column].append(value)
    axes = tuple(Axis.of(column, given[column]) for column in columns)
    coordinates = rows.coordinates(axes)
    queries = _boxes(axes, asked, np.array([pricing.setup(query.price) * query.times for query in asked]))
    rates = np.array([pricing.rate() * query.times for query in asked])
    asked_for = weight_at(queries.owners, queries.lows, queries.highs, coordinates, rates)
    workload = Workload(queries, coordinates, rows.push, asked_for * rows.sizes, rows.moves)
    return Encoded(workload, axes, tuple(asked), rows.places)


def _boxes(axes: Sequence[Axis], asked: Sequence[Asked], setup: Floats) -> Queries:
    owners: list[int] = []
    ends: list[tuple[tuple[int, int], ...]] = []
    for owner, query in enumerate(asked):
        for box in query.region:
            for ranges in product(*(axis.ranges(box.extent(axis.column)) for axis in axes)):
                owners.append(owner)
                ends.append(ranges)
    both = np.array(ends, np.int64).reshape(len(ends), len(axes), 2)
    return Queries(setup.astype(np.float64), np.array(owners, np.int64), both[:, :, 0].copy(), both[:, :, 1].copy())
