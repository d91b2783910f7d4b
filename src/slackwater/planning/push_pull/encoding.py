"""From conditions and rows to whole coordinates: the one place that knows of open ends, nulls and categories.

Design
    Along every attribute the values that occur (ends of ranges, categories, values of updated and stored rows) are put
    in order. The k-th of them has coordinate 2k + 1, the gap before it 2k, the gap after the last 2K, and null 2K + 1.
    Every extent is then one range of coordinates or, for categories, several: an open end begins in the gap beside its
    value, an unbounded one in the outermost gap. Values without an order (BOOLEAN) stand in any fixed one, since only
    sets of them are ever asked for. `all but these categories` is what lies between them, null excluded.

    Attributes that a box does not mention may be anything, null included.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from slackwater.core.errors import PlanningError
from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.region import NOTHING, Box, Region, Side
from slackwater.core.types import Scalar
from slackwater.kernels.touching import weight_at
from slackwater.planning.push_pull.base import Floats, Labelling, Moves, Queries, Workload
from slackwater.planning.push_pull.pricing import Pricing

Row = Mapping[str, Scalar | None]


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, `times` over."""

    region: Region
    price: float = 1.0
    times: int = 1


@dataclass(frozen=True, slots=True)
class Changed:
    """An update of a row that is at `place`, and was at `before` where it has moved."""

    place: Row
    before: Row | None = None
    price: float = 1.0
    size: float = 1.0


@dataclass(frozen=True, slots=True)
class Stored:
    """A row that remainder queries have to transfer when its place is PULL."""

    place: Row
    size: float = 1.0


@dataclass(frozen=True, slots=True)
class Axis:
    """The values of one attribute that occur, in order, as coordinates."""

    column: str
    values: tuple[Scalar, ...]
    coordinate: Mapping[Scalar, int]

    @classmethod
    def of(cls, column: str, values: Iterable[Scalar]) -> "Axis":
        """Put values in order."""
        distinct = tuple(sorted(set(values), key=_key))
        return cls(column, distinct, {value: 2 * k + 1 for k, value in enumerate(distinct)})

    @property
    def null(self) -> int:
        """Where null is."""
        return 2 * len(self.values) + 1

    def at(self, value: Scalar | None) -> int:
        """The coordinate of a value that occurs."""
        return self.null if value is None else self.coordinate[value]

    def ranges(self, extent: Extent | None) -> list[tuple[int, int]]:
        """What an extent is in coordinates, as ranges that do not meet."""
        last = self.null - 1
        match extent:
            case None:
                return [(0, self.null)]
            case Missing():
                return [(self.null, self.null)]
            case Interval():
                low = 0 if extent.low is None else self.at(extent.low) + extent.low_open
                high = last if extent.high is None else self.at(extent.high) - extent.high_open
                return [(low, high)] if low <= high else []
            case Categories():
                inside = sorted(self.at(value) for value in extent.values)
                if not extent.complement:
                    return [(at, at) for at in inside]
                edges = [-1, *inside, last + 1]
                return [(a + 1, b - 1) for a, b in pairwise(edges) if a + 1 <= b - 1]


def _key(value: Scalar) -> tuple[int, float, str]:
    if isinstance(value, str):
        return 2, 0.0, value
    return (0 if isinstance(value, bool) else 1), value, ""


def _values(extent: Extent | None) -> tuple[Scalar, ...]:
    match extent:
        case Interval():
            return tuple(end for end in (extent.low, extent.high) if end is not None)
        case Categories():
            return tuple(extent.values)
    return ()


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A workload in coordinates, with the way back."""

    workload: Workload
    axes: tuple[Axis, ...]
    asked: tuple[Asked, ...]
    rows: tuple[tuple[Scalar | None, ...], ...]

    def pushed(self, labels: Labelling) -> Region:
        """What the server has to push: the queries that are answered at home, and the PUSH places outside them.

        This costs what the labelling costs for this workload, or less. Where nothing was asked nothing is pushed, so
        that updates to come do not cost where nobody looks.
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
                given[side.column] += _values(side.extent)
    places: list[Row] = [row for update in changed for row in (update.place, update.before) if row is not None]
    places += [row.place for row in stored]
    for row in places:
        for column in columns:
            if column not in row:
                raise PlanningError(f"a place says what {column!r} is, or that it is null; this one does not")
            value = row[column]
            if value is not None:
                given[column].append(value)
    axes = tuple(Axis.of(column, given[column]) for column in columns)

    numbers: dict[tuple[Scalar | None, ...], int] = {}

    def number(row: Row) -> int:
        return numbers.setdefault(tuple(row[column] for column in columns), len(numbers))

    pushing: dict[int, float] = {}
    moved: dict[tuple[int, int], float] = {}
    for update in changed:
        cost, to = pricing.pushing(update.price, update.size), number(update.place)
        out = to if update.before is None else number(update.before)
        if out == to:
            pushing[to] = pushing.get(to, 0.0) + cost
        else:
            moved[out, to] = moved.get((out, to), 0.0) + cost
    sizes: dict[int, float] = {}
    for held in stored:
        at = number(held.place)
        sizes[at] = sizes.get(at, 0.0) + held.size

    coordinates = np.array(
        [[axis.at(value) for axis, value in zip(axes, row, strict=True)] for row in numbers], np.int64
    ).reshape(len(numbers), len(columns))
    queries = _boxes(axes, asked, np.array([pricing.setup(query.price) * query.times for query in asked]))
    rates = np.array([pricing.rate() * query.times for query in asked])
    asked_for = weight_at(queries.owners, queries.lows, queries.highs, coordinates, rates)
    size = np.array([sizes.get(k, 0.0) for k in range(len(numbers))])
    workload = Workload(
        queries,
        coordinates,
        np.array([pushing.get(k, 0.0) for k in range(len(numbers))]),
        asked_for * size,
        Moves(np.array(list(moved), np.int64).reshape(len(moved), 2), np.array(list(moved.values()), np.float64)),
    )
    return Encoded(workload, axes, tuple(asked), tuple(numbers))


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
