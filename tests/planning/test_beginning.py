"""Schedulers that begin with statistics need fewer pulls, or keep bounds better, while others still learn."""

import numpy as np
import numpy.typing as npt
import pytest

from slackwater.core.bound import Bound
from slackwater.core.errors import PlanningError
from slackwater.kernels.pull_uncertainty import LEARNING_PULLS
from slackwater.planning.pulling import FixedInterval, Outcome, PredictedChange, PullQuery, Uncertainty, drive
from slackwater.planning.pulling.beginning import STUBBORN, begin, spacing_of
from slackwater.planning.pulling.habits import Habit, habits_of
from slackwater.planning.pulling.outlook import first_price
from slackwater.planning.pulling.past import Memory, Motion, past_of
from slackwater.statistics import Statistics, Ticks

SECOND = 1_000_000
ITEMS, BEFORE, WARM_UP = 4, 3_000, 300


def trace(seed: int = 5) -> npt.NDArray[np.float64]:
    """Walks of different size."""
    steps = np.random.default_rng(seed).normal(size=(BEFORE + WARM_UP, ITEMS)) * [0.1, 0.3, 0.2, 1.0]
    return 100.0 + np.cumsum(steps, axis=0)


def habits(values: npt.NDArray[np.float64], every: int = SECOND) -> list[Habit | None]:
    statistics = Statistics("t", "v")
    names = [f"i{item}" for item in range(ITEMS)]
    for place, name in enumerate(names):
        statistics.update(Ticks.of([name] * len(values), np.arange(len(values)) * every, values[:, place]))
    found = habits_of(statistics, SECOND)
    return [found.get(name) for name in names]


QUERY = PullQuery.total((0, 1, 2, 3), (1.0, 2.0, 1.0, 0.5), Bound(2.0, 0.95))


def run(scheduler: Uncertainty | PredictedChange, price: float = 0.0) -> Outcome:
    scheduler.register("q", QUERY)
    if price and isinstance(scheduler, Uncertainty):
        scheduler.raise_price("q", price)
    return drive(scheduler, [QUERY], trace()[BEFORE:])


def test_the_warm_up_is_cheaper_and_the_fidelity_is_there_from_the_beginning() -> None:
    known = habits(trace()[:BEFORE])
    motions = [Motion.of_habit(one) for one in known if one is not None]
    memories = [Memory(str(item), (), None, motion) for item, motion in enumerate(motions)]
    price = first_price(QUERY, past_of(memories, np.random.default_rng(1)))
    informed = Uncertainty(ITEMS)
    begin(informed, known)
    fresh, begun = run(Uncertainty(ITEMS)), run(informed, price)
    assert begun.pulls.sum() < 0.9 * fresh.pulls.sum()
    assert begun.fidelity[0] >= 0.93
    assert begun.fidelity[0] >= fresh.fidelity[0] - 0.01


def test_models_begin_with_what_is_known_and_can_still_be_convinced() -> None:
    known = habits(trace()[:BEFORE])
    scheduler = Uncertainty(ITEMS)
    begin(scheduler, [known[0], None, known[2], known[3]])
    model = scheduler.models[0]
    assert model.learnt == LEARNING_PULLS
    assert model.scale[model.score.index(max(model.score))] == pytest.approx(0.01, rel=0.1)
    assert min(model.score) >= -STUBBORN
    assert scheduler.models[1].learnt == 0
    assert scheduler.models[3].scale[0] == pytest.approx(1.0, rel=0.1)
    coarse = Uncertainty(ITEMS)
    begin(coarse, habits(trace()[:BEFORE], every=60 * SECOND))
    assert 0 < coarse.models[0].learnt < LEARNING_PULLS, "how it moves in between has to be seen"


def test_the_papers_chain_begins_with_the_transitions_that_were_counted() -> None:
    known = habits(trace()[:BEFORE])
    spacings = [spacing_of(one) for one in known if one is not None]
    informed = PredictedChange(spacings)
    begin(informed, known)
    chain = informed.models[0]
    counts = np.array(chain.counts)
    assert counts.sum() == pytest.approx(400, rel=0.01), "no more than so many ticks"
    reach = chain.settings.reach
    steps = np.diff(trace()[:BEFORE, 0])
    states = np.clip(np.floor(steps / chain.spacing + 0.5), -reach, reach).astype(int) + reach
    expected = np.bincount(states, minlength=2 * reach + 1) / len(states)
    assert np.abs(counts.sum(axis=0) / counts.sum() - expected).max() < 0.03
    assert drive_twice(known, spacings)


def drive_twice(known: list[Habit | None], spacings: list[float]) -> bool:
    informed = PredictedChange(spacings)
    begin(informed, known)
    return bool(run(informed).pulls.sum() != run(PredictedChange(spacings)).pulls.sum())


def test_what_cannot_begin_with_statistics_says_so() -> None:
    with pytest.raises(PlanningError, match="each of 4 items, but came 1"):
        begin(Uncertainty(ITEMS), [None])
    with pytest.raises(PlanningError, match="FixedInterval learns nothing"):
        begin(FixedInterval(1, every=3), [None])
