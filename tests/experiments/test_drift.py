"""Triggers, what is pushed, and labels made anew over a window."""

import numpy as np
import pytest

from experiments.push_pull.drift import Cover, Events, Trigger
from experiments.push_pull.published.density import Density
from experiments.push_pull.published.dynnaive import DynNaive
from experiments.push_pull.published.dynprop import DynProp
from experiments.push_pull.published.periodic import Periodic
from experiments.push_pull.sliding_window import Windowed, best_cover
from slackwater.core.errors import PlanningError

TRIGGERS: tuple[Trigger, ...] = (DynNaive(), DynProp(), Density(), Periodic(500))


def stretch(seed: int, count: int, asked: float, changed: float) -> Events:
    """Queries around one value, updates around another."""
    rng = np.random.default_rng(seed)
    asks = rng.random(count) < 0.5
    at = np.round(np.where(asks, rng.normal(asked, 20, count), rng.normal(changed, 20, count))).astype(np.float64)
    width = np.where(asks, rng.integers(0, 10, count), 0)
    return Events(asks, at - width, at + width, np.ones(count))


def paid_plainly(cover: Cover, events: Events) -> float:
    ranges = list(zip(cover.low, cover.high, strict=True))
    total = 0.0
    for asks, low, high, cost in zip(events.asks, events.low, events.high, events.cost, strict=True):
        inside = any(a <= low and high <= b for a, b in ranges)
        total += cost * (inside != asks)
    return total


@pytest.mark.parametrize("seed", range(10))
def test_a_cover_is_a_union_and_says_what_events_cost(seed: int) -> None:
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 200, 12).astype(np.float64)
    high = low + rng.integers(0, 20, 12)
    cover = Cover.of(low, high)
    assert (cover.low[1:] > cover.high[:-1]).all()
    for value in np.arange(-1, 230, 0.5):
        held = bool(((low <= value) & (value <= high)).any())
        assert cover.covers(np.array([value]), np.array([value]))[0] == held
    events = stretch(seed, 300, 100, 120)
    assert cover.paid(events).sum() == paid_plainly(cover, events)


@pytest.mark.parametrize("seed", range(10))
def test_the_best_cover_is_below_every_cover_of_queries(seed: int) -> None:
    events = stretch(seed, 60, 100, 110)
    best = best_cover(events).paid(events).sum()
    rng = np.random.default_rng(seed)
    asked = np.flatnonzero(events.asks)
    for _ in range(200):
        some = asked[rng.random(len(asked)) < rng.random()]
        assert Cover.of(events.low[some], events.high[some]).paid(events).sum() >= best


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: type(trigger).__name__)
def test_a_trigger_is_quiet_without_events_and_fires_on_another_world(trigger: Trigger) -> None:
    labelled = stretch(1, 1000, 100, 160)
    cover = best_cover(labelled)
    assert not trigger.fires(labelled, Events.joined(()), cover)
    assert trigger.fires(labelled, stretch(2, 1000, 160, 100), cover)


@pytest.mark.parametrize("trigger", TRIGGERS[:3], ids=lambda trigger: type(trigger).__name__)
def test_a_trigger_is_quiet_while_nothing_changes(trigger: Trigger) -> None:
    labelled = stretch(1, 4000, 100, 160)
    assert not trigger.fires(labelled, stretch(2, 4000, 100, 160), best_cover(labelled))


@pytest.mark.parametrize("forget", [False, True])
@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: type(trigger).__name__)
def test_labels_follow_a_change_and_every_message_is_counted(trigger: Trigger, *, forget: bool) -> None:
    """A client beside it keeps only what it was sent; it never answers at home with a value it does not know."""
    events = Events.joined((stretch(1, 3000, 100, 160), stretch(2, 6000, 160, 100)))
    following = Windowed(trigger, window=2000, forget=forget)
    latest: dict[float, int] = {}
    known: dict[float, int] = {}
    costs = []
    for start in range(0, len(events), 100):
        part = events.part(start, start + 100)
        cover, sent = following.cover, 0
        for k in range(len(part)):
            inside = bool(cover.covers(part.low[k : k + 1], part.high[k : k + 1])[0])
            if part.asks[k]:
                sent += not inside
                held = [v for v in latest if part.low[k] <= v <= part.high[k]]
                assert not inside or all(known.get(v) == latest[v] for v in held)
            else:
                latest[part.low[k]] = start + k
                if inside:
                    known[part.low[k]] = start + k
                    sent += 1
        step = following.observe(part)
        assert step.events == sent
        filled = 0
        for value, version in latest.items():
            at = np.array([value])
            if following.cover.covers(at, at)[0] and known.get(value) != version:
                known[value] = version
                filled += 1
        assert step.fill == filled
        costs.append(step.events + step.fill)
    static = best_cover(events.part(0, 2000))
    assert sum(costs[60:]) < 0.7 * static.paid(events.part(6000, 9000)).sum()


def test_a_fill_that_does_not_pay_is_not_made() -> None:
    one = Events(np.array([True]), np.array([0.0]), np.array([9.0]), np.ones(1))
    missed = np.arange(10.0)
    assert len(best_cover(one).low) == 1
    assert not len(best_cover(one, missed, fee=0.25).low)
    assert len(best_cover(one, missed[:3], fee=0.25).low) == 1


def test_settled_events_are_forgotten_and_queries_survive_in_pieces() -> None:
    """One old query over 0..9 of which 3..6 was pushed: updates at 4 speak no longer against it, nor it for them."""
    asks = np.array([True, True, False, False, False])
    low, high = np.array([0.0, 0, 1, 4, 4]), np.array([9.0, 9, 1, 4, 4])
    window = Events(asks, low, high, np.ones(5))
    assert not len(best_cover(window).low)
    pushed = Cover(np.array([3.0]), np.array([6.0]))
    assert best_cover(window, old=5, pushed=pushed).low.tolist() == [0.0]


def test_windows_hold_something() -> None:
    with pytest.raises(PlanningError, match="window"):
        Windowed(Periodic(1), window=0)
