"""Bounds are granted to the last bit."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from slackwater.planning.aggregation.exact_bounds import granted

BOUNDS = st.floats(min_value=1e-6, max_value=1e6)


@given(st.lists(st.tuples(BOUNDS, st.floats(0.0, 1.0)), min_size=1, max_size=12), st.floats(0.5, 2.0))
def test_no_bound_is_below_its_floor_and_their_exact_sum_is_not_above_the_whole(
    parts: list[tuple[float, float]], room: float
) -> None:
    floors = [Fraction(share) * Fraction(part) for share, part in parts]
    shares = [share for share, _ in parts]
    within = float(sum(floors, Fraction(0))) * room + (sum(shares) if room > 1 else 0.0)
    found = granted(within, shares, floors)
    if sum(floors, Fraction(0)) > Fraction(within):
        assert found is None
    elif found is not None:
        assert sum(map(Fraction, found), Fraction(0)) <= Fraction(within)
        assert all(Fraction(bound) >= floor for bound, floor in zip(found, floors, strict=True))
    else:
        # Floors that are no floating-point numbers themselves may not fit by the last bit.
        assert sum(floors, Fraction(0)) > Fraction(within) * Fraction(1 - 2**-40)


def test_shares_that_fit_are_left_alone() -> None:
    assert granted(3.0, [1.0, 2.0], [Fraction(0), Fraction(1)]) == [1.0, 2.0]
