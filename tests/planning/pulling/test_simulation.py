"""The compiled runs against the plain ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.pulling.clairvoyant import push_best_plainly, push_changed_plainly
from experiments.pulling.simulation import drive, push_best, push_changed, run_predicted
from slackwater.core.bound import Bound
from slackwater.core.errors import PlanningError
from slackwater.planning.pulling import (
    CHOICES,
    ChainSettings,
    Outcome,
    PredictedChange,
    PullQuery,
    Uncertainty,
    run_uncertainty,
)
from slackwater.planning.pulling.simulation import Floats

TICKS = 260
LONGEST = 24


def world(seed: int) -> tuple[Floats, list[PullQuery]]:
    """A trace of some kind with queries of some kind."""
    random = np.random.default_rng(seed)
    items = int(random.integers(2, 7))
    steps = random.standard_normal((TICKS, items)) * random.uniform(0.1, 3.0, items)
    steps *= np.where(random.random((TICKS, 1)) < 0.05, 8.0, 1.0)
    trace = np.cumsum(steps, axis=0) if seed % 3 else steps + np.arange(TICKS)[:, None] * 0.1
    if seed % 2:
        trace = np.round(trace)
    queries = []
    for _ in range(int(random.integers(1, 8))):
        size = int(random.integers(1, items + 1))
        chosen = random.choice(items, size, replace=False)
        bound = Bound(float(random.uniform(0.5, 12.0)), float(random.uniform(0.8, 0.99)))
        weights = random.uniform(0.5, 3.0, size) * random.choice([-1.0, 1.0], size)
        queries.append(PullQuery.total([int(each) for each in chosen], [float(each) for each in weights], bound))
    return np.ascontiguousarray(trace), queries


def same(one: Outcome, other: Outcome) -> None:
    assert one.pulls.tolist() == other.pulls.tolist()
    assert one.broken.tolist() == other.broken.tolist()
    assert one.over_time.tolist() == other.over_time.tolist()
    assert np.allclose(one.error, other.error, rtol=1e-9)
    assert one.ticks == other.ticks


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), price=st.none() | st.floats(0.01, 10.0))
def test_uncertainty_compiled_is_uncertainty(seed: int, price: float | None) -> None:
    trace, queries = world(seed)
    costs = [0.2 + 3.8 * np.random.default_rng(seed + item).random() for item in range(trace.shape[1])]
    scheduler = Uncertainty(trace.shape[1], costs=costs, longest=LONGEST, price=price)
    for name, query in enumerate(queries):
        scheduler.register(str(name), query)
    fast = run_uncertainty(queries, trace, 50, costs=costs, longest=LONGEST, price=price)
    same(drive(scheduler, queries, trace, 50), fast)


@pytest.mark.parametrize("choice", CHOICES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), draw=st.booleans(), literal=st.booleans(), fixed=st.sampled_from([None, 0.5]))
def test_predicted_compiled_is_predicted(
    choice: str, seed: int, draw: bool, literal: bool, fixed: float | None
) -> None:
    trace, queries = world(seed)
    spacings = [0.7] * trace.shape[1]
    chain = ChainSettings(reach=4, draw=draw, literal=literal)
    scheduler = PredictedChange(
        spacings,
        CHOICES[choice],
        longest=LONGEST,
        settings=chain,
        fixed=fixed,
        random=np.random.default_rng(seed) if draw else None,
    )
    for name, query in enumerate(queries):
        scheduler.register(str(name), query)
    fast = run_predicted(
        queries,
        trace,
        spacings,
        choice,
        50,
        longest=LONGEST,
        settings=chain,
        fixed=fixed,
        random=np.random.default_rng(seed) if draw else None,
    )
    same(drive(scheduler, queries, trace, 50), fast)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_clairvoyants_compiled_are_clairvoyants(seed: int) -> None:
    trace, queries = world(seed)
    assert push_changed(queries, trace, 50) == sum(push_changed_plainly(queries, trace, 50))
    assert push_best(queries, trace, 50) == sum(push_best_plainly(queries, trace, 50))


def test_clairvoyants_push_what_they_must() -> None:
    query = PullQuery.total((0, 1), (1.0, 1.0), Bound(2.0, 0.9))
    trace = np.array([[0.0, 0.0], [1.0, 0.5], [2.0, 0.5], [2.0, 3.0], [2.0, 3.0]])
    assert push_changed_plainly([query], trace) == [1, 2]
    assert push_best_plainly([query], trace) == [1, 1]


def test_minimum_is_driven_not_compiled() -> None:
    query = PullQuery.lowest((0, 1), Bound(1.0, 0.9))
    with pytest.raises(PlanningError, match="weighted sums"):
        run_uncertainty([query], np.zeros((5, 2)))
