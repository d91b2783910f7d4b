"""What a message costs: the three models that planning and accounting use.

The unit model counts messages, the constant model charges a fixed price for each, the linear model a fixed
price and a price per unit of size.
"""

from dataclasses import dataclass
from typing import Protocol


class CostModel(Protocol):
    """The price of one message that carries `size` units (rows or bytes, whichever the caller counts in)."""

    def message(self, size: float) -> float:
        """Price one message."""
        ...


@dataclass(frozen=True, slots=True)
class UnitCost:
    """Every message costs 1.

    >>> UnitCost().message(size=500)
    1.0
    """

    def message(self, size: float) -> float:
        """Price one message."""
        return 1.0


@dataclass(frozen=True, slots=True)
class ConstantCost:
    """Every message costs the same."""

    price: float

    def __post_init__(self) -> None:
        _not_negative(price=self.price)

    def message(self, size: float) -> float:
        """Price one message."""
        return self.price


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
