"""A past as it may have been: right at the pulls, and between them as the model says, by the laws of normal numbers."""

import numpy as np
import numpy.typing as npt
import pytest

from slackwater.kernels import bridge_sampling
from slackwater.planning.pulling import Uncertainty
from slackwater.planning.pulling.history_sampling import (
    BETTER_TICKS,
    ENOUGH_PULLS,
    ItemHistory,
    Motion,
    past_of,
    unknown,
)

Floats = npt.NDArray[np.float64]


def conditioned(staying: float, variance: float, ends: tuple[float, float], ticks: int) -> tuple[Floats, Floats]:
    """Mean and covariance inside a bridge, from the covariance of the whole path: the plain way."""
    whole = np.zeros((ticks, ticks))
    for a in range(ticks):
        for b in range(ticks):
            whole[a, b] = sum(variance * staying ** (a - j) * staying ** (b - j) for j in range(min(a, b) + 1))
    mean = np.array([ends[0] * staying ** (k + 1) for k in range(ticks)])
    gain = whole[:-1, -1] / whole[-1, -1]
    return mean[:-1] + gain * (ends[1] - mean[-1]), whole[:-1, :-1] - np.outer(gain, whole[-1, :-1])


def filled(staying: float, slope: float, noise: Floats) -> Floats:
    """A bridge of seven ticks from 13 to 9 with the line at 10 in the end."""
    found = np.empty(8)
    ticks, values = np.array([3, 10], np.int64), np.array([13.0, 9.0])
    bridge_sampling.bridge(ticks, values, staying, 2.0, 10.0, slope, noise, found)
    return found


@pytest.mark.parametrize("staying", [1.0, 0.85, 0.0])
@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_a_bridge_has_the_mean_and_the_spread_of_the_whole_process(staying: float, slope: float) -> None:
    line = 10.0 + slope * np.arange(-7, 1)
    mean, covariance = conditioned(staying, 2.0, (13.0 - line[0], 9.0 - line[-1]), 7)
    assert filled(staying, slope, np.zeros(8))[1:-1] == pytest.approx(mean + line[1:-1])
    random = np.random.default_rng(2)
    draws = np.array([filled(staying, slope, random.standard_normal(8)) for _ in range(6_000)])
    assert (draws[:, 0] == 13.0).all()
    assert (draws[:, -1] == 9.0).all()
    assert np.cov(draws[:, 1:-1].T) == pytest.approx(covariance, abs=0.25)


def pulls(seed: int, first: int, count: int, step: int = 7) -> list[tuple[int, float]]:
    walk = np.cumsum(np.random.default_rng(seed).normal(size=count * step))
    return [(first + k * step, float(walk[k * step])) for k in range(count)]


WALK = Motion(1.0, 1.0, 0.0, 0.0)


def test_what_was_pulled_is_in_it() -> None:
    one, other = ItemHistory("a", pulls(1, 0, 40), WALK), ItemHistory("b", pulls(2, 30, 50), WALK)
    past = past_of([one, other], np.random.default_rng(0))
    start, end = 30, one.pulls[-1][0]
    assert (past.known, past.pulled) == (end - start, 2)
    assert past.ticks >= past.warm >= past.known
    assert len(past.trace) - 1 == 2 * past.warm
    for column, memory in enumerate((one, other)):
        for tick, value in memory.pulls:
            if start <= tick <= end:
                assert past.trace[tick - start, column] == value
                assert past.trace[2 * past.known - (tick - start), column] == value, "and backwards"
    apart = past_of([one, ItemHistory("b", pulls(2, 4_000, 50), WALK)], np.random.default_rng(0))
    assert apart.known == one.span, "nothing in common: each its own last ticks"


def test_a_rise_stays_a_rise() -> None:
    rising = ItemHistory("a", [(tick, 2.0 * tick) for tick in range(0, 400, 10)], Motion(0.0, 0.0, 780.0, 2.0))
    past = past_of([rising], np.random.default_rng(0))
    assert np.diff(past.trace[:, 0]) == pytest.approx(2.0)


def test_statistics_speak_where_pulls_say_too_little() -> None:
    few = ItemHistory("a", pulls(1, 0, ENOUGH_PULLS - 1, 20), WALK)
    short = ItemHistory("b", pulls(1, 0, ENOUGH_PULLS, 5), WALK)
    assert unknown([few, short]) is not None
    assert "a was pulled 19 times over 360 ticks and 1 more like it; 20 times over 120" in str(unknown([few, short]))
    enough = ItemHistory("c", pulls(1, 0, 60), WALK)
    assert unknown([enough]) is None
    assert enough.has_pulls
    drawn = ItemHistory("c", enough.pulls, WALK, Motion(0.85, 1.0, 500.0, 0.0))
    assert enough.span < BETTER_TICKS
    assert not drawn.has_pulls, "the statistics know more"
    past = past_of([enough, drawn], np.random.default_rng(0))
    assert past.pulled == 1
    assert past.trace[:, 1].mean() == pytest.approx(500.0, abs=1.0)
    assert np.var(past.trace[:, 1]) == pytest.approx(1.0 / (1.0 - 0.85**2), rel=0.2)


def test_the_motion_of_a_model_is_that_of_what_it_saw() -> None:
    random, scheduler = np.random.default_rng(4), Uncertainty(1)
    value = 0.0
    for tick in range(600):
        value += 3.0 * random.normal()
        if tick % 3 == 0:
            scheduler.pulled(tick, 0, value)
    motion = Motion.of_model(scheduler.models[0])
    assert motion.staying >= 0.95
    assert 4.0 < motion.variance < 20.0
