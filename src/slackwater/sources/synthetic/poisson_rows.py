"""Poisson workload: inserts, updates and deletes at random times, clustered around hotspots.

Model
    In every tick the numbers of inserts, updates and deletes are Poisson with the given rates. A new or changed row
    lies, with probability `hot`, near one of the hotspots (clusters in the space of the attributes, the k-th with
    weight 1/k; normal around its centre with deviation `spread`), else anywhere in [0, `extent`)ⁿ. Only rows that
    exist are changed or deleted, no row twice in a tick, and never more than there are.

    The first tick also inserts `population` rows. A delete carries the key alone: `$op` is 1, its attributes null.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType
from slackwater.core.update import Operation
from slackwater.sources.synthetic.base import Block, Floats, Generator

_TICKS_A_BLOCK = 64
_MOST_A_TICK = 1_000_000

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class PoissonRows(Generator):
    """Table (id, a0, a1, …, at). Rates are events a tick.

    >>> [arrival] = PoissonRows(population=3, inserts=0, updates=0, deletes=0, ticks=5).arrivals()
    >>> arrival.batch.column("id").to_pylist(), arrival.batch.column("$op").to_pylist()
    ([0, 1, 2], [0, 0, 0])
    """

    NAME: ClassVar[str] = "poisson-rows"

    attributes: int = 3
    population: int = 1_000
    inserts: float = 5.0
    updates: float = 20.0
    deletes: float = 5.0
    hotspots: int = 4
    hot: float = 0.7
    spread: float = 20.0
    extent: float = 1_000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(1 <= self.attributes <= 100, "1 to 100 attributes")
        self.require(0 <= self.population <= _MOST_A_TICK, f"a population of 0 to {_MOST_A_TICK:,} rows")
        rates = (self.inserts, self.updates, self.deletes)
        self.require(all(0 <= rate <= 100_000 for rate in rates), "rates from 0 to 100,000 a tick")
        self.require(1 <= self.hotspots <= 10_000 and 0 <= self.hot <= 1, "1 to 10,000 hotspots, hot from 0 to 1")
        self.require(self.spread >= 0 and self.extent > 0, "spread 0 or more, extent above 0")

    @property
    def schema(self) -> TableSchema:
        """The rows."""
        attributes = (Column(f"a{index}", DataType.DOUBLE) for index in range(self.attributes))
        return TableSchema(
            self.table or self.NAME,
            (
                Column("id", DataType.BIGINT, nullable=False),
                *attributes,
                Column("at", DataType.TIMESTAMP, nullable=False),
            ),
            key=("id",),
            event_time="at",
        )

    def centres(self) -> Floats:
        """The hotspots' centres; drawn apart from the rows, so that they depend on the seed alone."""
        random = np.random.Generator(np.random.PCG64([self.seed, 1]))
        return random.uniform(0, self.extent, (self.hotspots, self.attributes))

    def blocks(self, random: np.random.Generator) -> Iterator[Block]:
        """Let rows come, change and go, tick by tick."""
        centres = self.centres()
        weights = np.cumsum(1 / np.arange(1, self.hotspots + 1))
        live = np.empty(0, np.int64)
        next_id = tick = 0
        while True:
            parts: list[tuple[Integers, Integers, npt.NDArray[np.int8]]] = []
            rates = (self.inserts, self.updates, self.deletes)
            for inserted, updated, deleted in random.poisson(rates, (_TICKS_A_BLOCK, 3)).tolist():
                inserted += self.population if tick == 0 else 0
                # Where there are too few rows for both, deletes come first.
                touched = random.choice(len(live), min(updated + deleted, len(live)), replace=False)
                staying = np.ones(len(live), np.bool_)
                staying[touched[:deleted]] = False
                gone, changed = live[touched[:deleted]], live[touched[deleted:]]
                fresh = np.arange(next_id, next_id + inserted)
                next_id += inserted
                keys = np.concatenate((fresh, changed, gone))
                operations = np.full(len(keys), int(Operation.UPSERT), np.int8)
                operations[len(keys) - len(gone) :] = int(Operation.DELETE)
                parts.append((keys, np.full(len(keys), tick), operations))
                live = np.concatenate((live[staying], fresh))
                tick += 1
            keys, ticks, operations = (np.concatenate(column) for column in zip(*parts, strict=True))
            points = self._points(random, len(keys), centres, weights)
            kept = operations == int(Operation.UPSERT)
            attributes = (pa.array(points[:, index], mask=~kept) for index in range(self.attributes))
            yield Block((pa.array(keys), *attributes), ticks, tick, operations)

    def _points(self, random: np.random.Generator, count: int, centres: Floats, weights: Floats) -> Floats:
        points = random.uniform(0, self.extent, (count, self.attributes))
        hot = random.random(count) < self.hot
        chosen = np.searchsorted(weights, random.random(count) * weights[-1], side="right")
        near = centres[chosen] + self.spread * random.standard_normal((count, self.attributes))
        return np.where(hot[:, None], near, points)
