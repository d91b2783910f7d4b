"""The sharing out of a bound, by certificate: feasible, and no exchange between two parts gains anything."""

import numpy as np
import pytest

from slackwater.kernels.waterfilling import fill, fill_plainly


@pytest.mark.parametrize("power", [0.7, 1.0, 2.0, 3.3])
def test_the_shares_meet_the_conditions_of_an_optimum(power: float) -> None:
    """Σ = C, C_k ≥ X_k; the gain p·a/C^(p+1) is one λ above the floors and at most λ on them. Convex, so optimal."""
    generator = np.random.default_rng(8)
    for _ in range(300):
        count = int(generator.integers(1, 9))
        amounts = generator.lognormal(0, 3, count)
        floors = generator.lognormal(0, 2, count) * (generator.random(count) < 0.7)
        bound = float(floors.sum()) * generator.uniform(1.001, 3.0) + generator.random()
        shares = np.empty(count)
        assert fill(amounts ** (1 / (power + 1)), floors, bound, shares)
        assert shares.sum() == pytest.approx(bound)
        assert np.all(shares >= floors)
        gains = power * amounts / shares ** (power + 1)
        above = shares > floors * (1 + 1e-12)
        assert above.any()
        price = gains[above].max()
        assert gains[above].min() == pytest.approx(price)
        assert np.all(gains <= price * (1 + 1e-9))


def test_no_random_shares_are_better() -> None:
    generator = np.random.default_rng(9)
    amounts, floors = np.array([1.0, 20.0, 3.0]), np.array([2.0, 0.5, 0.1])
    shares = np.empty(3)
    assert fill(np.cbrt(amounts), floors, 5.0, shares)
    others = floors + generator.dirichlet(np.ones(3), 20_000) * (5.0 - floors.sum())
    assert np.sum(amounts / shares**2) <= np.sum(amounts / others**2, axis=1).min()


def test_equal_to_the_plain_twin() -> None:
    generator = np.random.default_rng(10)
    for _ in range(500):
        count = int(generator.integers(1, 7))
        roots = generator.lognormal(0, 2, count) * (generator.random(count) < 0.8)
        floors = generator.lognormal(0, 1, count) * (generator.random(count) < 0.6)
        bound = float(generator.uniform(0.5, 3.0) * floors.sum() + 0.1)
        shares = np.empty(count)
        plain = fill_plainly(roots.tolist(), floors.tolist(), bound)
        assert fill(roots, floors, bound, shares) == (plain is not None)
        if plain is not None:
            assert shares.tolist() == pytest.approx(plain)


def test_what_costs_nothing_gets_nothing_more_unless_all_do() -> None:
    assert fill_plainly([0.0, 1.0], [0.5, 0.0], 2.0) == [0.5, 1.5]
    assert fill_plainly([0.0, 0.0], [0.5, 0.0], 2.0) == [1.25, 0.75]
