"""The exact plan against the look at every partition, with loose and with binding floors."""

import itertools

import numpy as np
import pytest
from tests.planning.networks import MODELS, dynamics, problem

from slackwater.core.errors import Infeasible, PlanningError
from slackwater.kernels.partitions import lowest_sum, lowest_sum_plainly
from slackwater.kernels.subsets import least_total, least_total_plainly, quadratic, quadratic_plainly
from slackwater.planning.aggregation import MOST_ITEMS, Exact, Exhaustive, Offer, Problem, SumQuery


def compare(seed: int, items: int, tightness: float | None, cases: int) -> tuple[int, int]:
    """How many plans rest on a floor, and how many needed a search."""
    generator = np.random.default_rng(seed)
    resting = searched = 0
    for number in range(cases):
        case = problem(generator, items, int(generator.integers(2, 7)), MODELS[number % len(MODELS)], tightness)
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
def test_equal_to_brute_force_with_eight_items_and_many_seeds() -> None:
    compare(25, 8, None, 400)


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
