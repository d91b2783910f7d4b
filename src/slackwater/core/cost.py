"""Linear cost model: a message has a fixed price and a price per unit of size."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinearCost:
    """A message costs alpha, and beta for each unit it carries.

    >>> LinearCost(alpha=3, beta=0.01).message(size=100)
    4.0
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        _not_negative(alpha=self.alpha, beta=self.beta)

    def message(self, size: float) -> float:
        """Price one message."""
        return self.alpha + self.beta * size


def _not_negative(**prices: float) -> None:
    for name, price in prices.items():
        if not price >= 0:
            raise ValueError(f"{name} of a cost model must be 0 or more, not {price}")
