"""Workload generator: standing joins and rows with a given mean number of affected queries a row.

Ranges lie around the points of stabbing groups; how far they reach to either side has a heavy tail (Pareto with
exponent ½): most are narrow, a few wide, so that the number of affected queries of a row varies gently about its mean.
The scale of the tail follows from the density of the rows across.
"""

import math

import numpy as np

from slackwater.kernels.stabbing_groups import greedy_groups
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching import BAND, SELECT, JoinRows, Joins, band_joins, select_joins
from slackwater.processing.matching.histogram import ProbedRanges

LENGTH = 1_000_000.0
"""The line on which join values lie."""


def _reach(rng: np.random.Generator, count: int, gap: float, share: float, most: float) -> Floats:
    """How far ranges reach, if rows come at random with this gap and each side is to be hit with this probability."""
    scale = gap * (share / (2 * math.gamma(0.5))) ** 2
    return np.minimum(scale * rng.random(count) ** -2.0, most)


class BandWorkload:
    """Band joins around so many points, and rows of the right side spread evenly."""

    shape = BAND

    def __init__(
        self,
        rng: np.random.Generator,
        queries: int,
        rows: int,
        groups: int,
        *,
        affected: float = 10.0,
        points: Floats | None = None,
        first: int = 0,
    ) -> None:
        self._rng = rng
        self.points = np.linspace(-LENGTH / 4, LENGTH / 4, groups) if points is None else points
        middle = rng.choice(self.points, queries)
        most = LENGTH / (4 * groups)
        low = middle - _reach(rng, queries, LENGTH / rows, affected / queries, most)
        high = middle + _reach(rng, queries, LENGTH / rows, affected / queries, most)
        self.queries = band_joins(np.arange(first, first + queries), low, high)
        self.across = JoinRows(np.arange(rows), rng.uniform(0, LENGTH, rows), np.zeros((rows, 0)))

    def draw(self, count: int) -> JoinRows:
        """Rows of the left side whose partners lie on the line."""
        join = self._rng.uniform(LENGTH / 4, 3 * LENGTH / 4, count)
        return JoinRows(np.arange(count), join, np.zeros((count, 0)))

    def part(self, start: int, end: int) -> Joins:
        """Some of the queries."""
        own = slice(start, end)
        return band_joins(self.queries.numbers[own], self.queries.low[own], self.queries.high[own])


class SelectWorkload:
    """Select-joins whose right ranges lie around so many points; each left range holds a share `wanted` of the rows.

    A key joins 100 rows of the right side.
    """

    shape = SELECT
    joining = 100
    domain = 10_000.0

    def __init__(
        self, rng: np.random.Generator, queries: int, rows: int, groups: int, wanted: float, *, affected: float = 10.0
    ) -> None:
        self._rng = rng
        self._keys = max(rows // self.joining, 1)
        middle = rng.choice((np.arange(groups) + 0.5) * self.domain / groups, queries)
        gap, most = self.domain / self.joining, self.domain / (3 * groups)
        share = min(affected / (queries * wanted), 1.0)
        own = rng.uniform(0, self.domain, queries)
        half = rng.uniform(0.5, 1.5, queries) * wanted * self.domain / 2
        self.queries = select_joins(
            np.arange(queries),
            own - half,
            own + half,
            middle - _reach(rng, queries, gap, share, most),
            middle + _reach(rng, queries, gap, share, most),
        )
        keys = rng.integers(0, self._keys, rows).astype(np.float64)
        self.across = JoinRows(np.arange(rows), keys, rng.uniform(0, self.domain, (rows, 1)))

    def draw(self, count: int) -> JoinRows:
        """Rows of the left side."""
        keys = self._rng.integers(0, self._keys, count).astype(np.float64)
        return JoinRows(np.arange(count), keys, self._rng.uniform(0, self.domain, (count, 1)))


def chapter_ranges(rng: np.random.Generator, count: int, middles: float, lengths: float) -> tuple[ProbedRanges, int]:
    """Ranges in [0, 10 000] with normal midpoints about 5 000 and normal lengths about 1 000, and their groups."""
    middle, length = rng.normal(5000, middles, count), rng.normal(1000, lengths, count)
    while (length <= 0).any():
        length[length <= 0] = rng.normal(1000, lengths, int((length <= 0).sum()))
    low, high = np.clip(middle - length / 2, 0, 10_000), np.clip(middle + length / 2, 0, 10_000)
    by = np.argsort(low)
    groups: Integers = np.empty(count, np.int64)
    return ProbedRanges(low, high, 0.0, 10_000.0), int(greedy_groups(low[by], high[by], groups))
