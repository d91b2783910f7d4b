"""The contract of `slackwater.planning.pulling.base`, one by one, for every scheduler there is.

A new scheduler joins by a maker of its own in `MAKERS`; one without is reported.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.pulling.simulation import drive
from slackwater.core.bound import Bound
from slackwater.core.errors import PlanningError
from slackwater.planning.pulling import (
    CHOICES,
    SCHEDULERS,
    ChainSettings,
    FixedInterval,
    PredictedChange,
    PullQuery,
    Scheduler,
    SchedulerState,
    Uncertainty,
)

ITEMS, LONGEST, TICKS = 4, 12, 120

MAKERS: dict[str, Callable[[], SchedulerState]] = {
    "uncertainty": lambda: Uncertainty(ITEMS, longest=LONGEST),
    "uncertainty with costs": lambda: Uncertainty(ITEMS, longest=LONGEST, costs=[0.5, 1.0, 2.0, 4.0]),
    "fixed interval": lambda: FixedInterval(ITEMS, every=LONGEST),
    "drawn": lambda: PredictedChange(
        [0.5] * ITEMS,
        longest=LONGEST,
        settings=ChainSettings(reach=3, draw=True),
        random=np.random.default_rng(4),
    ),
    **{
        name: lambda choice=choice: PredictedChange([0.5] * ITEMS, choice, longest=LONGEST)  # type: ignore[misc]
        for name, choice in CHOICES.items()
    },
}
QUERIES = [
    PullQuery.total((0, 1), (1.0, -2.0), Bound(4.0, 0.9)),
    PullQuery.average((1, 2), Bound(1.5, 0.95)),
]

schedulers = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def ready(make: Callable[[], SchedulerState]) -> SchedulerState:
    scheduler = make()
    for name, query in enumerate(QUERIES):
        scheduler.register(str(name), query)
    return scheduler


def scheduled(scheduler: SchedulerState) -> Scheduler:
    assert isinstance(scheduler, Scheduler)
    return scheduler


def walk(seed: int, ticks: int = TICKS) -> list[list[float]]:
    steps = np.random.default_rng(seed).standard_normal((ticks, ITEMS))
    found: list[list[float]] = np.cumsum(steps, axis=0).tolist()
    return found


def answer(scheduler: Scheduler, truth: list[float], now: int) -> list[int]:
    asked: list[int] = []
    while chosen := scheduler.due(now):
        assert len(set(chosen)) == len(chosen)
        asked += chosen
        for item in chosen:
            scheduler.pulled(now, item, truth[item])
    return asked


def test_every_scheduler_is_held_to_the_contract() -> None:
    assert {type(make()) for make in MAKERS.values()} == set(SCHEDULERS)


@schedulers
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000))
def test_items_are_named_often_enough_and_only_if_held(make: Callable[[], SchedulerState], seed: int) -> None:
    scheduler = scheduled(ready(make))
    last = [0] * ITEMS
    for now, truth in enumerate(walk(seed)):
        asked = answer(scheduler, truth, now)
        if now == 0:
            assert {0, 1, 2} <= set(asked)
        assert 3 not in asked
        for item in asked:
            last[item] = now
        assert all(now - last[item] < LONGEST for item in (0, 1, 2))


@schedulers
def test_what_is_in_flight_is_not_named_again(make: Callable[[], SchedulerState]) -> None:
    scheduler = scheduled(ready(make))
    assert set(scheduler.due(0)) == {0, 1, 2}
    for now in range(3 * LONGEST):
        assert scheduler.due(now) == ()
    scheduler.pulled(3 * LONGEST, 0, 1.0)
    for now in range(3 * LONGEST, 5 * LONGEST):
        assert set(scheduler.due(now)) <= {0}


@schedulers
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000))
def test_sleeping_changes_no_decision(make: Callable[[], SchedulerState], seed: int) -> None:
    awake, asleep = scheduled(ready(make)), scheduled(ready(make))
    alarm = 0
    for now, truth in enumerate(walk(seed)):
        wanted = answer(awake, truth, now)
        if now >= alarm:
            assert answer(asleep, truth, now) == wanted
            alarm = asleep.wake(now)
            assert alarm > now
        else:
            assert wanted == []


@schedulers
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000), cut=st.integers(1, TICKS - 1))
def test_a_restored_scheduler_goes_on_as_the_first_would(
    make: Callable[[], SchedulerState], seed: int, cut: int
) -> None:
    one, other = scheduled(ready(make)), scheduled(ready(make))
    for now, truth in enumerate(walk(seed)):
        if now == cut:
            other.restore(one.snapshot())
        asked = answer(one, truth, now)
        if now >= cut:
            assert answer(other, truth, now) == asked
            assert other.snapshot() == one.snapshot()


@schedulers
def test_a_missing_item_suspends_its_queries_until_it_is_back(make: Callable[[], SchedulerState]) -> None:
    scheduler = ready(make)
    asked = scheduled(scheduler)
    truths = walk(3, 6 * LONGEST)
    for now in range(LONGEST):
        answer(asked, truths[now], now)
    asked.failed(LONGEST, 0)
    assert scheduler.suspended() == {"0": (0,)}
    later: list[int] = []
    for now in range(LONGEST, 4 * LONGEST):
        later += answer(asked, truths[now], now)
    assert 0 not in later
    assert {1, 2} <= set(later)
    asked.retry(4 * LONGEST, 0)
    assert 0 in answer(asked, truths[4 * LONGEST], 4 * LONGEST)
    assert scheduler.suspended() == {}


@schedulers
def test_a_value_that_came_by_itself_is_knowledge(make: Callable[[], SchedulerState]) -> None:
    scheduler = scheduled(ready(make))
    truths = walk(5)
    for now, truth in enumerate(truths):
        answer(scheduler, truth, now)
        scheduler.pulled(now, 0, truth[0])
        assert 0 not in scheduler.due(now)


@schedulers
def test_queries_come_and_go(make: Callable[[], SchedulerState]) -> None:
    scheduler = ready(make)
    asked = scheduled(scheduler)
    truths = walk(6, 6 * LONGEST)
    for now in range(LONGEST):
        answer(asked, truths[now], now)
    scheduler.unregister("0")
    later = [item for now in range(LONGEST, 3 * LONGEST) for item in answer(asked, truths[now], now)]
    assert set(later) == {1, 2}
    scheduler.register("new", PullQuery.total((3,), (1.0,), Bound(1.0, 0.9)))
    assert 3 in answer(asked, truths[3 * LONGEST], 3 * LONGEST)


@schedulers
def test_what_cannot_be_is_refused(make: Callable[[], SchedulerState]) -> None:
    scheduler = ready(make)
    asked = scheduled(scheduler)
    asked.due(5)
    with pytest.raises(PlanningError, match="went back"):
        asked.due(4)
    with pytest.raises(PlanningError, match="finite"):
        asked.pulled(5, 0, math.nan)
    with pytest.raises(PlanningError, match="already"):
        scheduler.register("0", QUERIES[0])
    with pytest.raises(PlanningError, match="items are"):
        scheduler.register("far", PullQuery.total((99,), (1.0,), Bound(1.0, 0.9)))
    with pytest.raises(PlanningError, match="no query"):
        scheduler.unregister("nobody")
    with pytest.raises(PlanningError, match="snapshot"):
        asked.restore(b"{}")
    with pytest.raises(PlanningError, match="another"):
        asked.restore(scheduled(make()).snapshot())


@schedulers
def test_a_count_is_kept(make: Callable[[], SchedulerState]) -> None:
    """Items are 1 while their row counts; at every tick the count must be within 1 most of the time."""
    scheduler = make()
    query = PullQuery.count((0, 1, 2), Bound(1.0, 0.8))
    scheduler.register("count", query)
    flips = np.random.default_rng(2).random((400, ITEMS)) < 0.02
    trace = (np.cumsum(flips, axis=0) % 2).astype(np.float64)
    assert drive(scheduled(scheduler), [query], trace, 100).fidelity[0] > 0.8
