"""Cost models M1, M2 and M3: the cost of pushing an update and of pulling a query.

M1 counts messages. M2 gives each event a constant of its own. M3 is linear in size: pushing an update of size s costs
α + β·s, and a pulled query costs α once and β·s for the data s of every PULL place it touches.

References
    A. Bagchi, A. Chaudhary, M. T. Goodrich, C. Li, M. Shmueli-Scheuer, Achieving communication efficiency through
    push-pull partitioning of semantic spaces to disseminate dynamic information, IEEE TKDE 18(10), 2006, section
    III: the cost models M1, M2 and M3.
"""

from dataclasses import dataclass
from typing import Protocol


class Pricing(Protocol):
    """Cost of events; `price` is the event's own price, `size` its payload."""

    def pushing(self, price: float, size: float) -> float:
        """Price an update that is pushed."""
        ...

    def setup(self, price: float) -> float:
        """Price a query that is pulled, without its data."""
        ...

    def rate(self) -> float:
        """Price a unit of data in a pulled query."""
        ...


@dataclass(frozen=True, slots=True)
class Messages:
    """M1: every message costs 1."""

    def pushing(self, price: float, size: float) -> float:
        """One message."""
        return 1.0

    def setup(self, price: float) -> float:
        """One message."""
        return 1.0

    def rate(self) -> float:
        """Data ride along."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Constants:
    """M2: every event costs its own price."""

    def pushing(self, price: float, size: float) -> float:
        """Its own price."""
        return price

    def setup(self, price: float) -> float:
        """Its own price."""
        return price

    def rate(self) -> float:
        """Data ride along."""
        return 0.0


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


@dataclass(frozen=True, slots=True)
class Linear:
    """M3: a message costs α and β for each unit of size, both possibly different for updates and for queries.

    >>> Linear(LinearCost(3, 0.01), LinearCost(3, 0.01)).pushing(price=1.0, size=100.0)
    4.0
    """

    update: LinearCost
    query: LinearCost

    def pushing(self, price: float, size: float) -> float:
        """α and β·size."""
        return self.update.message(size)

    def setup(self, price: float) -> float:
        """α alone."""
        return self.query.alpha

    def rate(self) -> float:
        """β."""
        return self.query.beta
