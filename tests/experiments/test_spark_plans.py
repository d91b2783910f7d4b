"""Queries planned on Spark are planned as they are in one process, and share what they share there."""

from typing import TYPE_CHECKING

import numpy as np
import pytest

from experiments.plans.many import plan_all
from slackwater.core.errors import Infeasible
from slackwater.planning.aggregation import Dynamics, Exact, Offer, ScaleFreeCost, SumQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("floors_take", [False, True])
def test_plans_on_spark_equal_plans_here(spark: "SparkSession", floors_take: bool) -> None:
    from experiments.plans.spark_plans import QUERIES, plan_rows, shared_rows
    from slackwater.pipeline.tables.frames import spark_schema

    generator = np.random.default_rng(1)
    items = tuple(f"s{place}" for place in range(8))
    moving = Dynamics(items, generator.lognormal(0, 1, 8), np.eye(8))
    offers = tuple(
        Offer(f"D{k}", {str(item): 0.01 for item in generator.choice(items, 5, replace=False)}) for k in range(6)
    )
    queries = []
    for number in range(60):
        chosen = tuple(str(item) for item in generator.choice(items, int(generator.integers(1, 5)), replace=False))
        weights = tuple(float(weight) for weight in generator.integers(1, 3, len(chosen)))
        queries.append(SumQuery(chosen, weights, within=0.02 if number % 9 == 0 else 1.0))
    rows = [(str(number), list(q.items), list(q.weights), q.within) for number, q in enumerate(queries)]
    frame = spark.createDataFrame(rows, spark_schema(QUERIES)).repartition(3)
    parts = plan_rows(frame, offers, moving, ScaleFreeCost(), Exact(), floors_take=floors_take).cache()
    here = plan_all(queries, offers, moving, ScaleFreeCost(), Exact(), floors_take=floors_take)

    told: dict[int, list[tuple[str, tuple[str, ...], float]]] = {}
    refused: dict[int, float] = {}
    for row in parts.collect():
        if row["refused"] is not None:
            refused[int(row["query"])] = row["tightest"]
        else:
            told.setdefault(int(row["query"]), []).append((row["aggregator"], tuple(row["items"]), row["within"]))
    assert refused
    assert len(told) + len(refused) == len(queries)
    for number, plan in enumerate(here.plans):
        if isinstance(plan, Infeasible):
            assert refused[number] == plan.tightest
        else:
            assert sorted(told[number]) == sorted((part.aggregator, part.items, part.within) for part in plan.parts)

    found = sorted((row["aggregator"], row["users"], row["within"]) for row in shared_rows(parts).collect())
    expected = sorted((part.aggregator, len(part.users), part.within) for part in here.shared)
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    assert [row[2] for row in found] == pytest.approx([row[2] for row in expected])
