"""The sharing out of a bound, by certificate: feasible, and no exchange between two parts gains anything."""

import numpy as np
import pytest

from slackwater.kernels.waterfilling import MOST_TRIED, fill, fill_plainly, share_out, share_out_plainly


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


def draw_parts(generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Roots, floors, what is spent and what a part costs at the most."""
    roots = generator.lognormal(0, 1, count) * (generator.random(count) < 0.9)
    floors = generator.lognormal(0, 1, count) * (generator.random(count) < 0.7)
    most = np.where(generator.random(count) < 0.7, generator.lognormal(0, 2, count), np.inf)
    return roots, floors, floors * generator.uniform(0.5, 1.0, count), most


def test_sharing_out_what_floors_leave_equals_its_plain_twin() -> None:
    generator = np.random.default_rng(12)
    resigned = refused = 0
    for _ in range(400):
        count = int(generator.integers(1, 6))
        roots, floors, spent, most = draw_parts(generator, count)
        bound = float(generator.uniform(0.9, 3.0) * floors.sum() + 0.1 * generator.random())
        shares = np.empty(count)
        plain = share_out_plainly(roots.tolist(), floors.tolist(), spent.tolist(), most.tolist(), 1.5, bound)
        cost = share_out(roots, floors, spent, most, 1.5, bound, shares)
        assert (cost < 0) == (plain is None)
        if plain is None:
            refused += 1
            continue
        assert cost == pytest.approx(plain[0], rel=1e-9)
        assert shares.sum() <= bound * (1 + 1e-9)
        assert np.all(shares >= floors * (1 - 1e-9))
        resigned += bool(np.any((shares <= floors) & (most < np.inf) & (roots > 0)))
    assert resigned > 50
    assert refused > 10


def test_with_many_parts_some_resign_and_nothing_is_worse_for_it() -> None:
    generator = np.random.default_rng(13)
    better = 0
    for _ in range(40):
        count = MOST_TRIED + 6
        roots, floors, spent, most = draw_parts(generator, count)
        bound = float(floors.sum()) * 1.3
        shares, others = np.empty(count), np.empty(count)
        cost = share_out(roots, floors, spent, most, 1.5, bound, shares)
        none = share_out(roots, floors, spent, np.full(count, np.inf), 1.5, bound, others)
        assert cost <= none * (1 + 1e-12)
        assert shares.sum() <= bound * (1 + 1e-9)
        assert np.all(shares >= floors * (1 - 1e-9))
        better += cost < none * 0.9
    assert better > 10
