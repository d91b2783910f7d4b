"""What statistics say of how an item moves: what it was made with is found again, whatever the tick."""

import numpy as np
import numpy.typing as npt
import pytest

from slackwater.core.errors import PlanningError
from slackwater.planning.pulling.item_prior import LEAST_CHANGES, ItemPrior, growth, priors_of
from slackwater.planning.pulling.model_constants import STAYING
from slackwater.statistics import Statistics, Ticks

SECOND = 1_000_000
COUNT = 4_000


def learnt(values: npt.NDArray[np.float64], tick: int = SECOND, name: str = "a") -> ItemPrior | None:
    statistics = Statistics("t", "v")
    statistics.update(Ticks.of([name] * len(values), np.arange(len(values)) * SECOND, values))
    return priors_of(statistics, tick).get(name)


def made(staying: float, slope: float = 0.0, count: int = COUNT) -> npt.NDArray[np.float64]:
    random = np.random.default_rng(3)
    off, values = 0.0, []
    for tick in range(count):
        off = staying * off + 2.0 * random.normal()
        values.append(50.0 + slope * tick + off)
    return np.array(values)


def best(prior: ItemPrior, sloped: bool = False) -> float:
    return max((float(one) for one in STAYING), key=lambda one: prior.likelihood(one, sloped))


@pytest.mark.parametrize("staying", [float(one) for one in STAYING])
def test_the_process_is_found_again(staying: float) -> None:
    prior = learnt(made(staying))
    assert prior is not None
    assert best(prior) == staying
    assert prior.variance(staying) == pytest.approx(4.0, rel=0.1)
    assert prior.drift == 0.0
    assert prior.interval == 1.0
    if staying < 1.0:
        assert prior.level == pytest.approx(50.0, abs=8.0)


@pytest.mark.parametrize("ticks", [0.25, 4.0])
def test_a_tick_may_be_shorter_or_longer_than_what_was_recorded(ticks: float) -> None:
    walk, back = learnt(made(1.0), round(SECOND * ticks)), learnt(made(0.85**ticks), round(SECOND / ticks))
    assert walk is not None
    assert back is not None
    assert walk.interval == pytest.approx(1 / ticks)
    assert walk.variance(1.0) == pytest.approx(4.0 * ticks, rel=0.1)
    assert best(back) == 0.85
    assert back.variance(0.85) * growth(0.85, ticks) == pytest.approx(4.0, rel=0.1)


def test_a_drift_is_believed_only_where_it_is_clear() -> None:
    trend, drifting, walk = learnt(made(0.0, 0.5)), learnt(made(1.0, 0.5)), learnt(made(1.0))
    assert trend is not None
    assert drifting is not None
    assert walk is not None
    assert trend.drift == pytest.approx(0.5, rel=0.01)
    assert best(trend, sloped=True) == 0.0
    assert drifting.drift == pytest.approx(0.5, abs=0.1)
    assert best(drifting, sloped=True) == 1.0
    assert walk.drift == 0.0


def test_too_little_is_nothing() -> None:
    assert learnt(made(1.0, count=LEAST_CHANGES)) is None
    assert learnt(made(1.0, count=LEAST_CHANGES + 1)) is not None
    with pytest.raises(PlanningError, match="positive number of microseconds"):
        learnt(made(1.0), 0)


def test_an_item_that_never_moves_has_no_variance() -> None:
    still = learnt(np.full(100, 7.0))
    assert still is not None
    assert still.variance(1.0) == 0.0
    assert np.isfinite(still.likelihood(0.5))
