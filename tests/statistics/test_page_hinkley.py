"""The drift test is quiet while a prediction is right, and quick when it is not."""

import numpy as np
import pytest

from slackwater.statistics.page_hinkley import PageHinkley, residual


def windows_until(rate: float, predicted: float, seed: int, most: int) -> int | None:
    """Windows until the test fires, with messages that come by chance at a rate."""
    random = np.random.default_rng(seed)
    test = PageHinkley()
    for window in range(1, most + 1):
        if test.add(residual(float(random.poisson(rate)), predicted)):
            return window
    return None


@pytest.mark.parametrize("predicted", [0.5, 4.0, 100.0])
def test_it_seldom_fires_while_the_prediction_is_right(predicted: float) -> None:
    fired = sum(windows_until(predicted, predicted, seed, 100) is not None for seed in range(200))
    # The mean run to a false alarm of a two-sided test with k = ½, h = 5 is about 465 windows (Siegmund's formula).
    assert fired <= 0.3 * 200


@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_it_fires_within_a_few_windows_when_the_rate_is_another(factor: float) -> None:
    found = [windows_until(16.0 * factor, 16.0, seed, 50) for seed in range(100)]
    assert all(window is not None and window <= 8 for window in found)


def test_it_begins_anew() -> None:
    test = PageHinkley()
    assert [test.add(3.0) for _ in range(3)] == [False, False, True]
    test.reset()
    assert [test.add(3.0) for _ in range(3)] == [False, False, True]


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="tolerance"):
        PageHinkley(tolerance=-1.0)
