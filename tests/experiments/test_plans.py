"""The experiments on small worlds, where what must come out is known."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.plans import example
from experiments.plans.alpha_effect import alpha_effect, followed
from experiments.plans.comparison import compare
from experiments.plans.floor_effect import floor_effect
from experiments.plans.floor_saving import floor_saving
from experiments.plans.message_count import plan_messages
from experiments.plans.pictures import draw_alpha, draw_comparison, draw_similarity
from experiments.plans.prediction import accuracies, fitted
from experiments.plans.pushes import count_pushes_plainly, pushed
from experiments.plans.setting import draw_offers, draw_queries, published_unit, rescaled, sum_unit
from experiments.plans.similarity_effect import similarity_effect
from experiments.plans.traces import Trace, read, related, stocks, traffic, unrelated
from slackwater.planning.aggregation import CostModel, Exact, Problem, ScaleFreeCost, SumQuery
from slackwater.server.planners.network.explain import explained, figures_of

FOLDER = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture(scope="module")
def walks() -> Trace:
    generator = np.random.default_rng(1)
    steps = generator.normal(size=(3000, 12)) * generator.lognormal(-3, 0.5, 12)
    return Trace("walks", tuple(f"s{k}" for k in range(12)), 50 + np.cumsum(steps, axis=0), 1 / 60)


def test_messages_of_a_plan_are_those_of_its_parts_by_the_plain_twin(walks: Trace) -> None:
    offers = draw_offers(np.random.default_rng(2), walks.items, aggregators=6, most=6)
    query = SumQuery(walks.items[:5], (2.0, -3.0, 4.0, 5.0, 6.0), 3.0)
    plan = Exact()(Problem(query, offers, walks.dynamics(), ScaleFreeCost()))
    expected = 0
    for part in plan.parts:
        course = sum(
            weight * walks.values[:, walks.items.index(item)]
            for item, weight in zip(part.items, part.weights, strict=True)
        )
        expected += count_pushes_plainly(np.asarray(course).tolist(), part.within)
    assert plan_messages(walks, plan) == expected > 0


def test_what_the_client_adds_up_is_always_within_the_bound(walks: Trace) -> None:
    offers = draw_offers(np.random.default_rng(3), walks.items, aggregators=8, most=5)
    for query in draw_queries(np.random.default_rng(4), walks.items, count=10):
        asked = SumQuery(query.items, query.weights, 3.0)
        plan = Exact()(Problem(asked, offers, walks.dynamics(), ScaleFreeCost()))
        shown, truth = np.zeros(len(walks.values)), np.zeros(len(walks.values))
        for part in plan.parts:
            course = walks.values[:, walks.columns(part.items)] @ np.array(part.weights)
            sent, kept = course[0], []
            for value in course:
                sent = value if abs(value - sent) > part.within else sent
                kept.append(sent)
            shown += kept
            truth += course
        assert np.abs(shown - truth).max() <= 3.0 * (1 + 1e-9)


def test_settings_are_as_the_paper_has_them() -> None:
    items = tuple(f"s{k}" for k in range(25))
    generator = np.random.default_rng(5)
    offers = draw_offers(generator, items)
    assert len(offers) == 25
    assert {item for offer in offers for item in offer.within} == set(items)
    assert all(0.005 <= bound <= 0.02 for offer in offers for bound in offer.within.values())
    queries = draw_queries(generator, items)
    assert len(queries) == 500
    assert {len(query.items) for query in queries} == set(range(1, 11))
    assert all(2 <= weight <= 10 for query in queries for weight in query.weights)


def test_made_up_walks_have_equal_sumdiff_and_similarities_all_over(walks: Trace) -> None:
    trace = related(np.random.default_rng(6), count=40)
    moving = trace.dynamics()
    assert moving.sumdiff == pytest.approx(moving.sumdiff[0], rel=1e-3)
    pairs = moving.similarity[np.triu_indices(40, 1)]
    assert np.quantile(pairs, [0.25, 0.5, 0.75]) == pytest.approx([-0.5, 0.0, 0.5], abs=0.2)
    apart = unrelated(trace, np.random.default_rng(7)).dynamics()
    assert np.abs(apart.similarity[np.triu_indices(40, 1)]).mean() < 0.05


def test_planners_compare_as_they_must(walks: Trace, tmp_path: Path) -> None:
    generator = np.random.default_rng(8)
    offers, queries = (
        draw_offers(generator, walks.items, aggregators=12),
        draw_queries(generator, walks.items, count=40),
    )
    first, _ = walks.halves()
    model: CostModel = ScaleFreeCost()
    unit = published_unit(first, first.dynamics(), model, queries)
    rows = compare(walks, rescaled(offers, unit), queries, (0.8,), unit, {"scale-free": model})
    by_planner = {row.planner: row for row in rows}
    assert by_planner["naive"].messages > by_planner["optc"].messages > by_planner["max-gain"].messages
    assert by_planner["max-gain"].messages > by_planner["most-saved"].messages >= by_planner["exact"].messages
    assert all(row.expected >= by_planner["exact"].expected * (1 - 1e-9) for row in rows)
    draw_comparison(rows, tmp_path / "planners.svg")
    assert "max-gain" in (tmp_path / "planners.svg").read_text()


def test_walks_are_predicted(walks: Trace) -> None:
    queries = draw_queries(np.random.default_rng(9), walks.items, count=60)
    unit = sum_unit(walks.halves()[0], queries)
    tested = {accuracy.model: accuracy for accuracy in accuracies(walks, queries, [0.5 * unit, unit])}
    assert min(tested["scale-free"].rank_correlation) > 0.9
    assert tested["scale-free"].relative_error < 0.25
    assert tested["as printed"].relative_error > tested["scale-free"].relative_error


def test_what_floors_leave_is_predicted(walks: Trace) -> None:
    queries = draw_queries(np.random.default_rng(10), walks.items, count=60, most=5)
    unit = sum_unit(walks.halves()[0], queries)
    model = fitted(walks.halves()[0], queries, [0.5 * unit, 0.8 * unit, unit])["scale-free"]
    none, *some = floor_effect(walks, queries, 0.8 * unit, model, np.random.default_rng(11))
    assert none.held_error == none.as_if_known_error < 0.25
    for one in some:
        assert one.parts > 30
        assert one.held_error < one.as_if_known_error, one
        assert one.held_error < (0.25 if one.share <= 0.6 else 1.0), one
    assert some[-1].as_if_known_ratio < 0.4, "the model by itself expects far too little of tight parts"


def test_planning_with_floors_saves_messages(walks: Trace) -> None:
    generator = np.random.default_rng(12)
    offers = draw_offers(generator, walks.items, aggregators=8, most=6)
    queries = draw_queries(generator, walks.items, count=40, least=3)
    first, _ = walks.halves()
    model = ScaleFreeCost(factor=0.5, exponent=1.7)
    unit = published_unit(first, first.dynamics(), model, queries)
    asked = [SumQuery(query.items, query.weights, 0.8 * unit) for query in queries]
    none, some, much = floor_saving(walks, offers, asked, model, (Exact(),), (0.0, 0.2, 0.5))
    assert none.as_if_known == none.with_floors > 0
    assert some.with_floors < some.as_if_known
    assert much.with_floors < 0.9 * much.as_if_known


def test_what_is_added_up_of_held_values_is_always_within_the_bound(walks: Trace) -> None:
    offers = draw_offers(np.random.default_rng(13), walks.items, aggregators=8, most=5)
    for query in draw_queries(np.random.default_rng(14), walks.items, count=10):
        least = Problem(query, offers, walks.dynamics(), ScaleFreeCost()).tightest
        asked = SumQuery(query.items, query.weights, 2.0 * least)
        plan = Exact()(Problem(asked, offers, walks.dynamics(), ScaleFreeCost(), floors_take=True))
        closely = {offer.aggregator: offer.within for offer in offers}
        shown = np.zeros(len(walks.values))
        for part in plan.parts:
            held = [
                pushed(walks.values[:, column].copy(), closely[part.aggregator][item])
                for item, column in zip(part.items, walks.columns(part.items), strict=True)
            ]
            shown += pushed(np.stack(held, axis=1) @ np.array(part.weights), part.within - part.floor)
        truth = walks.values[:, walks.columns(query.items)] @ np.array(query.weights)
        assert np.abs(shown - truth).max() <= asked.within * (1 + 1e-9)


def test_the_example_of_the_page_is_foretold_and_explained() -> None:
    """After the counts of ten minutes what `EXPLAIN` expects is what is measured."""
    state = example.run(600)
    planned = state.queries[1]
    told = {detail.name: detail.value for detail in explained(state, example.SUM, planned).details}
    assert told["measured"] == pytest.approx(told["expected"], rel=0.25)
    assert told["expected"] == figures_of(state, planned).predicted


def test_knowing_similarities_saves_messages(tmp_path: Path) -> None:
    rows = similarity_effect((0.8,), worlds=2, queries=40)
    assert all(row.saved > 0.03 for row in rows)
    draw_similarity(rows, tmp_path / "similarity.svg")
    assert "considered" in (tmp_path / "similarity.svg").read_text()


def test_alpha_answers_more_queries(walks: Trace, tmp_path: Path) -> None:
    generator = np.random.default_rng(10)
    queries = draw_queries(generator, walks.items, count=60)
    first, _ = walks.halves()
    model = ScaleFreeCost()
    unit = published_unit(first, first.dynamics(), model, queries[:20])
    offers = rescaled(draw_offers(generator, walks.items, tight=0.015, loose=0.04), unit)
    rows = alpha_effect(walks, offers, queries, (0.8,), unit, model, alphas=(0.0, 10.0))
    left = {(row.planner, row.alpha): row.unanswered for row in rows}
    assert left["exact", 0.0] == 0.0
    assert left["max-gain", 10.0] < left["max-gain", 0.0]
    draw_alpha(rows, tmp_path / "alpha.svg")
    assert "unanswered" in (tmp_path / "alpha.svg").read_text()
    asked = [SumQuery(query.items, query.weights, 0.8 * unit) for query in queries]
    tightest = [Problem(query, offers, first.dynamics(), model).tightest for query in asked]
    answerable = [query for query, least in zip(asked, tightest, strict=True) if least <= query.within]
    target = 1.0 - (left["max-gain", 0.0] + left["max-gain", 10.0]) / 2
    share, _ = followed(first, offers, answerable * 8, model, target)
    assert share == pytest.approx(target, abs=0.05)


def test_wide_files_are_read_with_the_gaps_filled(tmp_path: Path) -> None:
    table = pa.table({"ts": [1, 2, 3, 4], "a": [None, 1.0, None, 3.0], "b": [5, 6, 7, 8], "c": [None, None, None, 1.0]})
    pq.write_table(table, tmp_path / "wide.parquet")
    trace = read(tmp_path / "wide.parquet", name="wide", count=2, hours_per_tick=1.0)
    assert trace.items == ("a", "b")
    assert trace.values.tolist() == [[1.0, 6.0], [1.0, 7.0], [3.0, 8.0]]


@pytest.mark.shared_data
@pytest.mark.skipif(not FOLDER.is_dir(), reason="the folder of traces is not beside the checkout")
@pytest.mark.parametrize("reading", [stocks, traffic])
def test_real_traces_are_predicted_well_enough_to_plan_with(reading: Callable[[Path], Trace]) -> None:
    recorded = reading(FOLDER)
    queries = draw_queries(np.random.default_rng(11), recorded.items, count=60)
    unit = sum_unit(recorded.halves()[0], queries)
    tested = {accuracy.model: accuracy for accuracy in accuracies(recorded, queries, [0.5 * unit, unit])}
    assert min(tested["scale-free"].rank_correlation) >= 0.9
    assert tested["scale-free"].relative_error <= 0.25
