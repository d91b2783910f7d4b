"""A union of boxes in few boxes: the same rows, always written the same, the fewest in one attribute."""

from itertools import combinations, product

import numpy as np
import pytest

from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.region import EVERYTHING, NOTHING, Box, Region, Side
from slackwater.core.types import Scalar
from slackwater.planning.push_pull.compact import compact

NUMBERS: tuple[Scalar | None, ...] = (None, *(k / 2 for k in range(-1, 9)))
WORDS: tuple[Scalar | None, ...] = (None, "a", "b", "c", "d", "z")


def draw_numbers(rng: np.random.Generator) -> Extent | None:
    low, high = sorted(int(v) for v in rng.integers(0, 4, 2))
    match rng.integers(0, 7):
        case 0:
            return Interval(None, high, high_open=bool(rng.integers(2)))
        case 1:
            return Interval(low, None, low_open=bool(rng.integers(2)))
        case 2:
            return Categories(frozenset(int(v) for v in rng.integers(0, 4, 2)), complement=bool(rng.integers(2)))
        case 3:
            return Missing()
        case 4:
            return None
    return Interval(low, high + 1, bool(rng.integers(2)), bool(rng.integers(2)))


def draw_words(rng: np.random.Generator) -> Extent | None:
    kind = rng.integers(0, 6)
    if kind < 2:
        return None if kind else Missing()
    return Categories(frozenset("abcd"[k] for k in rng.integers(0, 4, 2)), complement=bool(kind == 2))


def draw(rng: np.random.Generator, columns: str, count: int) -> list[Box]:
    boxes = []
    for _ in range(count):
        extents = [(column, draw_words(rng) if column == "w" else draw_numbers(rng)) for column in columns]
        boxes.append(Box.of(*(Side(column, extent) for column, extent in extents if extent is not None)))
    return boxes


def held(region: Region, columns: str) -> list[bool]:
    """Which rows of a grid that meets every end, every gap and null lie in it."""
    rows = product(*(WORDS if column == "w" else NUMBERS for column in columns))
    return [region.contains(dict(zip(columns, row, strict=True)).get) for row in rows]


@pytest.mark.parametrize("columns", ["a", "w", "ab", "aw", "abw", "wab"])
def test_the_same_rows_in_disjoint_boxes_and_always_written_the_same(columns: str) -> None:
    rng = np.random.default_rng(len(columns))
    for _ in range(60 if len(columns) < 3 else 15):
        boxes = draw(rng, columns, int(rng.integers(1, 7)))
        found = compact(boxes)
        found._check()
        plain = Region.of(boxes)
        assert held(found, columns) == held(plain, columns)
        assert len(found.boxes) <= len(plain.boxes) or len(columns) > 1
        assert compact(reversed(boxes)) == found
        # However the set is cut: its disjoint pieces give the same.
        assert compact(plain.boxes).boxes == found.boxes


def every_extent() -> list[Extent]:
    """Everything that can be said of a column with the values 0 and 1."""
    ends: list[Scalar | None] = [None, 0, 1]
    answer: list[Extent] = [Missing()]
    for low, high in product(ends, ends):
        for low_open, high_open in product((False, True), repeat=2):
            if low is not None and high is not None and low > high:  # type: ignore[operator]
                continue
            extent = Interval(low, high, low_open and low is not None, high_open and high is not None)
            if not extent.empty and extent not in answer:
                answer.append(extent)
    sets = product(((0,), (1,), (0, 1)), (False, True))
    answer.extend(Categories(frozenset(values), complement) for values, complement in sets)
    return answer


def test_in_one_attribute_there_are_no_fewer_boxes() -> None:
    """Over two values: every union of extents is written with as few extents as any union that holds the same."""
    extents = every_extent()
    rows = (None, -1, 0, 0.5, 1, 2)
    holds = [tuple(extent.contains(row) for row in rows) for extent in extents]
    fewest: dict[tuple[bool, ...], int] = {(True,) * len(rows): 1}
    for size in (1, 2, 3):
        for some in combinations(range(len(extents)), size):
            union = tuple(any(column) for column in zip(*(holds[k] for k in some), strict=True))
            fewest.setdefault(union, size)
            found = compact(Box.of(Side("a", extents[k])) for k in some)
            assert tuple(found.contains({"a": row}.get) for row in rows) == union
            assert len(found.boxes) == fewest[union]


def test_nothing_and_everything() -> None:
    assert compact([]) == NOTHING
    assert compact([Box()]) == EVERYTHING
    halves = [Box.of(Side("a", extent)) for extent in (Interval(None, 3), Interval(3, None, low_open=True), Missing())]
    assert compact(halves) == EVERYTHING
    assert len(compact(halves[:2]).boxes) == 1


def test_categories_with_the_same_neighbours_become_one_box() -> None:
    boxes = [
        Box.of(Side("colour", Categories(frozenset({colour}))), Side("price", Interval(low, low + 10)))
        for colour, low in product(("red", "blue", "green"), (0, 10))
    ]
    [box] = compact(boxes)
    assert box.extent("colour") == Categories(frozenset({"red", "blue", "green"}))
    assert box.extent("price") == Interval(0, 20)


def test_the_better_order_of_attributes_is_taken() -> None:
    """Two columns one above the other: cut by `b` first they are two boxes, by `a` first three."""
    boxes = [
        Box.of(Side("a", Interval(0, 2)), Side("b", Interval(0, 1))),
        Box.of(Side("a", Interval(1, 3)), Side("b", Interval(1, 2, low_open=True))),
    ]
    assert len(compact(boxes).boxes) == 2


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_boxes_that_overlap_much_become_less_than_half_of_what_the_algebra_leaves(axes: int) -> None:
    compacted = plain = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        middle, half = rng.normal(0, 30, (12, axes)).round(), np.abs(rng.normal(30, 15, (12, axes)).round())
        boxes = []
        for low, high in zip(middle - half, middle + half, strict=True):
            boxes.append(Box.of(*(Side("abc"[k], Interval(float(low[k]), float(high[k]))) for k in range(axes))))
        compacted += len(compact(boxes).boxes)
        plain += len(Region.of(boxes).boxes)
    assert compacted < plain / 2
