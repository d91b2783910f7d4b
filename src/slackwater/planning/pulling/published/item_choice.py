"""Item choice protocol: from predicted changes, the items to pull so that queries return to their limits.

A choice looks at one tick. It is given each query's items, weights and limit (sf·B), and the change predicted for each
item since it was last pulled. A pulled item's predicted change is 0. Finding the fewest items is NP-hard; `fewest`
finds them by trying all sets and is the yardstick of the tests, the others are rules of thumb.

References
    R. Gupta, A. Puri, K. Ramamritham, Executing incoherency bounded continuous queries at web data aggregators,
    WWW 2005, section 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Limited:
    """A weighted sum as a choice sees it."""

    items: tuple[int, ...]
    weights: tuple[float, ...]
    limit: float

    def error(self, changes: Sequence[float]) -> float:
        """The predicted error Σ wᵢ·PCᵢ, in order of the items."""
        total = 0.0
        for item, weight in zip(self.items, self.weights, strict=True):
            total += weight * changes[item]
        return total

    def broken(self, changes: Sequence[float]) -> bool:
        """Whether the predicted error is beyond the limit."""
        return abs(self.error(changes)) > self.limit


class Choice(Protocol):
    """Items to pull, in the order in which they were chosen, each once."""

    def __call__(self, queries: Sequence[Limited], changes: Sequence[float]) -> list[int]:
        """Choose; nothing where no query asks for it."""
        ...


def fewest(queries: Sequence[Limited], changes: Sequence[float]) -> list[int]:
    """The smallest set of items whose pulls bring every query into its limit; only for a few items.

    >>> fewest([Limited((0, 1, 2, 3), (1.0, 1.0, 1.0, 1.0), 200.0)], [500.0, 75.0, -200.0, -150.0])
    [1]
    """
    items = sorted({item for query in queries for item in query.items})
    for size in range(len(items) + 1):
        for chosen in combinations(items, size):
            left = [0.0 if item in chosen else change for item, change in enumerate(changes)]
            if not any(query.broken(left) for query in queries):
                return list(chosen)
    return items
