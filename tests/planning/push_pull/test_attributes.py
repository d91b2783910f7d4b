"""Which attributes are chosen."""

import numpy as np
import pytest

from slackwater.core.errors import PlanningError
from slackwater.planning.push_pull.base import Moves, Queries, Workload
from slackwater.planning.push_pull.exact import exact
from slackwater.planning.push_pull.published.attributes import choose_attributes, only
from slackwater.planning.push_pull.published.uniform import uniform


def space(seed: int, telling: tuple[int, ...]) -> Workload:
    """Three attributes, of which only the telling ones say where queries and updates part."""
    rng = np.random.default_rng(seed)
    lows, highs = np.zeros((300, 3), np.int64), np.full((300, 3), 99)
    places = rng.integers(0, 100, (300, 3))
    for axis in telling:
        lows[:, axis] = rng.integers(0, 30, 300)
        highs[:, axis] = lows[:, axis] + rng.integers(0, 10, 300)
        places[:, axis] = np.where(rng.random(300) < 0.9, rng.integers(45, 100, 300), places[:, axis])
    places = np.unique(places, axis=0)
    queries = Queries(np.ones(300), np.arange(300), lows, highs)
    return Workload(queries, places, np.ones(len(places)), np.zeros(len(places)), Moves.none())


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_attribute_that_tells_is_found_and_no_other(axis: int) -> None:
    chosen = choose_attributes(space(1, (axis,)), exact)
    assert chosen.axes == (axis,)
    assert chosen.costs[-1] < chosen.costs[0] / 2


def test_without_an_attribute_there_is_one_label() -> None:
    workload = space(2, (0,))
    chosen = choose_attributes(workload, exact, most=0)
    assert chosen.axes == ()
    assert chosen.costs == (uniform(workload).cost,)


@pytest.mark.parametrize("seed", range(5))
def test_every_attribute_more_can_only_help_and_all_are_the_optimum(seed: int) -> None:
    workload = space(seed, (0, 2))
    chosen = choose_attributes(workload, exact, worth=0.0)
    assert list(chosen.costs) == sorted(chosen.costs, reverse=True)
    assert workload.cost(chosen.labels.push) <= chosen.costs[-1]
    assert exact(only(workload, (0, 1, 2)).coarse).cost == exact(workload).cost


def test_a_share_is_a_share() -> None:
    with pytest.raises(PlanningError, match="share"):
        choose_attributes(space(1, (0,)), exact, worth=1.5)
