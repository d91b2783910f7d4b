"""A linear trend with bounded noise: X_t = origin + speed·(t − lag) + e, |e| ≤ bound.

This is the shape of two streams that join: both rise at the same speed, one some ticks behind the other, and the
noise decides how far apart matching values stand. The noise is normal, drawn again until it lies within the bound,
or uniform.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np

from slackwater.sources.synthetic.base import Floats, ItemGenerator


class Noise(Enum):
    """How the noise is distributed within its bound."""

    NORMAL = "normal"
    UNIFORM = "uniform"


@dataclass(frozen=True, kw_only=True)
class LinearTrend(ItemGenerator):
    """Item i rises by `speed + i × speed_step` a tick and is `i × lag` ticks behind item 0.

    `sigma` is the deviation of normal noise before it is bounded. With `integers` values are rounded to whole
    numbers, which may move them by up to a half beyond the bound.

    >>> [arrival] = LinearTrend(items=2, ticks=2, bound=0.0, speed=1.0, lag=3).arrivals()
    >>> arrival.batch.column("value").to_pylist()
    [0.0, -3.0, 1.0, -2.0]
    """

    NAME: ClassVar[str] = "linear-trend"

    origin: float = 0.0
    speed: float = 1.0
    speed_step: float = 0.0
    lag: float = 0.0
    noise: Noise = Noise.NORMAL
    sigma: float = 5.0
    bound: float = 10.0
    integers: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.sigma >= 0 and self.bound >= 0, "sigma and bound must be 0 or more")
        # Drawing again ends soon when a fair share lies within the bound: 8 % at a tenth of sigma.
        self.require(
            self.noise is Noise.UNIFORM or self.bound == 0 or self.bound >= self.sigma / 10,
            "a bound of less than a tenth of sigma leaves next to nothing of the normal; use uniform noise",
        )

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers."""
        return self.integers

    def values(self, random: np.random.Generator) -> Iterator[Floats]:
        """Follow the trend."""
        order = np.arange(self.items)
        speeds = self.speed + order * self.speed_step
        first = 0
        while True:
            ticks = np.arange(first, first + self.block_ticks)
            trend = self.origin + speeds * (ticks[:, None] - order * self.lag)
            values = trend + self._noise(random)
            yield np.rint(values) if self.integers else values
            first += self.block_ticks

    def _noise(self, random: np.random.Generator) -> Floats:
        size = (self.block_ticks, self.items)
        if self.noise is Noise.UNIFORM:
            return random.uniform(-self.bound, self.bound, size)
        if self.bound == 0:
            return np.zeros(size)
        noise = self.sigma * random.standard_normal(size)
        while (outside := np.abs(noise) > self.bound).any():
            noise[outside] = self.sigma * random.standard_normal(int(outside.sum()))
        return noise
