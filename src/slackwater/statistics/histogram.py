"""Histogram of values for each attribute, on a grid that adapts to the data.

For what: how many updates fall into a range decides whether a region is worth pushing, and how large a selection is.

Cells are [k·2^L, (k+1)·2^L), the level L the smallest at which at most `cells` of them are occupied and the largest
|value| is within 2^20 cells of zero. Doubling the width makes cells fall together in pairs, so merging is exact
(`cells`).

*Error.* The count of a range whose ends are edges of cells is exact. Otherwise it is off by at most the counts of the
cells that hold the ends; inside a cell values are taken as evenly spread. A cell is narrower than
2·(high − low)/(cells − 1), or than 2^−18 of the largest |value|, whichever is more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from slackwater.core.errors import StatisticsError
from slackwater.kernels import dyadic
from slackwater.statistics import encoding
from slackwater.statistics.cells import LOWEST_DYADIC as LOWEST
from slackwater.statistics.cells import Cells
from slackwater.statistics.rules import Floats, Integers, Rules
from slackwater.statistics.slots import Slots
from slackwater.statistics.ticks import Ticks

BITS = 20
OFFSET = 1 << 40


@dataclass(frozen=True, eq=False)
class Distribution:
    """Occupied cells in order: cell i is [edges[i], edges[i] + width) and holds `weights[i]`."""

    width: float
    edges: Floats
    weights: Floats

    @property
    def total(self) -> float:
        """How many values there are."""
        return float(self.weights.sum())

    def below(self, point: float) -> float:
        """How many values are smaller than a point, values of a cell taken as evenly spread."""
        share = np.clip(point - self.edges, 0.0, self.width) / self.width
        return float(self.weights @ share)

    def surely_below(self, point: float) -> tuple[float, float]:
        """The least and the most that can be smaller than a point."""
        least = float(self.weights[self.edges + self.width <= point].sum())
        return least, float(self.weights[self.edges < point].sum())

    def between(self, low: float, high: float) -> float:
        """How many values lie from `low` up to but not at `high`."""
        return max(0.0, self.below(high) - self.below(low))

    def quantile(self, share: float) -> float:
        """A point with about this share of the values below it."""
        if not 0.0 <= share <= 1.0 or self.total == 0.0:
            raise StatisticsError(f"a quantile needs a share from 0 to 1 and at least one value, but came {share}")
        upto = np.cumsum(self.weights)
        place = min(int(np.searchsorted(upto, share * upto[-1])), len(self.edges) - 1)
        inside = (share * upto[-1] - (upto[place] - self.weights[place])) / self.weights[place]
        return float(self.edges[place] + min(max(inside, 0.0), 1.0) * self.width)


@dataclass(frozen=True, eq=False)
class HistogramFigures:
    """The distribution of each attribute."""

    items: tuple[str, ...]
    distributions: tuple[Distribution, ...]

    def __getitem__(self, item: str) -> Distribution:
        return self.distributions[self.items.index(item)]


class Histogram(Slots):
    """Counts of values by attribute (the items of the ticks); ticks may come in any order of time.

    >>> histogram = Histogram(cells=4)
    >>> histogram.update(Ticks.of(["price"] * 6, [1, 2, 3, 4, 5, 6], [0.0, 1.0, 1.5, 2.0, 6.0, 7.5]))
    >>> prices = histogram.value()["price"]
    >>> prices.width, prices.edges.tolist(), prices.weights.tolist(), prices.between(0.0, 2.0)
    (2.0, [0.0, 2.0, 6.0], [3.0, 1.0, 2.0], 3.0)
    """

    kind: ClassVar[str] = "histogram"

    def __init__(self, rules: Rules | None = None, cells: int = 512) -> None:
        if cells < 2:
            raise StatisticsError(f"cells must be at least 2, but came {cells}")
        super().__init__(rules or Rules())
        self.most = cells
        self.cells = Cells.empty(np.zeros(0, np.int64))

    def parameters(self) -> dict[str, Any]:
        """What the summary was made with."""
        return {"half_life": self.rules.half_life, "cells": self.most}

    @classmethod
    def made_with(cls, parameters: dict[str, Any]) -> Self:
        """An empty summary with these parameters."""
        return cls(Rules(half_life=parameters["half_life"]), cells=parameters["cells"])

    def value(self) -> HistogramFigures:
        """The distributions."""
        order, factors = self.by_name(), self.factors()
        found = distributions(self.cells.faded(factors))
        return HistogramFigures(tuple(sorted(self.names)), tuple(found[slot] for slot in order))

    def update(self, batch: Ticks) -> None:
        """Count a batch of values."""
        if len(batch) == 0:
            return
        lasts = batch.times[batch.lasts]
        weights = self.rules.fading(np.repeat(lasts, np.diff(batch.starts)) - batch.times)
        levels = self.levels(self.cells, batch.names)
        cells = counted(levels, batch.items, batch.values, weights, self.most)
        self._take(batch.names, batch.times[batch.firsts], lasts, cells)

    def merge(self, later: Self) -> None:
        """Count what another summary has counted."""
        self.check(later)
        self._take(later.names, later.firsts, later.lasts, later.cells)

    def to_table(self) -> pa.Table:
        """A row for each attribute, in order of name, with its cells as lists."""
        return pa.table({**self.columns(), **cell_columns(self.cells, self.by_name())})

    @classmethod
    def from_table(cls, table: pa.Table, parameters: dict[str, Any]) -> Self:
        """The summary that such a table was made of."""
        summary = cls.made_with(parameters)
        summary.restore(table)
        summary.cells = cells_of(table)
        return summary

    def _take(self, names: Sequence[str], firsts: Integers, lasts: Integers, cells: Cells) -> None:
        slots, mine, theirs = self.meet(names, firsts, lasts)
        self.cells = merged(self.cells, mine, cells, theirs, slots, self.most)


def counted(levels: Integers, places: Integers, values: Floats, weights: Floats, most: int) -> Cells:
    """The cells of values that belong to slots, at the lowest levels that fit and are not below those given."""
    largest = np.zeros(len(levels))
    dyadic.largest_size(places, values, largest)
    levels = np.maximum(levels, np.where(largest > 0, np.frexp(largest)[1] - BITS, LOWEST))
    keys = np.empty(len(values), np.int64)
    dyadic.find_cells(places, values, levels, OFFSET, keys)
    return Cells(levels, places, keys, weights).fitted(most, up)


def merged(mine: Cells, my_factors: Floats, theirs: Cells, their_factors: Floats, slots: Integers, most: int) -> Cells:
    """Cells put together; `slots` says where theirs belong among mine, the factors how each side has faded."""
    lowest = np.full(len(my_factors), LOWEST, np.int64)
    earlier = mine.moved(np.arange(len(mine.levels)), lowest).faded(my_factors)
    later = theirs.faded(their_factors).moved(slots, lowest)
    levels = np.maximum(earlier.levels, later.levels)
    return (earlier.raised(levels, up) + later.raised(levels, up)).fitted(most, up)


def up(keys: Integers, steps: Integers) -> Integers:
    """Cells that many levels up."""
    raised: Integers = ((keys - OFFSET) >> np.minimum(steps, 62)) + OFFSET
    return raised


def distributions(cells: Cells) -> list[Distribution]:
    """The distribution of each slot."""
    ends = np.cumsum(cells.lengths())
    starts = ends - cells.lengths()
    found = []
    for level, start, end in zip(cells.levels.tolist(), starts, ends, strict=True):
        width = float(np.ldexp(1.0, level))
        edges = np.ldexp((cells.keys[start:end] - OFFSET).astype(np.float64), level)
        found.append(Distribution(width, edges, cells.weights[start:end]))
    return found


def cell_columns(cells: Cells, order: Integers, prefix: str = "") -> dict[str, pa.Array]:
    """Cells as Arrow columns, slots in the order given."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    cells = cells.moved(place, np.zeros(len(order), np.int64)).gathered()
    lengths = cells.lengths()
    return {
        f"{prefix}level": pa.array(cells.levels),
        f"{prefix}cell": encoding.ragged(lengths, pa.array(cells.keys - OFFSET)),
        f"{prefix}count": encoding.ragged(lengths, pa.array(cells.weights)),
    }


def cells_of(table: pa.Table, prefix: str = "") -> Cells:
    """The cells that such columns hold."""
    keys, weights = (encoding.flat(table.column(f"{prefix}{name}")) for name in ("cell", "count"))
    slots = np.repeat(np.arange(table.num_rows), keys.value_lengths().to_numpy(zero_copy_only=False))
    levels = table.column(f"{prefix}level").to_numpy().astype(np.int64)
    found = keys.flatten().to_numpy(zero_copy_only=False) + OFFSET
    return Cells(levels, slots, found, weights.flatten().to_numpy(zero_copy_only=False))
