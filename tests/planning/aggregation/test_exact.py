"""The exact plan against the look at every partition, with loose and with binding floors."""

import itertools

import numpy as np
import pytest

from slackwater.core.errors import Infeasible, PlanningError
from slackwater.kernels.partition_sums import lowest_sum, lowest_sum_plainly
from slackwater.kernels.subsets import least_total, least_total_plainly, quadratic, quadratic_plainly
from slackwater.planning.aggregation import (
    MOST_ITEMS,
    Dynamics,
    Exact,
    Exhaustive,
    Offer,
    Problem,
    ScaleFreeCost,
    SumQuery,
)
from tests.support.networks import MODELS, dynamics, problem


def compare(
    seed: int, items: int, tightness: float | None, cases: int, *, floors_take: bool = False
) -> tuple[int, int]:
    """How many plans rest on a floor, and how many needed a search."""
    generator = np.random.default_rng(seed)
    resting = searched = 0
    for number in range(cases):
        model, aggregators = MODELS[number % len(MODELS)], int(generator.integers(2, 7))
        case = problem(generator, items, aggregators, model, tightness, floors_take=floors_take)
        plan, branches = Exact().searched(case)
        assert plan.messages == pytest.approx(Exhaustive()(case).messages, rel=1e-9)
        resting += any(part.within <= part.floor * (1 + 1e-9) for part in plan.parts if part.messages > 0)
        searched += branches > 0
    return resting, searched


@pytest.mark.parametrize(("items", "cases"), [(1, 8), (2, 40), (3, 80), (4, 80), (5, 80), (6, 40), (7, 12)])
def test_equal_to_brute_force_with_floors_of_all_kinds(items: int, cases: int) -> None:
    compare(items, items, None, cases)


def test_equal_to_brute_force_with_loose_floors() -> None:
    resting, searched = compare(21, 6, 0.001, 20)
    assert resting == 0
    assert searched < 10, "only items that never move, and so rest on a floor, make a search"


def test_equal_to_brute_force_with_binding_floors() -> None:
    resting, searched = compare(22, 5, 0.9, 150)
    assert resting > 100
    assert searched > 20, "these cases are there for the search"


def test_equal_to_brute_force_when_the_floors_take_everything() -> None:
    compare(23, 5, 1.0, 40)


@pytest.mark.parametrize("tightness", [0.3, 0.7, 0.95])
def test_equal_to_brute_force_with_eight_items(tightness: float) -> None:
    compare(24, 8, tightness, 3)


@pytest.mark.slow
@pytest.mark.parametrize(("floors_take", "cases"), [(False, 400), (True, 60)])
def test_equal_to_brute_force_with_eight_items_and_many_seeds(floors_take: bool, cases: int) -> None:
    compare(25, 8, None, cases, floors_take=floors_take)


@pytest.mark.parametrize(("items", "cases"), [(1, 8), (2, 40), (3, 80), (4, 60), (5, 40), (6, 12)])
def test_equal_to_brute_force_where_floors_take_from_the_bound(items: int, cases: int) -> None:
    compare(items, items, None, cases, floors_take=True)


@pytest.mark.parametrize("tightness", [0.001, 0.4, 0.9, 1.0])
def test_equal_to_brute_force_where_floors_take_little_or_everything(tightness: float) -> None:
    compare(26, 5, tightness, 30, floors_take=True)


def test_the_plan_follows_what_floors_take() -> None:
    """Two items that move alike, one held loosely: as if the truth were known both get half of the bound."""
    moving = Dynamics(("a", "b"), np.array([1.0, 1.0]), np.eye(2))
    offers = (Offer("D1", {"a": 1.0}), Offer("D2", {"b": 0.0}))
    query, model = SumQuery(moving.items, (1.0, 1.0), 10.0), ScaleFreeCost(factor=1000.0)
    known = Exact()(Problem(query, offers, moving, model))
    assert [part.within for part in known.parts] == pytest.approx([5.0, 5.0])
    # a has spent 1 − ½·1, and what is left is shared out equally.
    plan = Exact()(Problem(query, offers, moving, model, floors_take=True))
    assert [part.within for part in plan.parts] == pytest.approx([0.5 + 4.75, 4.75])
    assert [part.messages for part in plan.parts] == pytest.approx([1000 / 4.75**2, 1000 / 4.75**2])
    # Where b moves much more, a resigns: it has its floor, sends whatever it hears of, and b has the rest.
    wild = Dynamics(("a", "b"), np.array([1.0, 30.0]), np.eye(2))
    plan = Exact()(Problem(query, offers, wild, model, floors_take=True))
    assert [part.within for part in plan.parts] == pytest.approx([1.0, 9.0])
    assert [part.messages for part in plan.parts] == pytest.approx([1000 / 1.0**2, 1000 * 30**2 / 9.0**2])


def test_queries_that_are_too_large_are_refused_with_what_to_do() -> None:
    case = problem(np.random.default_rng(1), MOST_ITEMS + 1, 3, MODELS[0])
    with pytest.raises(PlanningError, match="max-gain"):
        Exact()(case)


def test_a_plan_exists_exactly_down_to_the_tightest_bound() -> None:
    moving = dynamics(np.random.default_rng(2), 3)
    offers = (Offer("near", {"s0": 0.1, "s1": 0.2}), Offer("far", {"s0": 0.3, "s1": 0.1, "s2": 0.2}))
    at = Problem(SumQuery(moving.items, (2.0, -1.0, 1.0), 0.5), offers, moving, MODELS[2])
    assert sum(part.within for part in Exact()(at).parts) == pytest.approx(0.5)
    below = Problem(SumQuery(moving.items, (2.0, -1.0, 1.0), 0.4999), offers, moving, MODELS[2])
    with pytest.raises(Infeasible) as refused:
        Exact()(below)
    assert refused.value.tightest == pytest.approx(0.5)


def test_tables_over_subsets_equal_their_plain_twins() -> None:
    generator = np.random.default_rng(6)
    size = 6
    matrix = generator.normal(size=(size, size))
    matrix += matrix.T
    rows = np.where(generator.random((4, size)) < 0.3, np.inf, generator.random((4, size)))
    squares, totals, which = np.empty(1 << size), np.empty(1 << size), np.empty(1 << size, np.int64)
    quadratic(matrix, squares)
    least_total(rows, totals, which)
    for part in range(1, 1 << size):
        members = [place for place in range(size) if part >> place & 1]
        assert squares[part] == pytest.approx(quadratic_plainly(matrix.tolist(), members))
        least, row = least_total_plainly(rows.tolist(), members)
        assert (totals[part], which[part]) == (pytest.approx(least), row)


def test_the_programme_over_subsets_equals_its_plain_twin() -> None:
    generator = np.random.default_rng(7)
    values = np.where(generator.random(64) < 0.4, np.inf, generator.random(64))
    sums, choices = np.empty(64), np.zeros(64, np.int64)
    lowest_sum(values, sums, choices)
    finite = {part: float(values[part]) for part in range(1, 64) if np.isfinite(values[part])}
    for whole in itertools.chain(range(0, 64, 7), (63,)):
        assert sums[whole] == pytest.approx(lowest_sum_plainly(finite, whole))
