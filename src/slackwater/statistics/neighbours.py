"""Similarity figures: the matrix, a pair, the nearest neighbours of each item."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slackwater.core.errors import StatisticsError
from slackwater.statistics.rules import Floats, Integers


@dataclass(frozen=True, eq=False)
class Similarities:
    """The Gram matrix G of the items' changes; ρᵢⱼ = Gᵢⱼ/√(Gᵢᵢ·Gⱼⱼ), 0 where one of the two never moved.

    >>> found = Similarities(("a", "b", "c"), np.array([[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    >>> found.cosine("a", "b"), found.cosine("a", "c")
    (1.0, 0.0)
    >>> found.neighbours(1)[1].tolist()
    [[1.0], [1.0], [0.0]]
    """

    items: tuple[str, ...]
    gram: Floats

    @cached_property
    def norms(self) -> Floats:
        """√Gᵢᵢ, the length of each item's series of changes."""
        return np.sqrt(np.maximum(np.diagonal(self.gram), 0.0))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.items)}

    def place(self, item: str) -> int:
        """The row of an item."""
        try:
            return self._places[item]
        except KeyError:
            raise StatisticsError(f"there are no statistics of item {item!r}") from None

    def cosine(self, one: str, other: str) -> float:
        """ρ of two items."""
        row = self.place(one)
        return float(self.rows(row, row + 1)[0, self.place(other)])

    def rows(self, start: int, end: int) -> Floats:
        """Some rows of the matrix of ρ."""
        # Dividing twice: the product of two small norms may be too small for a double.
        inverse = np.divide(1.0, self.norms, out=np.zeros(len(self.norms)), where=self.norms > 0)
        rho = self.gram[start:end] * inverse[start:end, None] * inverse
        return np.clip(rho, -1.0, 1.0)

    def matrix(self) -> Floats:
        """All of ρ: as large as G."""
        return self.rows(0, len(self.items))

    def neighbours(self, count: int = 10) -> tuple[Integers, Floats]:
        """For each item the places of the `count` others with the largest |ρ|, the largest first, and their ρ."""
        size = len(self.items)
        count = max(0, min(count, size - 1))
        places, rho = np.zeros((size, count), np.int64), np.zeros((size, count))
        height = max(1, (1 << 20) // max(size, 1))
        for top in range(0, size if count else 0, height):
            rows = self.rows(top, min(top + height, size))
            strength = np.abs(rows)
            strength[np.arange(len(rows)), np.arange(top, top + len(rows))] = -1.0
            best = np.argsort(-strength, axis=1, kind="stable")[:, :count]
            places[top : top + len(rows)] = best
            rho[top : top + len(rows)] = np.take_along_axis(rows, best, axis=1)
        return places, rho
