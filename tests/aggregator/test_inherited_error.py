"""The floor is what items may be off together: never passed, and for sums reached."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from slackwater.aggregator.inherited_error import floor, in_words, rest
from slackwater.core import AggregateFunction

NUMBERS = st.floats(-1e6, 1e6)
WEIGHTS = st.floats(-50, 50)
BOUNDS = st.floats(0, 100)
ITEMS = st.lists(st.tuples(NUMBERS, WEIGHTS, BOUNDS, st.floats(-1, 1)), min_size=1, max_size=8)


def exact(function: AggregateFunction, numbers: list[Fraction]) -> Fraction:
    match function:
        case AggregateFunction.SUM:
            return sum(numbers, Fraction(0))
        case AggregateFunction.AVG:
            return sum(numbers, Fraction(0)) / len(numbers)
        case AggregateFunction.MIN:
            return min(numbers)
        case AggregateFunction.MAX:
            return max(numbers)
        case AggregateFunction.COUNT:
            return Fraction(len(numbers))


@given(st.sampled_from(AggregateFunction), WEIGHTS, ITEMS)
def test_no_error_of_the_items_passes_it(
    function: AggregateFunction, scale: float, items: list[tuple[float, float, float, float]]
) -> None:
    factors = [Fraction(scale) * Fraction(weight) for _, weight, _, _ in items]
    truth = [factor * Fraction(number) for factor, (number, _, _, _) in zip(factors, items, strict=True)]
    held = [
        factor * (Fraction(number) + Fraction(share) * Fraction(within))
        for factor, (number, _, within, share) in zip(factors, items, strict=True)
    ]
    off = floor(function, scale, [(weight, within) for _, weight, within, _ in items])
    assert abs(exact(function, held) - exact(function, truth)) <= off


@given(WEIGHTS, ITEMS)
def test_the_floor_of_a_sum_is_reached(scale: float, items: list[tuple[float, float, float, float]]) -> None:
    worst = sum(abs(Fraction(scale) * Fraction(weight)) * Fraction(within) for _, weight, within, _ in items)
    assert floor(AggregateFunction.SUM, scale, [(weight, within) for _, weight, within, _ in items]) == worst


@given(st.floats(0, 1e9), st.fractions(0, 10**9))
def test_what_is_taken_and_what_is_left_are_together_no_more_than_the_bound(within: float, taken: Fraction) -> None:
    if Fraction(within) >= taken:
        left = rest(within, taken)
        assert left >= 0
        assert Fraction(left) + taken <= Fraction(within)
        assert Fraction(math.nextafter(left, math.inf)) + taken > Fraction(within)


@given(st.fractions(0, 10**9))
def test_the_bound_that_is_named_can_be_promised(taken: Fraction) -> None:
    named = float(in_words(taken))
    assert Fraction(named) >= taken
    assert named <= float(taken) * (1 + 1e-5) + 1e-300
