"""The algebra of extents, boxes and regions, against plain membership of points."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import EVERYTHING, NOTHING, AlgebraError, Box, Categories, Extent, Interval, Missing, Region, Side
from slackwater.core import extent as algebra
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
