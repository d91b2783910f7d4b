"""Inherited error: the error of a query over approximate items, and the rest of its bound.

Mathematics
    Held values hᵢ are within cᵢ of the truth tᵢ, and a row is there if and only if it is there in truth. So
        SUM        |Σ wᵢhᵢ − Σ wᵢtᵢ|  ≤  Σ |wᵢ|·cᵢ
        AVG        the same over n rows, divided by n: at most the largest |wᵢ|·cᵢ, whichever rows there are
        MIN, MAX   at most the largest |wᵢ|·cᵢ
        COUNT      0
    with the scale of the query in every wᵢ. Floors are exact fractions: a bound of a client is never passed because two
    numbers were rounded the same way.
"""

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from slackwater.core.query import AggregateFunction

_DIGITS = Context(prec=6, rounding=ROUND_CEILING)


def floor(function: AggregateFunction, scale: float, parts: Iterable[tuple[float, float]]) -> Fraction:
    """Error bound of an aggregate over items; `parts` are the weight and the bound of each.

    >>> floor(AggregateFunction.SUM, 2.0, [(3.0, 0.5), (-1.0, 0.25)])
    Fraction(7, 2)
    >>> floor(AggregateFunction.AVG, 1.0, [(1.0, 0.5), (1.0, 0.25)])
    Fraction(1, 2)
    """
    if function is AggregateFunction.COUNT:
        return Fraction(0)
    off = (abs(Fraction(weight)) * Fraction(within) for weight, within in parts)
    total = sum(off, Fraction(0)) if function is AggregateFunction.SUM else max(off, default=Fraction(0))
    return abs(Fraction(scale)) * total


def rest(within: float, taken: Fraction) -> float:
    """The largest number that, added to what is taken, is not above the bound; the bound is not below what is taken.

    >>> Fraction(rest(0.3, Fraction(0.1))) + Fraction(0.1) <= Fraction(0.3)
    True
    """
    left = Fraction(within) - taken
    nearest = float(left)
    return nearest if Fraction(nearest) <= left else math.nextafter(nearest, 0.0)


def in_words(taken: Fraction) -> str:
    """A bound that is not below this, in few digits.

    >>> in_words(Fraction(7, 2)), in_words(Fraction(1, 3))
    ('3.5', '0.333334')
    """
    named = _DIGITS.divide(Decimal(taken.numerator), Decimal(taken.denominator))
    if Fraction(float(named)) < taken:
        # Writing it as decimals rounds to the nearest number, which may lie below.
        named = _DIGITS.next_plus(named)
    return f"{named.normalize():f}"
