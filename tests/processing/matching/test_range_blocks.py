"""Scattered ranges: equal to brute force at sizes where all ways through the blocks are taken, and chosen by cost."""

import numpy as np
import pytest

from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching import BAND, BandHotspot, HotspotTracker, JoinRows, JoinSide, band_joins
from slackwater.processing.matching.band_costs import BandCosts

AT_ONCE = BandCosts(block=0.0, look=0.0, enter=0.0, cell=0.0)
"""A table is made for the first row that asks."""
NEVER = BandCosts(cell=1e12)


class Story:
    """Queries and rows that come and go, and the truth about them."""

    def __init__(self, seed: int, costs: BandCosts, alpha: float, *, grid: float, width: float) -> None:
        self.rng, self.grid, self.width = np.random.default_rng(seed), grid, width
        self.matcher = BandHotspot(BAND, HotspotTracker(alpha), costs)
        self.queries: dict[int, tuple[float, float]] = {}
        self.rows: dict[JoinSide, dict[int, float]] = {side: {} for side in JoinSide}
        self.ever = 0

    def values(self, count: int, spread: float) -> Floats:
        drawn = self.rng.uniform(-spread, spread, count)
        return np.round(drawn / self.grid) * self.grid if self.grid else drawn

    def numbers(self, count: int) -> Integers:
        self.ever += count
        return np.arange(self.ever - count, self.ever) * 7919 % 1_000_003

    def queries_come(self, count: int) -> None:
        numbers, low = self.numbers(count), self.values(count, 500.0)
        length = self.rng.exponential(self.width, count) * self.rng.choice([0.0, 0.01, 1.0, 1.0, 20.0], count)
        high = low + (np.round(length / self.grid) * self.grid if self.grid else length)
        low[self.rng.random(count) < 0.01], high[self.rng.random(count) < 0.01] = -np.inf, np.inf
        self.matcher.add(band_joins(numbers, low, high))
        self.queries.update(zip(numbers.tolist(), zip(low.tolist(), high.tolist(), strict=True), strict=True))

    def queries_go(self, count: int) -> None:
        gone = self.rng.permutation(list(self.queries))[:count]
        self.matcher.remove(gone)
        for number in gone.tolist():
            del self.queries[number]

    def rows_change(self, side: JoinSide, come: int, go: int) -> None:
        there = self.rows[side]
        gone = self.rng.permutation(np.array(list(there), np.int64))[:go]
        self.matcher.delete(side, gone)
        for row in gone.tolist():
            del there[row]
        ids, join = self.numbers(come), self.values(come, 1000.0)
        self.matcher.insert(side, JoinRows(ids, join, np.zeros((come, 0))))
        there.update(zip(ids.tolist(), join.tolist(), strict=True))

    def check(self, asked: int) -> None:
        self.matcher._check()
        numbers = np.array(sorted(self.queries), np.int64)
        low, high = np.array([self.queries[number] for number in numbers.tolist()]).reshape(-1, 2).T
        for side in JoinSide:
            join = self.values(asked, 800.0)
            affected = self.matcher.match(side, JoinRows(np.arange(asked), join, np.zeros((asked, 0))))
            across = np.array(list(self.rows[side.other].values()))
            for row, own in enumerate(join.tolist()):
                differences = np.sort(across - own if side is JoinSide.LEFT else own - across)
                first = np.append(differences, np.nan)[np.searchsorted(differences, low)]
                assert np.array_equal(affected.of(row), numbers[first <= high])


@pytest.mark.parametrize(("grid", "width"), [(0.0, 0.1), (0.0, 10.0), (1.0, 10.0), (0.0, 1000.0), (8.0, 100.0)])
@pytest.mark.parametrize("rows", [0, 3, 60, 1500])
@pytest.mark.parametrize("alpha", [2.0, 0.02])
def test_as_brute_force(rows: int, grid: float, width: float, alpha: float) -> None:
    story = Story(rows, AT_ONCE, alpha, grid=grid, width=width)
    story.queries_come(2500)
    for side in JoinSide:
        story.rows_change(side, rows, 0)
    story.check(11)
    for _ in range(3):
        story.queries_go(300)
        story.queries_come(200)
        for side in JoinSide:
            story.rows_change(side, 40, min(rows, 40) // 2)
        story.check(3)


def test_bands_near_the_ends_of_double() -> None:
    """Sums that overflow or cancel: a cell is a lower bound whatever happens."""
    rng = np.random.default_rng(3)
    values = np.array([0.0, 1.0, -1.0, 1e16, -1e16, 1e16 + 2, 1.7e308, -1.7e308, 5e-324, 0.1, 1 / 3])
    matcher = BandHotspot(BAND, HotspotTracker(2.0), AT_ONCE)
    ends = np.sort(rng.choice(values, (400, 2)), axis=1)
    matcher.add(band_joins(np.arange(400), ends[:, 0], ends[:, 1]))
    for side in JoinSide:
        matcher.insert(side, JoinRows(np.arange(8), rng.permutation(values)[:8], np.zeros((8, 0))))
    for side in JoinSide:
        across = matcher.rows(side.other, np.arange(8)).join
        affected = matcher.match(side, JoinRows(np.arange(len(values)), values, np.zeros((len(values), 0))))
        for row, own in enumerate(values.tolist()):
            with np.errstate(over="ignore"):
                differences = across - own if side is JoinSide.LEFT else own - across
            held = (ends[:, :1] <= differences) & (differences <= ends[:, 1:])
            assert affected.of(row).tolist() == np.flatnonzero(held.any(axis=1)).tolist()


def test_more_values_in_a_cell_than_are_counted() -> None:
    story = Story(1, AT_ONCE, 2.0, grid=0.0, width=0.001)
    story.queries_come(400)
    story.rows_change(JoinSide.RIGHT, 1000, 0)
    story.check(1)
    # Far more rows than when the table was made, so that cells are crowded, and then few again.
    story.matcher._scattered._costs = NEVER
    story.rows_change(JoinSide.RIGHT, 0, 0)
    ids = np.arange(10**7, 10**7 + 2000)
    join = story.rng.uniform(3.0, 3.0001, 2000)
    story.matcher.insert(JoinSide.RIGHT, JoinRows(ids, join, np.zeros((2000, 0))))
    story.rows[JoinSide.RIGHT].update(zip(ids.tolist(), join.tolist(), strict=True))
    story.check(3)
    story.rows_change(JoinSide.RIGHT, 0, 2500)
    story.check(3)


def test_a_table_is_made_once_it_pays() -> None:
    story = Story(2, BandCosts(), 2.0, grid=0.0, width=1.0)
    story.queries_come(50)
    story.rows_change(JoinSide.RIGHT, 5000, 0)
    index = story.matcher._scattered
    story.check(1)
    assert index._tables == [None, None]
    for _ in range(10):
        story.check(20)
    table = index._tables[JoinSide.RIGHT]
    assert table is not None
    assert index._tables[JoinSide.LEFT] is None, "a side without rows needs none"
    # It is kept while it is good, and made anew when rows have drifted away from it and are asked for there.
    story.check(20)
    assert index._tables[JoinSide.RIGHT] is table
    ids = np.arange(10**7, 10**7 + 20_000)
    join = story.rng.uniform(3000.0, 4000.0, 20_000)
    story.matcher.insert(JoinSide.RIGHT, JoinRows(ids, join, np.zeros((20_000, 0))))
    asked = story.rng.uniform(3400.0, 3600.0, 200)
    for _ in range(20):
        story.matcher.match(JoinSide.LEFT, JoinRows(np.arange(200), asked, np.zeros((200, 0))))
    renewed = index._tables[JoinSide.RIGHT]
    assert renewed is not None
    assert renewed.rows_when_made == 25_000
    story.matcher._check()


def test_forgotten_rows_leave_no_table() -> None:
    story = Story(4, AT_ONCE, 2.0, grid=0.0, width=5.0)
    story.queries_come(100)
    story.rows_change(JoinSide.RIGHT, 100, 0)
    story.check(2)
    story.matcher.forget_rows()
    story.rows[JoinSide.RIGHT].clear()
    story.check(2)
