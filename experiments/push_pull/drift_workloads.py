"""Drifting workloads: one world of queries and updates, then another.

A world has a number of rows that change, in five clusters. Its queries either *recur* (500 ranges, the first asked
most) or are *fresh*, each drawn anew in five clusters of their own. When the world changes all clusters do.
"""

import numpy as np

from experiments.push_pull.drift import Events
from experiments.push_pull.workloads import middles

ROWS, RANGES = 5_000, 500


def world(rng: np.random.Generator, count: int, *, recurring: bool) -> Events:
    """So many events of one world, half of them queries."""
    asks = rng.random(count) < 0.5
    ranges = RANGES if recurring else count
    stock = middles(rng, ranges, 1)[:, 0]
    half = np.abs(rng.normal(500, 400, ranges)) / 2
    popular = 1 / np.arange(1, ranges + 1)
    own = rng.choice(ranges, count, p=popular / popular.sum()) if recurring else np.arange(count)
    rows = np.round(middles(rng, ROWS, 1)[:, 0])
    changed = rows[rng.integers(0, ROWS, count)]
    low = np.where(asks, stock[own] - half[own], changed)
    high = np.where(asks, stock[own] + half[own], changed)
    return Events(asks, low, high, np.ones(count))


def two_worlds(rng: np.random.Generator, each: int, *, recurring: bool) -> Events:
    """One world, then another."""
    return Events.joined([world(rng, each, recurring=recurring) for _ in range(2)])
