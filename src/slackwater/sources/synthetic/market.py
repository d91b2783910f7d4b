"""Factor model of a market with volatility bursts: correlated prices of shares, quiet and then wild.

Model
    The logarithm of a price walks. A step of share i in sector s is

        σ_t · ( β·f_t + γ·g_{s,t} + √(1 − β² − γ²)·e_{i,t} ),        f, g, e ~ N(0, 1)

    with one factor f for the market and one g for each sector. So steps of shares of one sector have correlation
    β² + γ², of different sectors β², and each has deviation σ_t whatever the factors are.

    σ_t is `volatility`, and `burst_factor` times that during a burst. In every tick a burst begins with probability
    `burst_chance`; it lasts `burst_ticks` ticks, and one that begins in another prolongs it.

    Prices are rounded to cents and are at least one cent.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slackwater.sources.synthetic.base import Floats, ItemGenerator

LOWEST, HIGHEST = 0.01, 1e9


@dataclass(frozen=True, kw_only=True)
class Market(ItemGenerator):
    """Table (symbol, price, at); shares are dealt to `sectors` sectors in turn.

    First prices are spread from `cheapest` to `dearest`, evenly by ratio.

    >>> market = Market(items=3, ticks=1, seed=7)
    >>> [arrival] = market.arrivals()
    >>> arrival.batch.column("symbol").to_pylist(), market.source.startswith("market:7:")
    (['S000', 'S001', 'S002'], True)
    """

    NAME: ClassVar[str] = "market"

    items: int = 20
    sectors: int = 4
    market_weight: float = 0.5
    sector_weight: float = 0.4
    volatility: float = 0.0005
    burst_chance: float = 0.002
    burst_ticks: int = 100
    burst_factor: float = 6.0
    cheapest: float = 20.0
    dearest: float = 400.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.sectors >= 1, "at least one sector")
        self.require(
            self.market_weight**2 + self.sector_weight**2 <= 1, "the squares of the two weights may sum to 1 at most"
        )
        self.require(0 <= self.volatility <= 0.5, "the volatility must lie from 0 to 0.5 a tick")
        self.require(0 <= self.burst_chance <= 1 and self.burst_ticks >= 1, "burst chance 0 to 1, bursts of 1 tick up")
        self.require(0 < self.burst_factor <= 1000, "the burst factor must be above 0 and at most 1000")
        self.require(LOWEST <= self.cheapest <= self.dearest <= HIGHEST, "prices from 0.01 to 1e9")

    @property
    def item_column(self) -> str:
        """Shares have symbols."""
        return "symbol"

    @property
    def value_column(self) -> str:
        """And prices."""
        return "price"

    def names(self) -> list[str]:
        """`S000`, `S001`, … ."""
        return [f"S{index:03d}" for index in range(self.items)]

    def values(self, random: np.random.Generator) -> Iterator[Floats]:
        """Walk on."""
        share = np.linspace(0, 1, self.items)
        level = math.log(self.cheapest) + share * math.log(self.dearest / self.cheapest)
        latest_burst = -self.burst_ticks
        own = math.sqrt(max(0.0, 1 - self.market_weight**2 - self.sector_weight**2))
        sector = np.arange(self.items) % self.sectors
        first = 0
        while True:
            ticks = np.arange(first, first + self.block_ticks)
            begins = np.where(random.random(self.block_ticks) < self.burst_chance, ticks, latest_burst)
            latest = np.maximum.accumulate(np.maximum(begins, latest_burst))
            wild = ticks - latest < self.burst_ticks
            latest_burst = int(latest[-1])
            sigma = self.volatility * np.where(wild, self.burst_factor, 1.0)
            market = random.standard_normal((self.block_ticks, 1))
            sectors = random.standard_normal((self.block_ticks, self.sectors))[:, sector]
            single = random.standard_normal((self.block_ticks, self.items))
            steps = self.market_weight * market + self.sector_weight * sectors + own * single
            logs = level + np.cumsum(sigma[:, None] * steps, axis=0)
            # Keeping the walk inside keeps exp() finite after any number of ticks.
            logs = np.clip(logs, math.log(LOWEST), math.log(HIGHEST))
            level = logs[-1]
            yield np.maximum(np.round(np.exp(logs), 2), LOWEST)
            first += self.block_ticks
