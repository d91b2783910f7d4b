"""Violation risk: the probability that a query is outside its bound, from means and variances of its items' changes.

*Weighted sums.* Errors add up: mean Σ w·m, variance Σ w²·v and what items have in common (`common_factor`), and the
chance is that of an error beyond ±B which is normal, and now and then wild (`heavy_tails`).

*MIN and MAX*, by intervals. With the held minimum D, the true one is below D − B when some item is, and above D + B
when all items are. So the chance is 1 − Π(1 − P(xᵢ < D − B)) + Π P(xᵢ > D + B). An item that is far above D needs a
large move to matter: its interval does not reach the bound and it is left in peace, however much it moves. MAX is the
minimum of the negatives.
"""

import math
from collections.abc import Sequence

from slackwater.kernels.pull_risk import ROUGHER

_FIT = (-0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368)


def tail(x: float) -> float:
    """The chance that a standard normal is beyond √2·x; the plain twin of `kernels.pull_risk.tail`.

    >>> abs(tail(1.5) / (0.5 * math.erfc(1.5)) - 1) < 2e-7
    True
    """
    t = 1.0 / (1.0 + 0.5 * abs(x))
    inner = 0.17087277
    for coefficient in _FIT:
        inner = coefficient + t * inner
    half = 0.5 * t * math.exp(-x * x - 1.26551223 + t * inner)
    return half if x >= 0.0 else 1.0 - half


def risk(mean: float, variance: float, within: float, wild: float = 0.0) -> float:
    """The chance that an error is beyond the bound; a share `wild` of the time its deviation is `ROUGHER` × as large.

    >>> round(risk(0.0, 1.0, 1.96), 3)
    0.05
    """
    if variance <= 0.0:
        return 1.0 if abs(mean) > within else 0.0
    scale = math.sqrt(2.0 * variance / (1.0 + (ROUGHER * ROUGHER - 1.0) * wild))
    calm = tail((within - mean) / scale) + tail((within + mean) / scale)
    if wild <= 0.0:
        return calm
    scale *= ROUGHER
    return (1.0 - wild) * calm + wild * (tail((within - mean) / scale) + tail((within + mean) / scale))


def below(limit: float, mean: float, variance: float) -> float:
    """The chance that a normal value is below a limit."""
    if variance <= 0.0:
        return 1.0 if mean < limit else 0.0
    return tail((mean - limit) / math.sqrt(2.0 * variance))


def lowest_risk(
    held: Sequence[float], means: Sequence[float], variances: Sequence[float], within: float, without: int = -1
) -> float:
    """The chance that the minimum has left its bound; `held` and `means` are values, not changes.

    `without` is the place of an item that is taken to be pulled: it can then neither be lower than is known nor
    leave the others behind.

    >>> round(lowest_risk([1.0, 50.0], [1.0, 50.0], [1.0, 1.0], 1.96), 3)
    0.05
    """
    floor = min(held)
    kept, risen = 1.0, 1.0
    for place, (mean, variance) in enumerate(zip(means, variances, strict=True)):
        if place == without:
            if held[place] <= floor + within:
                risen = 0.0
            continue
        kept *= 1.0 - below(floor - within, mean, variance)
        risen *= 1.0 - below(floor + within, mean, variance) if held[place] <= floor + within else 1.0
    return 1.0 - kept + risen
