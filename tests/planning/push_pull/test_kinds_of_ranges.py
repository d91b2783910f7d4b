"""Every kind of range, and rows that move between regions: each counts exactly the updates that are its own.

A query that is asked very often is answered at home, so the least cost is the price of the updates in its range. Every
update has a price of its own, a power of two: the cost says which updates were counted. What lies in a range is
written here by hand.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from experiments.push_pull.number_ranges import NumberRanges, on_a_line
from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.region import Box, Region, Side
from slackwater.core.types import Scalar
from slackwater.planning.push_pull.cost_models import Constants
from slackwater.planning.push_pull.cut import exact_by_cut
from slackwater.planning.push_pull.encoding import Asked, Changed, encode
from slackwater.planning.push_pull.label_many import Activity, Demand, label_client
from slackwater.planning.push_pull.line import exact_on_a_line
from slackwater.planning.push_pull.published.recurrence import exact_by_recurrence

OFTEN = 2**40
NUMBERS: tuple[Scalar | None, ...] = (1, 2, 2.5, 3, 4, None)
COLOURS: tuple[Scalar | None, ...] = ("blue", "green", "red", None)
FLAGS: tuple[Scalar | None, ...] = (False, True, None)

KINDS: dict[str, tuple[Extent | None, tuple[Scalar | None, ...], set[Scalar | None]]] = {
    "closed": (Interval(2, 3), NUMBERS, {2, 2.5, 3}),
    "open": (Interval(2, 3, True, True), NUMBERS, {2.5}),
    "open below": (Interval(2, 3, low_open=True), NUMBERS, {2.5, 3}),
    "open above": (Interval(2, 3, high_open=True), NUMBERS, {2, 2.5}),
    "a point": (Interval(3, 3), NUMBERS, {3}),
    "a point between values": (Interval(2.75, 2.75), NUMBERS, set()),
    "ends between values": (Interval(1.5, 2.75, True, True), NUMBERS, {2, 2.5}),
    "open, nothing between": (Interval(3, 4, True, True), NUMBERS, set()),
    "unbounded below, closed": (Interval(None, 2), NUMBERS, {1, 2}),
    "unbounded below, open": (Interval(None, 2, high_open=True), NUMBERS, {1}),
    "unbounded above, closed": (Interval(3, None), NUMBERS, {3, 4}),
    "unbounded above, open": (Interval(3, None, low_open=True), NUMBERS, {4}),
    "unbounded on both sides": (Interval(), NUMBERS, {1, 2, 2.5, 3, 4}),
    "anything": (None, NUMBERS, set(NUMBERS)),
    "null": (Missing(), NUMBERS, {None}),
    "some numbers": (Categories(frozenset({1, 3, 9})), NUMBERS, {1, 3}),
    "all but some numbers": (Categories(frozenset({1, 3, 9}), complement=True), NUMBERS, {2, 2.5, 4}),
    "a category": (Categories(frozenset({"red"})), COLOURS, {"red"}),
    "categories that are no neighbours": (Categories(frozenset({"blue", "red"})), COLOURS, {"blue", "red"}),
    "a category that does not occur": (Categories(frozenset({"pink"})), COLOURS, set()),
    "all but a category": (Categories(frozenset({"green"}), complement=True), COLOURS, {"blue", "red"}),
    "all but one that does not occur": (
        Categories(frozenset({"pink"}), complement=True),
        COLOURS,
        {"blue", "green", "red"},
    ),
    "text in an order": (Interval("c", "h", high_open=True), COLOURS, {"green"}),
    "true": (Categories(frozenset({True})), FLAGS, {True}),
    "not true": (Categories(frozenset({True}), complement=True), FLAGS, {False}),
}
Least = Callable[[Sequence[str], Region, Sequence[Changed]], float]


def by_the_cut(columns: Sequence[str], region: Region, changed: Sequence[Changed]) -> float:
    return exact_by_cut(encode(columns, [Asked(region, times=OFTEN)], changed, Constants()).workload).cost


def among_many(columns: Sequence[str], region: Region, changed: Sequence[Changed]) -> float:
    activity = Activity.of(columns, changed, [], Constants())
    return label_client(activity, [Demand(activity.footprint(region), times=OFTEN)]).cost


WAYS: dict[str, Least] = {"by the cut": by_the_cut, "a client among many": among_many}


def region_of(column: str, extent: Extent | None) -> Region:
    return Region((Box() if extent is None else Box.of(Side(column, extent)),))


def counted(cost: float, values: Sequence[Scalar | None]) -> set[Scalar | None]:
    return {value for k, value in enumerate(values) if int(cost) >> k & 1}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_range_counts_the_updates_in_it_and_no_others(kind: str, way: str) -> None:
    extent, values, inside = KINDS[kind]
    changed = [Changed({"a": value}, price=2.0**k) for k, value in enumerate(values)]
    assert counted(WAYS[way](("a",), region_of("a", extent), changed), values) == inside


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_range_counts_the_rows_that_come_leave_or_move_within_and_no_others(kind: str, way: str) -> None:
    extent, values, inside = KINDS[kind]
    pairs = [(a, b) for a in values for b in values if a is not b]
    changed = [Changed({"a": b}, before={"a": a}, price=2.0**k) for k, (a, b) in enumerate(pairs)]
    cost = WAYS[way](("a",), region_of("a", extent), changed)
    told = [pair for k, pair in enumerate(pairs) if int(cost) >> k & 1]
    assert told == [pair for pair in pairs if pair[0] in inside or pair[1] in inside]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_in_two_attributes_both_have_to_hold(kind: str, way: str) -> None:
    extent, values, inside = KINDS[kind]
    rows = [(a, b) for a in values for b in (1, 2, 3)]
    changed = [Changed({"a": a, "b": b}, price=2.0**k) for k, (a, b) in enumerate(rows)]
    sides = [Side("b", Interval(1, 3, True, False))] + ([] if extent is None else [Side("a", extent)])
    cost = WAYS[way](("a", "b"), Region((Box.of(*sides),)), changed)
    told = {row for k, row in enumerate(rows) if int(cost) >> k & 1}
    assert told == {(a, b) for a, b in rows if a in inside and b in (2, 3)}


@pytest.mark.parametrize("kind", [k for k, (e, values, _) in KINDS.items() if isinstance(e, Interval) and 1 in values])
def test_ranges_of_numbers_as_arrays(kind: str) -> None:
    extent, values, inside = KINDS[kind]
    assert isinstance(extent, Interval)
    assert not isinstance(extent.low, str)
    assert not isinstance(extent.high, str)
    numbers = [float(value) for value in values if value is not None]
    low, high = -np.inf if extent.low is None else extent.low, np.inf if extent.high is None else extent.high
    ranges = NumberRanges(
        np.array([low], np.float64),
        np.array([high], np.float64),
        np.array([extent.low_open]),
        np.array([extent.high_open]),
    )
    prices = np.array([2.0**k for k in range(len(numbers))])
    workload = on_a_line(ranges, np.array([float(OFTEN)]), np.array(numbers), prices)
    for labeller in (exact_on_a_line, exact_by_recurrence):
        assert counted(labeller(workload).cost, numbers) == inside
