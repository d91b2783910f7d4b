"""Baseline counters: messages that rival methods would have sent for the same queries.

*Push everything*: each item that changed goes to every query that has it. *Per-item deadband*: each item of a query has
a tolerance of its own, B/(n·|w|), so that n of them together stay within B; an item is sent when it has left its
tolerance around the value last **sent**. That is what industrial protocols do, done right (against the last sample,
as some do it, a slow ramp is never sent at all).

Both are looked at when ours are, at the ends of batches: an item that changed twice in between counts once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """A query as a rival sees it: items by number, their weights, and the bound on the sum."""

    items: tuple[int, ...]
    weights: tuple[float, ...]
    within: float


class Rivals:
    """Messages that push-everything and a per-item deadband would have sent.

    >>> rivals = Rivals([WeightedSum((0, 1), (1.0, 2.0), within=4.0)], np.array([10.0, 20.0]))
    >>> for price in (11.0, 12.0, 12.5, 13.0):
    ...     rivals.see(np.array([0]), np.array([price]))
    >>> rivals.everything, rivals.deadband
    (4, 1)
    """

    def __init__(self, queries: Sequence[WeightedSum], values: Floats) -> None:
        self.everything = 0
        self.deadband = 0
        items = [np.array(query.items, np.int64) for query in queries]
        self._items: Integers = np.concatenate([np.zeros(0, np.int64), *items])
        self._tolerance: Floats = np.concatenate(
            [np.zeros(0)]
            + [query.within / (len(query.items) * np.abs(np.array(query.weights))) for query in queries if query.items]
        )
        order = np.argsort(self._items, kind="stable")
        self._items, self._tolerance = self._items[order], self._tolerance[order]
        self._first: Integers = np.searchsorted(self._items, np.arange(len(values) + 1)).astype(np.int64)
        self._sent = values[self._items].astype(np.float64)

    def see(self, items: Integers, values: Floats) -> None:
        """Items that have other values at the end of a batch, each once, and those values."""
        starts, counts = self._first[items], self._first[items + 1] - self._first[items]
        self.everything += int(counts.sum())
        offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.repeat(starts, counts) + offsets
        now = np.repeat(values, counts)
        left = np.abs(now - self._sent[places]) > self._tolerance[places]
        self.deadband += int(left.sum())
        self._sent[places[left]] = now[left]
