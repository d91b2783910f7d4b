"""The factor on the bound, by hand."""

import math

import pytest

from slackwater.planning.pulling import SafetyFactor


def test_a_point_too_little_shrinks_the_limit_and_a_point_too_much_lets_it_grow() -> None:
    safety = SafetyFactor(0.98)
    safety.observe(970, 1000)
    assert safety.factor == pytest.approx(math.exp(-0.1))
    safety.observe(990, 1000)
    assert safety.factor == pytest.approx(math.exp(-0.1 + 0.098))


def test_gamma_grows_when_the_sign_stays_and_shrinks_otherwise() -> None:
    safety = SafetyFactor(0.98)
    gammas = []
    for kept in (970, 975, 990, 985, 980):
        safety.observe(kept, 1000)
        gammas.append(safety.gamma)
    assert gammas == pytest.approx([0.098, 0.1, 0.098, 0.1, 0.098])


def test_nothing_seen_changes_nothing() -> None:
    safety = SafetyFactor(0.98)
    safety.observe(0, 0)
    assert (safety.factor, safety.gamma) == (1.0, 0.1)
