"""Optimal histogram: a row of points cut into few buckets with the least weighted squared error.

`bucket_costs` is the dynamic programme over where the last bucket begins, O(k n²), and `bucket_starts` reads the cuts
off it. `best_cost_plainly` tries all cuts. `chord_costs` is the same where buckets are chords of a function, not steps.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

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


@compiled
def chord_errors(at: Floats, values: Floats, parts: Floats, jump: float, errors: Floats) -> None:
    """Fill in the error of the chord from each place to each later one: the integral of q (f − chord)².

    Between each place and the next, `parts` holds the integrals of q, qf, qf², qt, qft and qt², where f is the
    function, q its weight and t how far it is from the place. They are added up and never subtracted: q may differ by
    10¹⁰ from one to the next. A chord no longer than `jump` has no error.
    """
    for start in range(len(at)):
        sums = np.zeros(6)
        for end in range(start + 1, len(at)):
            part, far = parts[:, end - 1], at[end - 1] - at[start]
            sums[:3] += part[:3]
            sums[3] += part[3] + far * part[0]
            sums[4] += part[4] + far * part[1]
            sums[5] += part[5] + far * (2 * part[3] + far * part[0])
            wide, base = at[end] - at[start], values[start]
            slope = (values[end] - base) / wide
            error = sums[2] + base * (base * sums[0] - 2 * sums[1]) + slope * (slope * sums[5] - 2 * sums[4])
            errors[start, end] = max(error + 2 * base * slope * sums[3], 0.0) if wide > jump else 0.0


@compiled
def chord_costs(errors: Floats, cost: Floats, choice: Integers) -> None:
    """Fill in, for k chords from the first place to place n, the least error and where the last chord begins.

    Both arrays are (most chords + 1) × places.
    """
    cost[:] = np.inf
    cost[0, 0] = 0.0
    for chord in range(1, cost.shape[0]):
        for end in range(chord, len(errors)):
            for start in range(chord - 1, end):
                if cost[chord - 1, start] + errors[start, end] < cost[chord, end]:
                    cost[chord, end] = cost[chord - 1, start] + errors[start, end]
                    choice[chord, end] = start


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
