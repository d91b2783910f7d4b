"""The chain and its correction, by hand."""

import numpy as np
import pytest

from slackwater.core.errors import PlanningError
from slackwater.planning.pulling import ChainSettings, MarkovModel


def test_a_pull_counts_one_transition_and_the_rest_as_staying() -> None:
    model = MarkovModel(1.0, ChainSettings(reach=2))
    model.pulled(3, 3.0)
    model.pulled(4, -8.0)
    assert model.counts[2][3] == 1.0
    assert model.counts[3] == [1.0, 0.0, 0.0, 2.0, 0.0]
    assert model.counts[0][0] == 3.0


@pytest.mark.parametrize(("change", "state"), [(0.5, 3), (-0.5, 2), (0.49, 2), (-7.0, 0), (99.0, 4)])
def test_halves_go_up_and_the_ends_are_clamped(change: float, state: int) -> None:
    model = MarkovModel(1.0, ChainSettings(reach=2))
    model.pulled(1, change)
    assert model.state == state


def test_k_ticks_are_k_terms_and_the_first_is_the_state_of_the_pull() -> None:
    model = MarkovModel(2.0, ChainSettings(reach=2, smoothing=0.0))
    model.pulled(5, 10.0)  # state 1, four times kept, and one transition of the prior to 0
    model.tick()
    assert model.change == 2.0
    model.tick()
    assert model.change == pytest.approx(2.0 + 2.0 * 4 / 5)


def test_a_state_without_counts_goes_to_no_change() -> None:
    model = MarkovModel(1.0, ChainSettings(reach=2, smoothing=0.0))
    model.pulled(1, 2.0)
    for _ in range(2):
        model.tick()
    assert model.change == 2.0


def ramp(settings: ChainSettings) -> float:
    """The correction after a long climb that the chain cannot see: states are a thousand times too wide."""
    model = MarkovModel(1000.0, settings)
    for _ in range(50):
        for _ in range(4):
            model.tick()
        model.pulled(4, 4.0)
    return model.correction


def test_the_correction_learns_what_the_chain_misses() -> None:
    assert ramp(ChainSettings()) == pytest.approx(1.0)


def test_read_literally_it_learns_half_of_it() -> None:
    assert ramp(ChainSettings(literal=True, smoothing=0.5)) == pytest.approx(0.5)


def test_drawn_steps_are_the_expected_ones_on_average() -> None:
    random = np.random.default_rng(3)
    drawn, expected = [], MarkovModel(1.0, ChainSettings(reach=2, smoothing=0.0))
    history = [(2, 2.0), (3, -3.0), (2, 2.0), (1, 0.0), (4, 4.0)]
    for ticks, change in history:
        expected.pulled(ticks, change)
    for _ in range(3000):
        model = MarkovModel(1.0, ChainSettings(reach=2, smoothing=0.0, draw=True))
        for ticks, change in history:
            model.pulled(ticks, change)
        for _ in range(4):
            model.tick(random.random())
        drawn.append(model.change)
    for _ in range(4):
        expected.tick()
    assert np.mean(drawn) == pytest.approx(expected.change, abs=4 * np.std(drawn) / np.sqrt(3000))


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(PlanningError, match="spacing"):
        MarkovModel(0.0)
    with pytest.raises(PlanningError, match="reach"):
        ChainSettings(reach=0)
