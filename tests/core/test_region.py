"""The algebra of extents, boxes and regions, against plain membership of points."""

from collections.abc import Callable
from contextlib import nullcontext
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import (
    EVERYTHING,
    NOTHING,
    AlgebraError,
    Box,
    Categories,
    Extent,
    Interval,
    Missing,
    Region,
    Side,
    disjoint,
)
from slackwater.core import extent as algebra
from slackwater.core.box_index import Finder
from slackwater.core.disjoint import check_disjoint
from slackwater.core.region import MOST_BOXES, _swept
from slackwater.core.types import Scalar

# Half steps, so that every open and closed end at whole numbers has a point beside it.
POINTS: dict[str, list[Scalar | None]] = {
    "x": [None, *(n / 2 for n in range(-1, 12))],
    "y": [None, *(n / 2 for n in range(-1, 12))],
    "name": [None, "a", "b", "c", "d", "e"],
}
numbers = st.integers(0, 5)
letters = st.sampled_from("abcde")


def intervals(ends: st.SearchStrategy[Scalar]) -> st.SearchStrategy[Interval]:
    return st.builds(Interval, st.none() | ends, st.none() | ends, st.booleans(), st.booleans())


def categories(values: st.SearchStrategy[Scalar]) -> st.SearchStrategy[Categories]:
    return st.builds(Categories, st.frozensets(values, max_size=4), st.booleans())


EXTENTS: dict[str, st.SearchStrategy[Extent]] = {
    "x": intervals(numbers) | st.just(Missing()),
    "y": intervals(numbers) | categories(numbers),
    "name": categories(letters) | intervals(letters) | st.just(Missing()),
}
boxes = st.fixed_dictionaries({}, optional=EXTENTS).map(
    lambda sides: (
        None
        if any(extent.empty for extent in sides.values())
        else Box.of(*(Side(name, extent) for name, extent in sides.items()))
    )
)
regions = st.lists(boxes.filter(lambda box: box is not None), max_size=3).map(
    lambda some: Region.of([box for box in some if box is not None])
)
ROWS = [dict(zip(POINTS, values, strict=True)) for values in product(*POINTS.values())]


def members(region: Region) -> list[bool]:
    return [region.contains(row.get) for row in ROWS]


@pytest.mark.parametrize("column", list(POINTS))
def test_extents_are_closed_under_intersection_and_difference(column: str) -> None:
    @settings(max_examples=400, deadline=None)
    @given(EXTENTS[column], EXTENTS[column])
    def check(a: Extent, b: Extent) -> None:
        common, rest = algebra.intersect(a, b), algebra.subtract(a, b)
        assert not any(part.empty for part in (*common, *rest))
        for value in POINTS[column]:  # in one part at most, never in two
            assert sum(part.contains(value) for part in common) == (a.contains(value) and b.contains(value))
            assert sum(part.contains(value) for part in rest) == (a.contains(value) and not b.contains(value))

    check()


@pytest.mark.parametrize("column", list(POINTS))
def test_extents_meet_where_they_have_something_in_common(column: str) -> None:
    @settings(max_examples=400, deadline=None)
    @given(EXTENTS[column], EXTENTS[column])
    def check(a: Extent, b: Extent) -> None:
        assert a.empty or b.empty or algebra.meets(a, b) == bool(algebra.intersect(a, b))

    check()


@settings(max_examples=150, deadline=None)
@given(st.lists(boxes.filter(lambda box: box is not None), max_size=5))
def test_boxes_are_a_region_if_no_two_of_them_meet(some: list[Box]) -> None:
    apart = not any(a.intersect(b) for nth, a in enumerate(some) for b in some[nth + 1 :])
    with nullcontext() if apart else pytest.raises(AlgebraError, match="overlap"):
        check_disjoint(some, 100, 10_000)


def test_telling_boxes_apart_takes_few_comparisons_or_is_refused() -> None:
    row = [Box.of(Side("x", Interval(k, k + 1, high_open=True)), Side("y", Interval(0, 9))) for k in range(2_000)]
    check_disjoint(row, 2_000, 20_000)
    # Hulls overlap along both columns, and only looking at each pair would tell.
    puzzle = [
        Box.of(Side("x", Categories(frozenset({-1 - k, 1 + k}))), Side("y", Categories(frozenset({-1 - k, 1 + k}))))
        for k in range(300)
    ]
    check_disjoint(puzzle, 300 * 299 // 2, 10**9)
    with pytest.raises(AlgebraError, match="comparisons"):
        check_disjoint(puzzle, 1_000, 10**9)


def test_telling_boxes_apart_takes_no_longer_than_is_allowed() -> None:
    """However few the pairs are: each of them may be a long list against a range."""
    long_list = Box.of(Side("x", Categories(frozenset(range(0, 2_000, 2)))))
    ranges = [Box.of(Side("x", Interval(4 * k + 0.5, 4 * k + 1.5))) for k in range(100)]
    check_disjoint([long_list, *ranges], 100, 100 * (1_002 + 2))
    with pytest.raises(AlgebraError, match="too long"):
        check_disjoint([long_list, *ranges], 100, 100 * (1_002 + 2) - 1)


@pytest.mark.parametrize("own", [True, False], ids=["columns of their own", "the same columns"])
def test_boxes_of_very_many_columns_are_sorted_side_by_side(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    def hull(extent: Extent | None) -> tuple[algebra.Place, algebra.Place]:
        looked.append(extent)
        return algebra.hull(extent)

    monkeypatch.setattr(disjoint, "hull", hull)
    some = [
        Box.of(*(Side(f"{box if own else 0} {side}", Interval(box, box)) for side in range(20))) for box in range(100)
    ]
    with pytest.raises(AlgebraError, match="comparisons") if own else nullcontext():
        check_disjoint(some, 1_000, 100_000)
    assert len(looked) <= 100 * 20 + 100, "once for each side, and once more along the column that is taken"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.integers(0, 20), st.integers(0, 2), max_size=20), min_size=2, max_size=2))
def test_boxes_of_many_sides_meet_as_those_of_few_do(some: list[dict[int, int]]) -> None:
    a, b = (Box.of(*(Side(str(name), Interval(low, low + 1)) for name, low in one.items())) for one in some)
    apart = any(abs(low - some[1][name]) > 1 for name, low in some[0].items() if name in some[1])
    assert a.meets(b) == b.meets(a) == (not apart)


@settings(max_examples=150, deadline=None)
@given(regions)
def test_a_row_is_found_in_its_box(region: Region) -> None:
    finder = Finder(region)
    for values in product(*POINTS.values()):
        row = dict(zip(POINTS, values, strict=True))
        inside = [box for box in region if box.contains(row.get)]
        assert finder.find(row.get) == next(iter(inside), None)


def test_a_row_is_not_looked_for_in_every_box(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Box] = []
    usual = Box.contains

    def contains(box: Box, value_of: Callable[[str], Scalar | None]) -> bool:
        looked.append(box)
        return usual(box, value_of)

    rows = Region(tuple(Box.of(Side("x", Interval(2 * k, 2 * k + 1)), Side("y", Interval(0, 9))) for k in range(500)))
    finder = Finder(rows)
    monkeypatch.setattr(Box, "contains", contains)
    for x in (-1, 0, 1, 1.5, 600, 601.5, 999, 1_000, None):
        looked.clear()
        found = finder.find({"x": x, "y": 3}.get)
        assert len(looked) == (found is not None), x


@settings(max_examples=150, deadline=None)
@given(regions, regions)
def test_regions_are_sets_of_rows(a: Region, b: Region) -> None:
    in_a, in_b = members(a), members(b)
    for result, expected in (
        (a.intersect(b), [p and q for p, q in zip(in_a, in_b, strict=True)]),
        (a.subtract(b), [p and not q for p, q in zip(in_a, in_b, strict=True)]),
        (a.union(b), [p or q for p, q in zip(in_a, in_b, strict=True)]),
        (a.complement(), [not p for p in in_a]),
    ):
        result._check()
        assert members(result) == expected
    assert a.equals(a.intersect(b).union(a.subtract(b)))
    assert a.complement().complement().equals(a)
    if a.covers(b):
        assert all(p or not q for p, q in zip(in_a, in_b, strict=True))


@settings(max_examples=100, deadline=None)
@given(st.lists(boxes.filter(lambda box: box is not None), max_size=12), regions)
def test_many_boxes_are_taken_away_as_few_are(some: list[Box], a: Region) -> None:
    b = Region.of(some)
    for whole in (a, EVERYTHING):
        rest = Region(_swept(whole.boxes, b.boxes))
        rest._check()
        assert members(rest) == [p and not q for p, q in zip(members(whole), members(b), strict=True)]


def test_taking_many_ranges_away_compares_neighbours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    compared, usual = 0, Box.meets

    def counted(box: Box, other: Box) -> bool:
        nonlocal compared
        compared += 1
        return usual(box, other)

    monkeypatch.setattr(Box, "meets", counted)
    holed = Region(tuple(Box.of(Side("x", Interval(k, k + 0.5))) for k in range(2_000)))
    assert len(EVERYTHING.subtract(holed).boxes) == 2_002
    assert holed.covers(holed)
    assert compared < 20 * 2_000


def test_everything_and_nothing() -> None:
    assert EVERYTHING.complement() == NOTHING
    assert NOTHING.empty
    assert EVERYTHING.contains(lambda _: None)
    assert EVERYTHING.covers(NOTHING)
    assert not NOTHING.covers(EVERYTHING)


def test_a_row_with_a_null_is_outside_a_range_and_inside_its_complement() -> None:
    cheap = Region((Box.of(Side("price", Interval(None, 3000, high_open=True))),))
    assert not cheap.contains({"price": None}.get)
    assert cheap.complement().contains({"price": None}.get)


@pytest.mark.parametrize(
    ("interval", "text", "empty"),
    [
        (Interval(1, 2), "[1, 2]", False),
        (Interval(1, 2, low_open=True, high_open=True), "(1, 2)", False),
        (Interval(1, 1), "[1, 1]", False),
        (Interval(1, 1, high_open=True), "[1, 1)", True),
        (Interval(2, 1), "[2, 1]", True),
        (Interval(None, 2, low_open=True), "(-∞, 2]", False),
    ],
)
def test_intervals_in_words(interval: Interval, text: str, empty: bool) -> None:
    assert (str(interval), interval.empty) == (text, empty)


def test_unbounded_ends_are_written_one_way() -> None:
    assert Interval(None, 2, low_open=True) == Interval(None, 2)


@pytest.mark.parametrize("ends", [(1, "a"), (True, None), (None, float("nan")), ("a", 1.0)])
def test_ends_that_make_no_sense(ends: tuple[Scalar | None, Scalar | None]) -> None:
    with pytest.raises(AlgebraError):
        Interval(*ends)


def test_a_box_names_a_column_once() -> None:
    with pytest.raises(AlgebraError, match="once"):
        Box.of(Side("x", Interval(1, 2)), Side("x", Interval(3, 4)))


def test_a_condition_that_explodes_is_refused() -> None:
    spots = Region(tuple(Box.of(Side("x", Interval(k, k))) for k in range(0, 300, 2)))
    other = Region(tuple(Box.of(Side("y", Interval(k, k))) for k in range(0, 300, 2)))
    with pytest.raises(AlgebraError, match="split it"):
        spots.intersect(other)


def holes(many: int, column: str) -> Side:
    return Side(column, Categories(frozenset(range(many)), complement=True))


@pytest.mark.parametrize(
    "work",
    [
        lambda solid, holed: solid.intersect(holed),
        lambda solid, holed: solid.subtract(holed),
        lambda solid, holed: Region((solid,)).intersect(Region((holed,))),
        lambda solid, holed: Region((solid,)).subtract(Region((holed,))),
        lambda solid, holed: Region((holed,)).covers(Region((solid,))),
    ],
)
def test_ranges_without_many_values_do_not_multiply(
    work: Callable[[Box, Box], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, usual = 0, Box.__post_init__

    def counted(box: Box) -> None:
        nonlocal made
        made += 1
        assert made <= 10 * MOST_BOXES, "each box more is refused, not made first"
        usual(box)

    solid = Box.of(*(Side(column, Interval(-1, 9_999)) for column in "uvwxyz"))
    holed = Box.of(*(holes(300, column) for column in "uvwxyz"))
    monkeypatch.setattr(Box, "__post_init__", counted)
    with pytest.raises(AlgebraError, match="split it"):
        work(solid, holed)
    assert solid.meets(holed)
    few = Box.of(Side("u", Interval(-1, 9_999)))
    assert len(few.intersect(Box.of(holes(300, "u")))) == 301
    assert few.subtract(Box.of(holes(300, "u"))) == (Box.of(Side("u", Categories(frozenset(range(300))))),)
