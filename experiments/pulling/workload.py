"""Query generator, as in the paper: 2 to 8 items by Zipf's law, weights from 4000 to 5000.

The bound of a query is a multiple of the standard deviation of its own change over ten ticks, so that traces of
different kinds can be compared; or, as in the paper, one number for all.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.core.bound import Bound
from slackwater.planning.pulling.base import PullQuery

Floats = npt.NDArray[np.float64]

ZIPF = 0.9
STEP = 10


def portfolios(
    count: int, items: int, random: np.random.Generator, most: int = 8
) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    """Items and weights of so many queries."""
    chances = 1.0 / np.arange(1, items + 1) ** ZIPF
    chances /= chances.sum()
    drawn = []
    for _ in range(count):
        size = int(random.integers(2, min(most, items) + 1))
        chosen = random.choice(items, size, replace=False, p=chances)
        drawn.append((tuple(int(item) for item in chosen), tuple(random.uniform(4000, 5000, size).tolist())))
    return drawn


def bounded(
    drawn: Sequence[tuple[tuple[int, ...], tuple[float, ...]]], trace: Floats, multiple: float, fidelity: float
) -> list[PullQuery]:
    """Queries with B = multiple × the deviation of a ten-tick change of each."""
    queries = []
    for items, weights in drawn:
        total = trace[:, list(items)] @ np.array(weights)
        deviation = float(np.std(total[STEP:] - total[:-STEP]))
        queries.append(PullQuery.total(items, weights, Bound(multiple * deviation, fidelity)))
    return queries
