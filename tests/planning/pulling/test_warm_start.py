"""Schedulers that begin with statistics need fewer pulls, or keep bounds better, while others still learn."""

import numpy as np
import numpy.typing as npt
import pytest

from experiments.pulling.simulation import drive
from slackwater.core.bound import Bound
from slackwater.core.errors import PlanningError
from slackwater.planning.pulling import FixedInterval, Outcome, PredictedChange, PullQuery, Uncertainty
from slackwater.planning.pulling.history_sampling import ItemHistory, Motion, past_of
from slackwater.planning.pulling.item_prior import ItemPrior, priors_of
from slackwater.planning.pulling.model_constants import LEARNING_PULLS
from slackwater.planning.pulling.trial import first_price
from slackwater.planning.pulling.warm_start import STUBBORN, begin, spacing_of
from slackwater.statistics import Statistics, Ticks

SECOND = 1_000_000
ITEMS, BEFORE, WARM_UP = 4, 3_000, 300


def trace(seed: int = 5) -> npt.NDArray[np.float64]:
    """Walks of different size."""
    steps = np.random.default_rng(seed).normal(size=(BEFORE + WARM_UP, ITEMS)) * [0.1, 0.3, 0.2, 1.0]
    return 100.0 + np.cumsum(steps, axis=0)


def priors(values: npt.NDArray[np.float64], every: int = SECOND) -> list[ItemPrior | None]:
    statistics = Statistics("t", "v")
    names = [f"i{item}" for item in range(ITEMS)]
    for place, name in enumerate(names):
        statistics.update(Ticks.of([name] * len(values), np.arange(len(values)) * every, values[:, place]))
    found = priors_of(statistics, SECOND)
    return [found.get(name) for name in names]


def query(within: float) -> PullQuery:
    return PullQuery.total((0, 1, 2, 3), (1.0, 2.0, 1.0, 0.5), Bound(within, 0.95))


QUERY = query(2.0)


def run(scheduler: Uncertainty | PredictedChange, asked: PullQuery = QUERY, price: float = 0.0) -> Outcome:
    scheduler.register("q", asked)
    if price and isinstance(scheduler, Uncertainty):
        scheduler.raise_price("q", price)
    return drive(scheduler, [asked], trace()[BEFORE:])


@pytest.mark.parametrize(
    ("within", "pulls", "outside"),
    [(2.0, 1.05, 0.5), (8.0, 0.7, None)],
    ids=["a tight bound is kept much better", "a wide one needs far fewer pulls"],
)
def test_the_warm_up_is_better(within: float, pulls: float, outside: float | None) -> None:
    known, asked = priors(trace()[:BEFORE]), query(within)
    motions = [Motion.of_prior(one) for one in known if one is not None]
    memories = [ItemHistory(str(item), (), None, motion) for item, motion in enumerate(motions)]
    price = first_price(asked, past_of(memories, np.random.default_rng(1)))
    informed = Uncertainty(ITEMS)
    begin(informed, known)
    fresh, begun = run(Uncertainty(ITEMS), asked), run(informed, asked, price)
    assert begun.pulls.sum() <= pulls * fresh.pulls.sum()
    assert begun.fidelity[0] >= 0.94
    if outside is not None:
        assert begun.broken[0] <= outside * fresh.broken[0]


def test_models_begin_with_what_is_known_and_can_still_be_convinced() -> None:
    known = priors(trace()[:BEFORE])
    scheduler = Uncertainty(ITEMS)
    begin(scheduler, [known[0], None, known[2], known[3]])
    model = scheduler.models[0]
    assert model.learnt == LEARNING_PULLS
    assert model.scale[model.score.index(max(model.score))] == pytest.approx(0.01, rel=0.1)
    assert min(model.score) >= -STUBBORN
    assert scheduler.models[1].learnt == 0
    assert scheduler.models[3].scale[0] == pytest.approx(1.0, rel=0.1)
    coarse = Uncertainty(ITEMS)
    begin(coarse, priors(trace()[:BEFORE], every=60 * SECOND))
    assert 0 < coarse.models[0].learnt < LEARNING_PULLS, "how it moves in between has to be seen"


def test_the_papers_chain_begins_with_the_transitions_that_were_counted() -> None:
    known = priors(trace()[:BEFORE])
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


def drive_twice(known: list[ItemPrior | None], spacings: list[float]) -> bool:
    informed = PredictedChange(spacings)
    begin(informed, known)
    return bool(run(informed).pulls.sum() != run(PredictedChange(spacings)).pulls.sum())


def test_a_first_price_outlasts_the_first_judgement() -> None:
    scheduler = Uncertainty(ITEMS)
    scheduler.register("q", QUERY)
    scheduler.raise_price("q", 2.0)
    assert scheduler.accounts["q"].own == 2.0
    drive(scheduler, [QUERY], trace()[: 2 * scheduler.longest + 50])
    assert scheduler.accounts["q"].judged > 0
    assert 1.0 < scheduler.accounts["q"].own < 4.0


def test_what_items_have_in_common_is_known_from_the_beginning() -> None:
    random, loadings = np.random.default_rng(2), np.array([0.8, 0.6, 0.0, -0.7])
    common, own = random.normal(size=(BEFORE, 1)), random.normal(size=(BEFORE, ITEMS))
    values = np.cumsum(loadings * common + np.sqrt(1 - loadings**2) * own, axis=0)
    statistics = Statistics("t", "v", period=SECOND)
    names = [f"i{item}" for item in range(ITEMS)]
    times = np.repeat(np.arange(BEFORE) * SECOND, ITEMS)
    statistics.update(Ticks.of(names * BEFORE, times, values.ravel()))
    found = priors_of(statistics, SECOND)
    scheduler = Uncertainty(ITEMS)
    begin(scheduler, [found[name] for name in names])
    assert scheduler.common_factor.loading == pytest.approx(loadings, abs=0.1)
    memories = [ItemHistory(name, (), None, Motion.of_prior(found[name])) for name in names]
    drawn = np.diff(past_of(memories, np.random.default_rng(4)).trace, axis=0)
    expected = np.outer(loadings, loadings) + np.diag(1 - loadings**2)
    assert np.corrcoef(drawn.T) == pytest.approx(expected, abs=0.12)
    assert priors_of(statistics, SECOND, {"i2", "i0"}).keys() == {"i0", "i2"}


def test_what_cannot_begin_with_statistics_says_so() -> None:
    with pytest.raises(PlanningError, match="each of 4 items, but came 1"):
        begin(Uncertainty(ITEMS), [None])
    with pytest.raises(PlanningError, match="FixedInterval learns nothing"):
        begin(FixedInterval(1, every=3), [None])
