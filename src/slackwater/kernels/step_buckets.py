"""Cutting a row of points into few buckets with the least weighted squared error, for every number of buckets at once.

`bucket_costs` is the dynamic programme over where the last bucket begins, O(k n²); `bucket_ends` reads the cuts off it.
`best_cost_plainly` tries all cuts.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from slackwater.kernels.compiled import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@compiled
def bucket_costs(values: Floats, weights: Floats, cost: Floats, choice: Integers) -> None:
    """Fill in, for k buckets over the first n points, the least error and where the last bucket begins.

    Both arrays are (most buckets + 1) × (points + 1).
    """
    size = len(values)
    total, first, second = np.zeros(size + 1), np.zeros(size + 1), np.zeros(size + 1)
    for k in range(size):
        total[k + 1] = total[k] + weights[k]
        first[k + 1] = first[k] + weights[k] * values[k]
        second[k + 1] = second[k] + weights[k] * values[k] * values[k]
    cost[:] = np.inf
    cost[0, 0] = 0.0
    for bucket in range(1, cost.shape[0]):
        for end in range(bucket, size + 1):
            for start in range(end - 1, bucket - 2, -1):
                weight, moment = total[end] - total[start], first[end] - first[start]
                error = second[end] - second[start]
                if weight > 0:
                    error = max(error - moment * moment / weight, 0.0)
                if error >= cost[bucket, end]:
                    # A longer bucket only errs more.
                    break
                if cost[bucket - 1, start] + error < cost[bucket, end]:
                    cost[bucket, end] = cost[bucket - 1, start] + error
                    choice[bucket, end] = start


def bucket_starts(choice: Integers, buckets: int) -> list[int]:
    """Where each of so many buckets begins."""
    starts, end = list[int](), choice.shape[1] - 1
    for bucket in range(buckets, 0, -1):
        end = int(choice[bucket, end])
        starts.append(end)
    return starts[::-1]


def best_cost_plainly(values: Sequence[float], weights: Sequence[float], buckets: int) -> float:
    """The least error over all cuts.

    >>> best_cost_plainly([1, 1, 5, 6], [1, 1, 1, 1], 2)
    0.5
    """
    least = float("inf")
    for inner in combinations(range(1, len(values)), buckets - 1):
        cuts, error = (0, *inner, len(values)), 0.0
        for k in range(buckets):
            own = range(cuts[k], cuts[k + 1])
            mean = sum(weights[j] * values[j] for j in own) / sum(weights[j] for j in own)
            error += sum(weights[j] * (values[j] - mean) ** 2 for j in own)
        least = min(least, error)
    return least
