"""Independent stationary values: each one drawn from one distribution, without memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slackwater.sources.synthetic.base import Floats, ItemGenerator


@dataclass(frozen=True, kw_only=True)
class Stationary(ItemGenerator):
    """Draws from `choices` with the given `weights` (equal ones if none), or from N(mean, sigma²) without choices.

    >>> [arrival] = Stationary(items=1, ticks=4, choices=(7.0,)).arrivals()
    >>> arrival.batch.column("value").to_pylist()
    [7.0, 7.0, 7.0, 7.0]
    """

    NAME: ClassVar[str] = "stationary"

    mean: float = 0.0
    sigma: float = 1.0
    choices: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.sigma >= 0, "sigma must be 0 or more")
        self.require(not self.weights or len(self.weights) == len(self.choices), "one weight for each choice")
        self.require(all(weight >= 0 for weight in self.weights), "weights must be 0 or more")
        self.require(not self.weights or sum(self.weights) > 0, "some weight must be above 0")

    def values(self, random: np.random.Generator) -> Iterator[Floats]:
        """Draw."""
        size = (self.block_ticks, self.items)
        if not self.choices:
            while True:
                yield self.mean + self.sigma * random.standard_normal(size)
        weights = np.array(self.weights or [1.0] * len(self.choices))
        edges = np.cumsum(weights / weights.sum())[:-1]
        choices = np.array(self.choices, np.float64)
        while True:
            yield choices[np.searchsorted(edges, random.random(size), side="right")]
