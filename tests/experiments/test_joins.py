import itertools
from pathlib import Path

import numpy as np
import pytest

from experiments.joins import experiments
from experiments.joins.mixes import KINDS, retail
from experiments.joins.pictures import draw
from experiments.joins.workloads import BandWorkload, SelectWorkload, chapter_ranges
from slackwater.processing.matching import BandSSI, JoinSide, SelectSSI


def test_a_row_affects_as_many_queries_as_asked_for() -> None:
    rng = np.random.default_rng(1)
    band = BandWorkload(rng, 5000, 2000, 10)
    matcher = BandSSI(band.shape)
    matcher.add(band.queries)
    matcher.insert(JoinSide.RIGHT, band.across)
    assert matcher.groups == 10
    assert 7 < matcher.count(JoinSide.LEFT, band.draw(2000)).mean() < 13
    select = SelectWorkload(rng, 5000, 20_000, 10, 0.1)
    other = SelectSSI(select.shape)
    other.add(select.queries)
    other.insert(JoinSide.RIGHT, select.across)
    assert other.groups[0] == 10
    assert 7 < other.count(JoinSide.LEFT, select.draw(2000)).mean() < 13


def test_the_ranges_of_the_chapter_are_in_few_groups() -> None:
    ranges, groups = chapter_ranges(np.random.default_rng(1), 20_000, 1500, 2000**0.5)
    assert 8 < groups < 20
    assert ranges.low.min() >= 0


def test_the_experiments_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All methods are measured and agree; the clock here only counts."""
    monkeypatch.setattr(experiments, "ROWS", 300)
    ticks = itertools.count()

    def clock() -> float:
        return next(ticks) * 0.1

    queries = list(experiments.against_queries(clock, (50,)))
    groups = list(experiments.against_groups(clock, (1, 3), 50))
    routes = list(experiments.routes(clock, None, queries=400, rows=2000, arriving=40))
    assert {row["method"] for row in queries} == {*experiments.BANDS, *experiments.SELECTS}
    assert {row["mix"] for row in routes} == set(KINDS)
    draw(queries, groups, routes, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"queries.svg", "groups.svg", "routes.svg"}


DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.shared_data
@pytest.mark.skipif(not DATA.exists(), reason="the folder of traces is not beside the checkout")
def test_retail_events_are_supply_and_demand() -> None:
    mix = retail(np.random.default_rng(1), DATA, 100, 50)
    assert len(mix.across) > 200_000
    matcher = SelectSSI(SelectWorkload.shape)
    matcher.add(mix.queries)
    matcher.insert(JoinSide.RIGHT, mix.across)
    assert matcher.count(JoinSide.LEFT, mix.arriving["retail events"]).mean() > 1
