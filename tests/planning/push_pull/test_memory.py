"""Labels within so many rows, against every labelling there is."""

from itertools import product

import numpy as np
import pytest

from slackwater.core.errors import PlanningError
from slackwater.planning.push_pull.base import Integers, Moves, Queries, Workload
from slackwater.planning.push_pull.exact import exact
from slackwater.planning.push_pull.memory import trimmed, within_rows


def draw(seed: int) -> tuple[Workload, Integers]:
    """Up to nine places in one to three attributes, with moves and transfer."""
    rng = np.random.default_rng(seed)
    axes = 1 + seed % 3
    places = np.unique(rng.integers(0, 6, (int(rng.integers(1, 10)), axes)), axis=0)
    count, asked = len(places), int(rng.integers(1, 8))
    ends = np.sort(rng.integers(0, 6, (asked, axes, 2)), axis=2)
    queries = Queries(rng.integers(1, 9, asked) / 2, np.arange(asked), ends[:, :, 0].copy(), ends[:, :, 1].copy())
    moves = Moves.none()
    if count > 1 and seed % 2:
        pairs = np.array([rng.choice(count, 2, replace=False) for _ in range(3)])
        moves = Moves(pairs, rng.integers(1, 4, 3) / 2)
    transfer = rng.integers(0, 3, count) / 4 * (seed % 5 == 0)
    return Workload(queries, places, rng.integers(0, 5, count) / 2, transfer, moves), rng.integers(0, 6, count)


def best_by_trying(workload: Workload, rows: Integers, limit: int) -> float:
    every = (np.array(push, np.bool_) for push in product((False, True), repeat=len(rows)))
    return min(workload.cost(push) for push in every if rows[push].sum() <= limit)


def losses(seeds: range) -> list[float]:
    """What the answers cost over the best, everything that is promised being checked."""
    found = []
    for seed in seeds:
        workload, rows = draw(seed)
        free = exact(workload)
        for limit in {0, int(rows.sum()) // 4, int(rows.sum()) // 2, int(rows.sum())}:
            labels = within_rows(workload, rows, limit)
            best = best_by_trying(workload, rows, limit)
            assert rows[labels.push].sum() <= limit
            assert labels.cost == pytest.approx(workload.cost(labels.push))
            assert labels.at_least - 1e-9 <= best <= labels.cost + 1e-9
            if rows[trimmed(workload, free.push)].sum() <= limit:
                assert labels.cost == pytest.approx(free.cost)
                assert labels.at_least == pytest.approx(free.cost)
            if best > 0:
                found.append(labels.cost / best)
    return found


def test_never_over_the_limit_never_below_the_bound_and_near_the_best() -> None:
    found = losses(range(150))
    assert np.mean(found) < 1.02
    assert np.mean(np.array(found) > 1 + 1e-9) < 0.1


@pytest.mark.slow
def test_thousands_of_small_workloads_within_a_limit() -> None:
    found = losses(range(1_000, 5_000))
    assert np.mean(found) < 1.02


def test_what_gains_least_for_a_row_is_given_up() -> None:
    """Three ranges save 9, 8 and 2 messages for 3, 1 and 1 rows: with room for 4 the third goes, for 2 the first."""
    at = np.array([[0], [1], [2]])
    workload = Workload(
        Queries(np.array([9.0, 8, 2]), np.arange(3), at, at), at, np.zeros(3), np.zeros(3), Moves.none()
    )
    rows = np.array([3, 1, 1])
    assert within_rows(workload, rows, 5).push.tolist() == [True, True, True]
    assert within_rows(workload, rows, 4).push.tolist() == [True, True, False]
    assert within_rows(workload, rows, 2).push.tolist() == [False, True, True]
    assert within_rows(workload, rows, 0).push.tolist() == [False, False, False]


def test_room_that_the_price_leaves_is_filled() -> None:
    """A price alone holds all of four equal ranges or none; room for three is used all the same."""
    at = np.arange(4)[:, None]
    workload = Workload(Queries(np.full(4, 5.0), np.arange(4), at, at), at, np.ones(4), np.zeros(4), Moves.none())
    labels = within_rows(workload, np.full(4, 2), 7)
    assert labels.push.sum() == 3
    assert labels.cost == 3 + 5
    assert labels.at_least <= labels.cost


def test_room_is_not_filled_with_what_costs_more_than_it_saves() -> None:
    """The first range does not fit; the second would, but a row that moves to and fro there costs more than asking."""
    at = np.arange(3)[:, None]
    moves = Moves(np.array([[1, 2]]), np.array([5.0]))
    queries = Queries(np.array([10.0, 1]), np.arange(2), at[:2], at[:2])
    labels = within_rows(Workload(queries, at, np.zeros(3), np.zeros(3), moves), np.array([2, 1, 0]), 1)
    assert not labels.push.any()
    assert labels.cost == 11


def test_places_that_nobody_at_home_needs_are_trimmed() -> None:
    places = np.arange(3)[:, None]
    queries = Queries(np.ones(1), np.zeros(1, np.int64), np.array([[1]]), np.array([[2]]))
    workload = Workload(queries, places, np.zeros(3), np.array([0.0, 0, 0]), Moves.none())
    assert trimmed(workload, np.ones(3, np.bool_)).tolist() == [False, True, True]
    assert trimmed(workload, np.array([True, True, False])).tolist() == [False, False, False]


def test_a_limit_is_not_negative() -> None:
    workload, rows = draw(1)
    with pytest.raises(PlanningError, match="limit"):
        within_rows(workload, rows, -1)
