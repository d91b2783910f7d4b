"""Cell tables: equal to their definition, whatever came and went."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.kernels.band_cells import SLACK, build_cells, cell_of, cells_plainly
from slackwater.processing.base import Floats
from slackwater.processing.matching.base import JoinSide
from slackwater.processing.matching.cell_table import CellTable, cells_for
from slackwater.processing.matching.order import PackedOrder

FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.lists(st.one_of(st.integers(-8, 8).map(float), FINITE), max_size=30)


@given(st.lists(st.integers(-40, 40), max_size=40), st.integers(1, 20), st.sampled_from([0.25, 1.0, 3.0]))
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_built_as_defined(values: list[int], count: int, scale: float) -> None:
    firsts, lasts, crowds = np.empty(count + 1), np.empty(count + 1), np.empty(count + 1, np.uint8)
    build_cells(np.array(values, float), np.array([-20.0, scale, count - 1.0]), firsts, lasts, crowds)
    expected = np.array(cells_plainly(values, -20.0, scale, count))
    assert np.array_equal(np.stack((firsts, lasts, crowds), axis=1), expected, equal_nan=True)


@given(VALUES, FINITE, FINITE)
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_the_lower_bound_is_one(values: list[float], own: float, low: float) -> None:
    """No value whose rounded difference reaches `low` stands before the first of the cell that is looked at."""
    order = PackedOrder()
    order.insert(np.array(values), np.zeros(len(values)), np.arange(len(values)))
    table = CellTable(JoinSide.RIGHT, order, ranges=50)
    with np.errstate(all="ignore"):
        at = cell_of(np.float64(low) + own - (abs(low) * SLACK + abs(own) * SLACK), table.frame)
        reaching = [value for value in values if np.float64(value) - own >= low]
    first = table.firsts[at]
    assert not reaching or first <= min(reaching)


@pytest.mark.parametrize("side", JoinSide)
@pytest.mark.parametrize("kind", ["even", "ties", "tail", "one", "huge"])
def test_rows_come_and_go(side: JoinSide, kind: str) -> None:
    rng = np.random.default_rng(1)
    draws: dict[str, Callable[[int], Floats]] = {
        "even": lambda count: rng.uniform(-50, 50, count),
        "ties": lambda count: rng.integers(-4, 5, count).astype(float),
        "tail": lambda count: rng.standard_cauchy(count) ** 3,
        "one": lambda count: np.zeros(count),
        "huge": lambda count: rng.choice([-1.7e308, 1.7e308, 5e-324, 0.0], count),
    }
    draw = draws[kind]
    order, join, slots, ever = PackedOrder(room=8), np.zeros(0), np.zeros(0, np.int64), 0
    table = CellTable(side, order, ranges=40)
    for step in range(60):
        if step % 20 == 10:
            table = CellTable(side, order, ranges=40)
        come = draw(int(rng.integers(0, 12)))
        new = np.arange(ever, ever + len(come))
        ever += len(come)
        order.insert(come, np.zeros(len(come)), new)
        table.enter(come)
        join, slots = np.concatenate((join, come)), np.concatenate((slots, new))
        gone = rng.permutation(len(join))[: int(rng.integers(0, 12))]
        order.delete(join[gone], np.zeros(len(gone)), slots[gone])
        table.leave(join[gone], order)
        join, slots = np.delete(join, gone), np.delete(slots, gone)
        table._check(order)


def test_cells_are_no_more_than_rows_and_ranges_use() -> None:
    assert cells_for(0, 0) == 1
    assert cells_for(10**7, 1) <= 2**20
    assert cells_for(1, 10**6) <= 16
    assert cells_for(10**5, 10**5) == 4 * 10**5
