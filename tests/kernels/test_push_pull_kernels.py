"""The compiled loops of push and pull beside their plain twins."""

import numpy as np
import pytest

from experiments.push_pull.sorted_search import placed, placed_ranges
from slackwater.kernels.box_coverage import grab, touch_any, touching_plainly, weight_at
from slackwater.kernels.group_rows import group
from slackwater.kernels.kd_tree import halve, held, made_up, made_up_plainly
from slackwater.kernels.prefix_minimum import pulled, pulled_plainly


def paid(push: np.ndarray, transfer: np.ndarray, ends: np.ndarray, costs: np.ndarray, answer: np.ndarray) -> float:
    queries = sum(cost for (first, last), cost in zip(ends, costs, strict=True) if answer[first : last + 1].any())
    return float(push[~answer].sum() + transfer[answer].sum() + queries)


@pytest.mark.parametrize("seed", range(60))
def test_one_pass_costs_what_the_formula_costs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, queries = int(rng.integers(1, 40)), int(rng.integers(0, 60))
    push, transfer = rng.integers(0, 9, count) / 4, rng.integers(0, 3, count) / 4
    ends = np.sort(rng.integers(0, count, (queries, 2)), axis=1)
    costs = rng.integers(0, 9, queries) / 4
    order, starts = group(ends[:, 1].copy(), count)
    begins = np.bincount(ends[:, 0], costs, count).astype(np.float64)
    fast = pulled(push, transfer, begins, starts, ends[order, 0], costs[order])
    plain = pulled_plainly(push, transfer, ends[:, 0], ends[:, 1], costs)
    assert paid(push, transfer, ends, costs, fast) == paid(push, transfer, ends, costs, plain)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("seed", range(10))
def test_boxes_touch_what_the_twin_says(axes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = np.unique(rng.integers(0, 12, (rng.integers(1, 50), axes)), axis=0)
    ends = np.sort(rng.integers(0, 12, (20, axes, 2)), axis=2)
    lows, highs = ends[:, :, 0].copy(), ends[:, :, 1].copy()
    owners = np.sort(rng.integers(0, 12, 20))
    weights, push = rng.uniform(0, 2, 12), rng.uniform(0, 3, len(places))
    table = touching_plainly(owners, lows, highs, places, 12)
    assert touch_any(owners, lows, highs, places, 12).tolist() == table.any(axis=1).tolist()
    assert weight_at(owners, lows, highs, places, weights) == pytest.approx(weights @ table)
    order, gone, expected = rng.permutation(len(places)), np.zeros(12, np.bool_), np.zeros(len(places), np.bool_)
    for place in order:
        expected[place] = weights[table[:, place] & ~gone].sum() > push[place]
        if not expected[place]:
            gone |= table[:, place]
    assert grab(owners, lows, highs, places, order, push, weights).tolist() == expected.tolist()


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_halves_make_up_exactly_the_places_in_a_box(axes: int) -> None:
    rng = np.random.default_rng(axes)
    for count in (1, 2, 3, 7, 200):
        places = np.unique(rng.integers(0, 40, (count, axes)), axis=0)
        children, lows, highs = halve(places)
        below: list[list[int]] = [[k] for k in range(len(places))]
        for left, right in children:
            assert max(left, right) < len(below)
            below.append(below[left] + below[right])
        assert sorted(below[-1]) == list(range(len(places)))
        for _ in range(30):
            ends = np.sort(rng.integers(0, 40, (axes, 2)), axis=1)
            low, high = ends[:, 0].copy(), ends[:, 1].copy()
            _, nodes = made_up(np.zeros(1, np.int64), low[None], high[None], children, lows, highs)
            found = [place for node in nodes for place in below[node]]
            assert sorted(found) == made_up_plainly(low, high, places)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_what_boxes_hold_is_found_once_and_in_order(axes: int) -> None:
    rng = np.random.default_rng(axes)
    for count in (1, 2, 3, 7, 3_000):
        places = np.unique(rng.integers(0, 60, (count, axes)), axis=0)
        tree = halve(places)
        for boxes in (0, 1, 2, 9):
            ends = np.sort(rng.integers(0, 60, (boxes, axes, 2)), axis=2)
            lows, highs = ends[:, :, 0].copy(), ends[:, :, 1].copy()
            expected = {k for low, high in zip(lows, highs, strict=True) for k in made_up_plainly(low, high, places)}
            assert held(lows, highs, *tree).tolist() == sorted(expected)


def test_a_range_on_a_line_is_few_halves() -> None:
    places = np.arange(4096)[:, None]
    tree = halve(places)
    _, nodes = made_up(np.zeros(1, np.int64), np.array([[1]]), np.array([[4094]]), *tree)
    assert len(nodes) <= 2 * 12


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(
    "ordered",
    [
        np.zeros(0),
        np.array([3.0]),
        np.array([1.0, 1.0, 1.0]),
        np.sort(np.random.default_rng(1).normal(0, 1, 500)),
        np.sort(np.exp(np.random.default_rng(2).normal(0, 20, 500))),
        np.array([-1.7e308, 0.0, 5e-324, 1.7e308]),
        np.array([-np.inf, 0.0, 1.0, np.inf]),
        np.array([0.0, 5e-324]),
    ],
    ids=str,
)
def test_placing_is_searching(ordered: np.ndarray, *, right: bool) -> None:
    rng = np.random.default_rng(3)
    asked = np.concatenate((ordered, np.nextafter(ordered, np.inf), rng.normal(0, 3, 200), [-np.inf, np.inf, 0.0]))
    assert (
        placed(ordered, asked, right).tolist() == np.searchsorted(ordered, asked, "right" if right else "left").tolist()
    )


@pytest.mark.parametrize("seed", range(5))
def test_placing_ranges_is_searching_for_both_ends(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ordered = np.unique(rng.integers(0, 60, 40)).astype(np.float64)
    low = rng.integers(-5, 65, 300).astype(np.float64)
    high = np.where(rng.random(300) < 0.1, np.inf, low + rng.integers(-1, 9, 300))
    low_open, high_open = rng.random(300) < 0.5, rng.random(300) < 0.5
    expected = []
    for k in range(300):
        above = ordered > low[k] if low_open[k] else ordered >= low[k]
        below = ordered < high[k] if high_open[k] else ordered <= high[k]
        held = np.flatnonzero(above & below)
        if len(held):
            expected.append((k, int(held[0]), int(held[-1])))
    found = zip(*(array.tolist() for array in placed_ranges(ordered, low, high, low_open, high_open)), strict=True)
    assert sorted(found) == expected
