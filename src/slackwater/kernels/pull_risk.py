"""Violation risk: the probability that a weighted sum leaves its bound, and the effect of a pull on it.

The plain twins are `planning.pulling.risk`, `common_factor` and the views of `planning.pulling.uncertainty`; the
mathematics stand there.
"""

import math

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NEGLIGIBLE = 1e-7
ROUGHER = 3.0
"""How many times as far a wild surprise reaches as a calm one."""


@compiled
def tail(x: float) -> float:
    """The chance that a standard normal is beyond √2·x, to a relative 1.2e-7: ½·erfc, three times as fast.

    The Chebyshev fit `erfcc` of Press et al., Numerical Recipes, section 6.2.

    >>> abs(tail(1.5) / (0.5 * math.erfc(1.5)) - 1) < 2e-7
    True
    """
    t = 1.0 / (1.0 + 0.5 * abs(x))
    inner = -0.82215223 + t * 0.17087277
    inner = 1.48851587 + t * inner
    inner = -1.13520398 + t * inner
    inner = 0.27886807 + t * inner
    inner = -0.18628806 + t * inner
    inner = 0.09678418 + t * inner
    inner = 0.37409196 + t * inner
    inner = 1.00002368 + t * inner
    half = 0.5 * t * math.exp(-x * x - 1.26551223 + t * inner)
    return half if x >= 0.0 else 1.0 - half


@compiled
def risk(mean: float, variance: float, within: float, wild: float) -> float:
    """The chance that an error is beyond the bound; a share `wild` of the time its deviation is `ROUGHER` × as large.

    >>> round(risk(0.0, 1.0, 1.96, 0.0), 3)
    0.05
    >>> risk(0.0, 1.0, 4.0, 0.1) > 10 * risk(0.0, 1.0, 4.0, 0.0)
    True
    """
    if variance <= 0.0:
        return 1.0 if abs(mean) > within else 0.0
    scale = math.sqrt(2.0 * variance / (1.0 + (ROUGHER * ROUGHER - 1.0) * wild))
    calm = tail((within - mean) / scale) + tail((within + mean) / scale)
    if wild <= 0.0:
        return calm
    scale *= ROUGHER
    return (1.0 - wild) * calm + wild * (tail((within - mean) / scale) + tail((within + mean) / scale))


@compiled
def shared(
    item: int, query: int, starts: Integers, items: Integers, weights: Floats, common: Floats, root: Floats
) -> float:
    """The covariance of an item with the weighted sum of the other items of a query.

    `common` is loading × deviation of each item, `root` the root of its age; an item just pulled has `common` 0.
    """
    total = 0.0
    for k in range(starts[query], starts[query + 1]):
        other = items[k]
        if other != item and common[other] != 0.0:
            overlap = root[item] / root[other] if root[item] < root[other] else root[other] / root[item]
            total += weights[k] * common[other] * overlap
    return float(total * common[item])


@compiled
def likeness(before: float, after: float, before_other: float, after_other: float) -> float:
    """How alike two bridges are at a tick between their ends, for walks that move as one.

    >>> round(likeness(2.0, 3.0, 2.0, 3.0), 6)
    1.0
    """
    both = after * after_other * min(before, before_other) + before * before_other * min(after, after_other)
    alone = before * after * (before + after) * before_other * after_other * (before_other + after_other)
    return both / math.sqrt(alone)


@compiled
def gain_of(
    item: int,
    first: Integers,
    holder: Integers,
    place: Integers,
    starts: Integers,
    items: Integers,
    weights: Floats,
    within: Floats,
    price: Floats,
    chance: Floats,
    query_mean: Floats,
    query_variance: Floats,
    mean: float,
    variance: float,
    common: Floats,
    root: Floats,
    wild: float,
) -> float:
    """By how much a pull would lower the cost of this tick: Σ price · (chance − chance with the item fresh)."""
    gain = 0.0
    for h in range(first[item], first[item + 1]):
        q = holder[h]
        if chance[q] < NEGLIGIBLE:
            continue
        w = weights[place[h]]
        part = w * w * variance
        if common[item] != 0.0:
            part += 2.0 * w * shared(item, q, starts, items, weights, common, root)
        rest = max(query_variance[q] - part, 1e-12 * query_variance[q])
        gain += price[q] * (chance[q] - risk(query_mean[q] - w * mean, rest, within[q], wild))
    return gain
