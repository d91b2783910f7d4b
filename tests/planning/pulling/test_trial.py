"""Pulls foretold: by bound and fidelity as they must be, and near what the scheduler then does."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.bound import Bound
from slackwater.core.errors import PlanningError
from slackwater.planning.pulling import PullQuery, run_uncertainty
from slackwater.planning.pulling.history_sampling import ItemHistory, Motion, Past, past_of
from slackwater.planning.pulling.trial import first_price, pulls_a_tick, rising, run_trial

QUERY = PullQuery.total((0, 1), (1.0, 2.0), Bound(6.0, 0.97))


def past(seed: int = 0) -> Past:
    motions = (Motion(1.0, 1.0, 0.0, 0.0), Motion(0.95, 0.5, 10.0, 0.0))
    memories = [ItemHistory(str(item), (), None, motion) for item, motion in enumerate(motions)]
    return past_of(memories, np.random.default_rng(seed))


def test_a_wider_bound_and_a_lower_fidelity_need_fewer_pulls() -> None:
    found = run_trial(QUERY, past())
    assert found.bounds == (1.5, 3.0, 6.0, 12.0, 24.0)
    assert found.fidelities == (0.9, 0.95, 0.97, 0.98, 0.99, 0.995), "the query's own among them"
    assert (found.least, found.most) == (2 / 60, 2.0)
    for row in found.pulls:
        assert all(one <= other for one, other in pairwise(row))
        assert all(found.least <= each <= found.most for each in row)
    for tight, wide in pairwise(found.pulls):
        assert all(one >= other for one, other in zip(tight, wide, strict=True))
    assert found.pulls[0][-1] > 3 * found.pulls[-1][0]


def test_what_is_foretold_happens_on_another_stretch_of_the_same_process() -> None:
    told = run_trial(QUERY, past()).at(6.0, 0.97)
    other = past(seed=9)
    happened = float(run_uncertainty([QUERY], other.trace, other.warm).pulls.sum()) / other.ticks
    assert told == pytest.approx(happened, rel=0.3)


def test_queries_together_share_their_pulls() -> None:
    both = pulls_a_tick([QUERY, QUERY], past())
    assert both[0] == both[1]
    assert both[0] < 1.3 * pulls_a_tick([QUERY], past())[0]
    with pytest.raises(PlanningError, match="only weighted sums"):
        pulls_a_tick([PullQuery.lowest((0, 1), Bound(1.0, 0.9))], past())


def test_the_first_price_meets_the_fidelity() -> None:
    guess = 0.05 / (1.0 - 0.97)
    found, tried = first_price(QUERY, past()), past(seed=5)
    fidelity = run_uncertainty([QUERY], tried.trace, tried.warm, price=guess * np.exp(found)).fidelity[0]
    assert fidelity == pytest.approx(0.97, abs=0.015)
    assert first_price(PullQuery.highest((0, 1), Bound(1.0, 0.9)), past()) == 0.0


@given(st.lists(st.floats(0, 1e6), max_size=8))
def test_rising_figures_never_fall_and_keep_their_sum(figures: list[float]) -> None:
    found = rising(figures)
    assert all(one <= other * (1 + 1e-12) + 1e-9 for one, other in pairwise(found))
    assert sum(found) == pytest.approx(sum(figures))
    if figures == sorted(figures):
        assert found == pytest.approx(figures)
