"""Exact bound rounding: no rounding lets a sum pass its bound, or an aggregator refuse a part.

Planners work with floating-point numbers, and their bounds add up "but for rounding". A live plan is a promise, and
aggregators know their floors as exact fractions. So the bounds of a plan are made exact once, at the end: none below
its floor, none above what is left.
"""

import math
from collections.abc import Sequence
from fractions import Fraction


def granted(within: float, shares: Sequence[float], floors: Sequence[Fraction]) -> list[float] | None:
    """Bounds near the shares, none below its floor, whose exact sum is not above the whole; None if there are none.

    >>> granted(0.3, [0.1, 0.2], [Fraction(0.1), Fraction(0.1)])  # 0.1 + 0.2 is a little more than 0.3
    [0.1, 0.19999999999999998]
    >>> granted(1.0, [0.5, 0.5], [Fraction(3, 4), Fraction(3, 4)]) is None
    True
    """
    bounds = [max(share, _above(floor)) for share, floor in zip(shares, floors, strict=True)]
    over = sum(map(Fraction, bounds), Fraction(0)) - Fraction(within)
    # What is too much is taken where most can be taken.
    for place in sorted(range(len(bounds)), key=lambda one: floors[one] - Fraction(bounds[one])):
        if over <= 0:
            break
        lower = max(_below(Fraction(bounds[place]) - over), _above(floors[place]))
        over -= Fraction(bounds[place]) - Fraction(lower)
        bounds[place] = lower
    return bounds if over <= 0 else None


def _above(number: Fraction) -> float:
    """The least floating-point number that is not below."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def _below(number: Fraction) -> float:
    """The greatest that is not above."""
    nearest = float(number)
    return nearest if Fraction(nearest) <= number else math.nextafter(nearest, -math.inf)
