"""A random walk with drift: X_t = X_{t−1} + drift + N(0, σ²), each item on its own."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slackwater.sources.synthetic.base import Floats, ItemGenerator


@dataclass(frozen=True, kw_only=True)
class RandomWalk(ItemGenerator):
    """`origin` is the value before the first step, `drift` and `sigma` are per tick.

    >>> [arrival] = RandomWalk(items=1, ticks=3, drift=2.0, sigma=0.0, origin=10.0).arrivals()
    >>> arrival.batch.column("value").to_pylist()
    [12.0, 14.0, 16.0]
    """

    NAME: ClassVar[str] = "random-walk"

    origin: float = 100.0
    drift: float = 0.0
    sigma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.sigma >= 0, "sigma must be 0 or more")

    def values(self, random: np.random.Generator) -> Iterator[Floats]:
        """Walk on."""
        value = np.full(self.items, self.origin)
        while True:
            steps = self.drift + self.sigma * random.standard_normal((self.block_ticks, self.items))
            walked = value + np.cumsum(steps, axis=0)
            value = walked[-1]
            yield walked
