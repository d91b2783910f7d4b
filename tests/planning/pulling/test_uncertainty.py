"""The scheduler by uncertainty: what it is worth, on data whose nature is known."""

import numpy as np
import pytest

from experiments.pulling.simulation import drive, push_best, run_predicted
from slackwater.core.bound import Bound
from slackwater.core.errors import PlanningError
from slackwater.planning.pulling import PullQuery, Uncertainty, run_uncertainty, split_between
from slackwater.planning.pulling.forecast import Forecast, strength
from slackwater.planning.pulling.risk import lowest_risk, risk
from slackwater.planning.pulling.simulation import Floats

TICKS, WARM = 2000, 400


def walk(items: int = 6, seed: int = 1, ticks: int = TICKS) -> Floats:
    return np.cumsum(np.random.default_rng(seed).standard_normal((ticks, items)), axis=0)


def sums(items: int, within: float, fidelity: float, count: int = 20) -> list[PullQuery]:
    random = np.random.default_rng(2)
    made = []
    for _ in range(count):
        chosen = random.choice(items, 3, replace=False)
        weights = [float(each) for each in random.uniform(1, 2, 3)]
        made.append(PullQuery.total([int(item) for item in chosen], weights, Bound(within, fidelity)))
    return made


@pytest.mark.parametrize("desired", [0.9, 0.95, 0.99])
def test_a_walk_is_kept_as_often_as_desired(desired: float) -> None:
    found = run_uncertainty(sums(6, 12.0, desired), walk(), WARM).fidelity
    assert found.mean() >= desired - 0.01
    assert np.percentile(found, 5) >= desired - 0.035


def test_more_tolerance_and_less_fidelity_need_fewer_pulls() -> None:
    trace = walk()
    by_bound = [run_uncertainty(sums(6, within, 0.95), trace, WARM).pulls.sum() for within in (6.0, 12.0, 24.0)]
    by_fidelity = [run_uncertainty(sums(6, 12.0, desired), trace, WARM).pulls.sum() for desired in (0.99, 0.95, 0.85)]
    assert by_bound == sorted(by_bound, reverse=True)
    assert by_fidelity == sorted(by_fidelity, reverse=True)


def test_fewer_pulls_than_the_paper_at_no_less_fidelity() -> None:
    trace, queries = walk(), sums(6, 12.0, 0.95)
    ours = run_uncertainty(queries, trace, WARM)
    for choice in ("data_incoherency", "positive_negative", "max"):
        theirs = run_predicted(queries, trace, [0.5] * 6, choice, WARM, fixed=0.1)
        assert theirs.fidelity.mean() <= ours.fidelity.mean() or theirs.pulls.sum() > ours.pulls.sum()
    assert ours.pulls.sum() < 3 * push_best(queries, trace, WARM)


def test_the_item_that_moves_is_pulled_and_the_quiet_one_left_in_peace() -> None:
    trace = walk(2)
    trace[:, 1] *= 0.02
    pulls = run_uncertainty([PullQuery.total((0, 1), (1.0, 1.0), Bound(5.0, 0.95))], trace, WARM).pulls
    floor = (TICKS - WARM) / 60
    assert pulls[1] <= 1.2 * floor
    assert pulls[0] > 3 * pulls[1]


def test_a_dear_item_is_pulled_less_than_a_cheap_one() -> None:
    queries = [PullQuery.total((0, 1), (1.0, 1.0), Bound(6.0, 0.95))]
    pulls = run_uncertainty(queries, walk(2), WARM, costs=[1.0, 9.0]).pulls
    assert pulls[0] > 1.5 * pulls[1]


@pytest.mark.parametrize(("staying", "places"), [(0.0, {5}), (1.0, {0, 1})])
def test_noise_and_walks_are_told_apart(staying: float, places: set[int]) -> None:
    """Among models without a slope the one that made the data scores best; 0.99 of a distance is nearly all of it."""
    noise = np.random.default_rng(3).standard_normal((TICKS, 4))
    trace = noise if staying == 0.0 else np.cumsum(noise, axis=0)
    query = PullQuery.average((0, 1, 2, 3), Bound(0.9, 0.9))
    scheduler = Uncertainty(4)
    scheduler.register("q", query)
    found = drive(scheduler, [query], trace, WARM)
    assert found.fidelity[0] > 0.88
    for model in scheduler.models:
        level = model.score[:6]
        assert level.index(max(level)) in places


def test_a_steady_climb_is_foreseen() -> None:
    """Without noise the line is known exactly; pulls come about when the bound is reached, not much earlier."""
    climb = np.arange(TICKS, dtype=np.float64)[:, None] * np.ones((1, 1))
    found = run_uncertainty([PullQuery.total((0,), (1.0,), Bound(20.0, 0.9))], climb, WARM)
    assert found.fidelity[0] > 0.9
    assert found.pulls[0] < 2 * (TICKS - WARM) / 20


def test_an_item_that_cannot_be_the_minimum_is_left_in_peace() -> None:
    trace = walk(3, ticks=1200)
    trace[:, 2] += 1000.0
    query = PullQuery.lowest((0, 1, 2), Bound(6.0, 0.9))
    scheduler = Uncertainty(3)
    scheduler.register("lowest", query)
    found = drive(scheduler, [query], trace, WARM)
    assert found.fidelity[0] > 0.88
    assert found.pulls[2] <= 1.2 * (1200 - WARM) / 60
    assert found.pulls[:2].sum() > 2 * found.pulls[2]


def test_the_maximum_is_the_minimum_of_the_negatives() -> None:
    trace = walk(3, ticks=300)
    pulls = []
    for query, values in (
        (PullQuery.lowest((0, 1, 2), Bound(3.0, 0.9)), trace),
        (PullQuery.highest((0, 1, 2), Bound(3.0, 0.9)), -trace),
    ):
        scheduler = Uncertainty(3)
        scheduler.register("q", query)
        pulls.append(drive(scheduler, [query], values).pulls.tolist())
    assert pulls[0] == pulls[1]


def test_risks_by_simulation() -> None:
    random = np.random.default_rng(5)
    errors = 0.4 + 1.3 * random.standard_normal(200_000)
    assert risk(0.4, 1.69, 2.0) == pytest.approx(np.mean(np.abs(errors) > 2.0), abs=0.004)
    held = np.array([1.0, 1.5, 4.0])
    values = held + random.standard_normal((200_000, 3)) * np.array([1.0, 0.8, 2.0])
    outside = np.abs(values.min(axis=1) - 1.0) > 0.9
    told = lowest_risk(held.tolist(), held.tolist(), [1.0, 0.64, 4.0], 0.9)
    # An item held beyond the bound that falls below it while the others rise is counted as if it stayed there.
    assert told == pytest.approx(outside.mean(), abs=0.02)
    assert told >= outside.mean() - 0.003


def test_a_client_is_within_b_when_both_parts_are_kept() -> None:
    pulling, sending = split_between(10.0, 0.6)
    assert pulling + sending == 10.0
    with pytest.raises(PlanningError, match="share"):
        split_between(10.0, 0.0)


def test_always_is_refused_with_advice() -> None:
    with pytest.raises(PlanningError, match="FIDELITY"):
        PullQuery.total((0,), (1.0,), Bound(1.0))


def test_a_forecast_has_a_floor_and_a_ceiling() -> None:
    law = Forecast(1.0, 2.0)
    tight, loose = (PullQuery.total((0, 1), (1.0, 1.0), Bound(within, 0.9)) for within in (0.1, 1e6))
    assert law.pulls(tight, [1.0, 1.0]) == 2.0
    assert law.pulls(loose, [1.0, 1.0]) == 2 / 60
    assert strength(tight, [1.0, 3.0]) == pytest.approx(40.0)
