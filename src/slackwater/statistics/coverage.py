"""Query coverage: how many query ranges contain a value, for each attribute.

For what: the number of queries that cover a region, set against the number of updates that fall there (`histogram`),
decides whether the region is pushed or pulled.

A range [low, high] holds x when low ≤ x and x ≤ high, so the number of ranges that hold x is the number of lower ends
up to x minus the number of upper ends below x: two histograms of ends say it. An end may be infinite; those are
counted apart.

*Error.* At an edge of a cell of both histograms the count is exact, up to whether an end that lies exactly there is
open or closed; inside it is off by at most the ends in the two cells that hold x.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from slackwater.core.errors import StatisticsError
from slackwater.statistics.cells import Cells
from slackwater.statistics.histogram import (
    Distribution,
    cell_columns,
    cells_of,
    counted,
    distributions,
    merged,
)
from slackwater.statistics.rules import Floats, Integers, Rules
from slackwater.statistics.slots import Slots
from slackwater.statistics.ticks import LARGEST_VALUE, Column, grouped_columns


@dataclass(frozen=True, eq=False)
class Ranges:
    """Queries as columns: attribute, when it was asked, lower and upper end; grouped by attribute.

    >>> Ranges.of(["ra", "ra"], [1, 2], [10.0, float("-inf")], [20.0, 15.0]).names
    ('ra',)
    """

    names: tuple[str, ...]
    starts: Integers
    times: Integers
    lows: Floats
    highs: Floats

    @classmethod
    def of(cls, attributes: Column, times: Column, lows: Column, highs: Column) -> "Ranges":
        """Bring four columns of equal length into order."""
        names, starts, ordered, (low, high) = grouped_columns(attributes, times, [lows, highs])
        if not np.all((low <= high) & (low < np.inf) & (high > -np.inf)):
            raise StatisticsError("a range needs two ends, the lower one not above the upper one")
        return cls(names, starts, ordered, low, high)

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True, eq=False)
class Covering:
    """The ranges over one attribute: where they begin, where they end, how many have no beginning or no end."""

    total: float
    unbounded_below: float
    unbounded_above: float
    lows: Distribution
    highs: Distribution

    def at(self, point: float) -> float:
        """How many ranges hold a point."""
        return self.unbounded_below + self.lows.below(point) - self.highs.below(point)

    def surely_at(self, point: float) -> tuple[float, float]:
        """The least and the most ranges that can hold a point."""
        lows = self.lows.edges, self.lows.edges + self.lows.width
        highs = self.highs.edges, self.highs.edges + self.highs.width
        surely_begun, begun = (float(self.lows.weights[edge <= point].sum()) for edge in reversed(lows))
        ended, surely_ended = highs[0] < point, highs[1] <= point
        least = surely_begun - float(self.highs.weights[ended].sum())
        most = begun - float(self.highs.weights[surely_ended].sum())
        return self.unbounded_below + least, self.unbounded_below + most


@dataclass(frozen=True, eq=False)
class CoverageFigures:
    """Coverage of each attribute."""

    items: tuple[str, ...]
    coverings: tuple[Covering, ...]

    def __getitem__(self, item: str) -> Covering:
        return self.coverings[self.items.index(item)]


class Coverage(Slots):
    """Counts of the ends of ranges by attribute; ranges may come in any order of time.

    >>> coverage = Coverage()
    >>> coverage.update(Ranges.of(["ra"] * 3, [1, 2, 3], [0.0, 4.0, float("-inf")], [8.0, 6.0, 2.0]))
    >>> [coverage.value()["ra"].at(x) for x in (-1.0, 1.0, 5.0, 9.0)]
    [1.0, 2.0, 2.0, 0.0]
    """

    kind: ClassVar[str] = "coverage"

    def __init__(self, rules: Rules | None = None, cells: int = 512) -> None:
        if cells < 2:
            raise StatisticsError(f"cells must be at least 2, but came {cells}")
        super().__init__(rules or Rules())
        self.most = cells
        self.lows = self.highs = Cells.empty(np.zeros(0, np.int64))
        self.open: Floats = np.zeros((0, 3))
        """For each slot: all ranges, those without a lower end, those without an upper end."""

    def parameters(self) -> dict[str, Any]:
        """What the summary was made with."""
        return {"half_life": self.rules.half_life, "cells": self.most}

    def value(self) -> CoverageFigures:
        """The coverings."""
        order, factors = self.by_name(), self.factors()
        lows, highs = distributions(self.lows.faded(factors)), distributions(self.highs.faded(factors))
        counts = (self.open * factors[:, None]).tolist()
        found = tuple(
            Covering(total, below, above, lows[slot], highs[slot])
            for slot, (total, below, above) in ((slot, counts[slot]) for slot in order.tolist())
        )
        return CoverageFigures(tuple(sorted(self.names)), found)

    def update(self, batch: Ranges) -> None:
        """Count a batch of ranges."""
        if len(batch) == 0:
            return
        count, lengths = len(batch.names), np.diff(batch.starts)
        places = np.repeat(np.arange(count), lengths)
        lasts = batch.times[batch.starts[1:] - 1]
        weights = self.rules.fading(np.repeat(lasts, lengths) - batch.times)
        totals, sides = np.bincount(places, weights, count), []
        unbounded = []
        for ends, cells in ((batch.lows, self.lows), (batch.highs, self.highs)):
            finite = np.isfinite(ends)
            values = np.clip(ends[finite], -LARGEST_VALUE, LARGEST_VALUE)
            levels = self.levels(cells, batch.names)
            sides.append(counted(levels, places[finite], values, weights[finite], self.most))
            unbounded.append(np.bincount(places[~finite], weights[~finite], count))
        opened = np.stack([totals, *unbounded], axis=1)
        self._take(batch.names, (batch.times[batch.starts[:-1]], lasts), opened, sides[0], sides[1])

    def merge(self, later: Self) -> None:
        """Count what another summary has counted."""
        self.check(later)
        self._take(later.names, (later.firsts, later.lasts), later.open, later.lows, later.highs)

    def to_table(self) -> pa.Table:
        """A row for each attribute, in order of name, with the cells of both ends as lists."""
        order = self.by_name()
        columns = ("total", "unbounded_below", "unbounded_above")
        counts = {name: pa.array(self.open[order, column]) for column, name in enumerate(columns)}
        ends = {**cell_columns(self.lows, order, "low_"), **cell_columns(self.highs, order, "high_")}
        return pa.table({**self.columns(), **counts, **ends})

    @classmethod
    def from_table(cls, table: pa.Table, parameters: dict[str, Any]) -> Self:
        """The summary that such a table was made of."""
        summary = cls(Rules(half_life=parameters["half_life"]), cells=parameters["cells"])
        summary.restore(table)
        columns = ("total", "unbounded_below", "unbounded_above")
        summary.open = np.stack([table.column(name).to_numpy() for name in columns], axis=1)
        summary.lows, summary.highs = cells_of(table, "low_"), cells_of(table, "high_")
        return summary

    def _take(
        self, names: Sequence[str], span: tuple[Integers, Integers], opened: Floats, lows: Cells, highs: Cells
    ) -> None:
        slots, mine, theirs = self.meet(names, *span)
        larger = np.zeros((len(mine), 3))
        larger[: len(self.open)] = self.open
        larger *= mine[:, None]
        larger[slots] += opened * theirs[:, None]
        self.open = larger
        self.lows = merged(self.lows, mine, lows, theirs, slots, self.most)
        self.highs = merged(self.highs, mine, highs, theirs, slots, self.most)
