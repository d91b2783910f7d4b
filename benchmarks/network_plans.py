"""Plans over aggregators: what they save on recorded prices, and how fast they are made.

*Messages*: the paper's setting on the second half of a trace, planned from the first (`experiments.plans`). The
control is naive, which no change of a planner may move. *Exact*: 500 queries of up to 10 items over 25 aggregators,
and 100 of 10 items each, with loose and with tight bounds. *Spark*: 100 000 queries planned exactly, with one and
with two executors, each a process of its own with one core.

The traces lie beside the checkout; without them only the speed is measured.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from experiments.plans.comparison import attempted, compare
from experiments.plans.message_count import plan_messages
from experiments.plans.prediction import accuracies, fitted
from experiments.plans.setting import draw_offers, draw_queries, published_unit, rescaled, sum_unit
from experiments.plans.traces import Trace, related, stocks, traffic
from slackwater.core.errors import Infeasible
from slackwater.planning.aggregation import (
    CostModel,
    Exact,
    MaxGain,
    MinCost,
    MostSaved,
    Offer,
    Planner,
    Problem,
    ScaleFreeCost,
    SumQuery,
)
from slackwater.planning.aggregation.base import Dynamics

TRACES = Path(__file__).parents[1].parent / "shared" / "data"
SEED = 7
ON_SPARK = 100_000
PATIENCE_SECONDS = 150


def messages(trace: Trace) -> dict[str, Any]:
    """What each planner takes at C = 0.8, and how well the models predict."""
    generator = np.random.default_rng(SEED)
    offers, queries = draw_offers(generator, trace.items), draw_queries(generator, trace.items, count=300)
    first, _ = trace.halves()
    sums = sum_unit(first, queries[:100])
    bounds = [sums * bound for bound in (0.3, 0.5, 0.8, 1.0)]
    tested = accuracies(trace, queries[:150], bounds)
    models = fitted(first, queries[:150], bounds)
    unit = published_unit(first, first.dynamics(), models["scale-free"], queries[:100])
    model = {"scale-free": models["scale-free"]}
    rows = compare(trace, rescaled(offers, 0.1 * unit), queries, (0.8,), unit, model)
    taken = {row.planner: row.messages for row in rows}
    return {
        "messages_per_query": {planner: round(count, 1) for planner, count in taken.items()},
        "queries": rows[0].queries,
        "naive_over_max_gain": round(taken["naive"] / taken["max-gain"], 2),
        "max_gain_over_min_cost": round(taken["max-gain"] / taken["min-cost"], 3),
        "undivided_max_gain_over_min_cost": round(taken["max-gain, undivided"] / taken["min-cost"], 3),
        "most_saved_over_exact": round(taken["most-saved"] / taken["exact"], 3),
        "over_min_cost_by_network": over_min_cost(trace, models["scale-free"], queries[:60], unit),
        "exact_over_max_gain": round(taken["exact"] / taken["max-gain"], 3),
        "naive_over_exact": round(taken["naive"] / taken["exact"], 2),
        "prediction": {
            row.model: {
                "fitted": row.fitted,
                "spearman": [round(rank, 3) for rank in row.rank_correlation],
                "median_relative_error": round(row.relative_error, 3),
            }
            for row in tested
        },
    }


def over_min_cost(trace: Trace, model: CostModel, queries: Sequence[SumQuery], unit: float) -> dict[str, list[float]]:
    """Messages of the others ÷ those of min-cost at C = 0.8, in six networks: how much a single one says."""
    first, second = trace.halves()
    asked = [SumQuery(query.items, query.weights, 0.8 * unit) for query in queries]
    ratios: dict[str, list[float]] = {}
    for network in range(6):
        drawn = draw_offers(np.random.default_rng((SEED, network)), trace.items)
        offers = rescaled(drawn, 0.1 * unit)
        taken = {}
        undivided = MaxGain(per_item=False, name="max-gain, undivided")
        compared: tuple[Planner, ...] = (MinCost(), MaxGain(), undivided, MostSaved(), Exact())
        for planner in compared:
            plans = attempted(planner, asked, offers, first, model)
            taken[planner.name] = sum(plan_messages(second, plan) for plan in plans if plan is not None)
        for name, count in taken.items():
            ratios.setdefault(name, []).append(round(count / taken["min-cost"], 3))
    return ratios


def seconds(
    planner: Planner, queries: Sequence[SumQuery], offers: tuple[Offer, ...], dynamics: Dynamics, *, floors_take: bool
) -> tuple[float, int]:
    """How long planning takes, and how many have no plan."""
    model = ScaleFreeCost(exponent=1.5)
    refused = 0
    started = time.perf_counter()
    for query in queries:
        try:
            planner(Problem(query, offers, dynamics, model, floors_take))
        except Infeasible:
            refused += 1
    return time.perf_counter() - started, refused


def speed() -> dict[str, Any]:
    """Planning in one process."""
    generator = np.random.default_rng(SEED)
    trace = related(generator, count=25)
    dynamics, offers = trace.dynamics(), draw_offers(generator, trace.items)
    figures: dict[str, Any] = {}
    for name, least, count in (("500 queries of up to 10 items", 1, 500), ("100 queries of 10 items", 10, 100)):
        drawn = draw_queries(generator, trace.items, count=count, least=least)
        for kind, share in (("loose", 0.02), ("tight", 0.8)):
            queries = []
            for query in drawn:
                floor = Problem(query, offers, dynamics, ScaleFreeCost()).tightest
                queries.append(SumQuery(query.items, query.weights, floor / share))
            timed: tuple[tuple[Planner, bool], ...] = (
                (Exact(), False),
                (Exact("exact, with floors"), True),
                (MaxGain(), False),
                (MostSaved(), False),
            )
            for planner, floors_take in timed:
                seconds(planner, queries[:5], offers, dynamics, floors_take=floors_take)
                taken, refused = seconds(planner, queries, offers, dynamics, floors_take=floors_take)
                figures.setdefault(name, {})[f"{planner.name}, {kind} bounds"] = {
                    "seconds": round(taken, 3),
                    "without_a_plan": refused,
                }
    return figures


def on_spark(executors: int) -> dict[str, Any]:
    """Planning on Spark; the session lives for this measurement only."""
    from experiments.plans.spark_plans import QUERIES, plan_rows, shared_rows
    from slackwater.pipeline.host.executor_affinity import wait_for_executors
    from slackwater.pipeline.session import build_session
    from slackwater.pipeline.tables.frames import spark_schema

    generator = np.random.default_rng(SEED)
    trace = related(generator, count=25)
    dynamics, offers = trace.dynamics(), draw_offers(generator, trace.items)
    drawn = draw_queries(generator, trace.items, count=ON_SPARK)
    rows = [(str(number), list(query.items), list(query.weights), 0.8) for number, query in enumerate(drawn)]
    master = f"local-cluster[{executors},1,1024]"
    session = build_session(master, extra={"spark.ui.enabled": "false"})
    try:
        wait_for_executors(session.sparkContext, master)
        frame = session.createDataFrame(rows, spark_schema(QUERIES)).repartition(4 * executors).cache()
        frame.count()
        # Every executor loads the compiled loops before the clock runs.
        plan_rows(frame.sample(0.01, SEED), offers, dynamics, ScaleFreeCost(), Exact()).count()
        started = time.perf_counter()
        parts = plan_rows(frame, offers, dynamics, ScaleFreeCost(), Exact()).cache()
        count = parts.count()
        taken = time.perf_counter() - started
        refused = parts.where("refused is not null").count()
        return {
            "executors": executors,
            "queries": ON_SPARK,
            "parts": count - refused,
            "without_a_plan": refused,
            "shared_parts": shared_rows(parts).count(),
            "seconds": round(taken, 1),
            "queries_per_second": round(ON_SPARK / taken),
            "load_average": round(os.getloadavg()[0], 1),
        }
    finally:
        session.stop()


def main() -> None:
    figures: dict[str, Any] = {"planning": speed()}
    if TRACES.is_dir():
        figures["messages"] = {trace.name: messages(trace) for trace in (stocks(TRACES), traffic(TRACES))}
    # Twice, in turn, where there is time: what else the machine does is not the same all the time.
    started = time.perf_counter()
    figures["spark"] = [on_spark(executors) for executors in (1, 2)]
    if time.perf_counter() - started < PATIENCE_SECONDS:
        figures["spark"] += [on_spark(executors) for executors in (1, 2)]
    report.write("network_plans", figures)


if __name__ == "__main__":
    main()
