"""First-order autoregression: X_t = φ·X_{t−1} + c + N(0, σ²).

For |φ| < 1 the values return to c / (1 − φ) with standard deviation σ / √(1 − φ²); that is where they start.

The recurrence is solved for a whole block at once: with Y_t the noise, doubling k = 1, 2, 4, … and adding
φᵏ·Y_{t−k} to Y_t gives Σ φʲ·e_{t−j} after log₂(ticks) passes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slackwater.sources.synthetic.base import Floats, ItemGenerator


@dataclass(frozen=True, kw_only=True)
class AutoRegression(ItemGenerator):
    """`phi` is how much of a value stays, `constant` what is added, `sigma` the noise.

    >>> AutoRegression(phi=0.9, constant=2.0).mean
    20.000000000000004
    """

    NAME: ClassVar[str] = "ar1"

    phi: float = 0.9
    constant: float = 0.0
    sigma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(-1 < self.phi < 1, "phi must lie between −1 and 1; for 1 use the random walk")
        self.require(self.sigma >= 0, "sigma must be 0 or more")

    @property
    def mean(self) -> float:
        """Where the values return to."""
        return self.constant / (1 - self.phi)

    @property
    def deviation(self) -> float:
        """The standard deviation of the values."""
        return self.sigma / math.sqrt(1 - self.phi**2)

    def values(self, random: np.random.Generator) -> Iterator[Floats]:
        """Make values that are stationary from the first on."""
        value = self.mean + self.deviation * random.standard_normal(self.items)
        while True:
            block = self.constant + self.sigma * random.standard_normal((self.block_ticks, self.items))
            block[0] += self.phi * value
            step, weight = 1, self.phi
            while step < self.block_ticks:
                block[step:] += weight * block[:-step].copy()
                step, weight = 2 * step, weight * weight
            value = block[-1]
            yield block
