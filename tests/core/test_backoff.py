"""Back-off grows to its limit and is spread by the generator given."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import SourceError
from slackwater.core.backoff import Backoff


@settings(max_examples=200, deadline=None)
@given(
    first=st.floats(0.01, 10),
    factor=st.floats(1, 10),
    jitter=st.floats(0, 0.99),
    failures=st.integers(1, 10**9),
    seed=st.integers(0, 1_000),
)
def test_backoff_grows_to_its_limit_and_is_jittered_downwards(
    first: float, factor: float, jitter: float, failures: int, seed: int
) -> None:
    backoff = Backoff(first, factor, 60.0, jitter)
    whole = Backoff(first, factor, 60.0, 0).delay(failures, random.Random(seed).random)
    assert first * (1 - 1e-9) <= whole <= 60.0 * (1 + 1e-9)
    if failures < 20:
        assert whole == pytest.approx(min(60.0, first * factor ** (failures - 1)))
    assert whole * (1 - jitter) <= backoff.delay(failures, random.Random(seed).random) <= whole


def test_jitter_comes_from_the_generator_given() -> None:
    backoff = Backoff(jitter=0.5)
    delays = {backoff.delay(3, random.Random(seed).random) for seed in range(20)}
    assert len(delays) == 20
    assert backoff.delay(3, random.Random(1).random) == backoff.delay(3, random.Random(1).random)


@pytest.mark.parametrize("bad", [(0, 2, 1, 0), (2, 2, 1, 0), (1, 0.5, 2, 0), (1, 2, 3, 1), (1, 2, math.inf, 0)])
def test_backoffs_that_cannot_be(bad: tuple[float, float, float, float]) -> None:
    with pytest.raises(SourceError):
        Backoff(*bad)
