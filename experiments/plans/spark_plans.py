"""Distributed planning on Spark: each executor plans its share of the queries, and like parts are merged.

Queries come as rows (query, items, weights, within), plans go as rows, one for each part; a query without a plan is
one row that says why. The offers, the dynamics and the model travel to executors as values.

A planner that draws lots draws the same ones on every executor; its plans depend on how rows are divided.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from experiments.plans.many import likeness
from slackwater.core.errors import Infeasible
from slackwater.pipeline.tables.frames import spark_schema
from slackwater.planning.aggregation import CostModel, Dynamics, Offer, Planner, Problem, SumQuery

QUERIES = pa.schema(
    [
        ("query", pa.string()),
        ("items", pa.list_(pa.string())),
        ("weights", pa.list_(pa.float64())),
        ("within", pa.float64()),
    ]
)
"""What comes in."""
PARTS = pa.schema(
    [
        ("query", pa.string()),
        ("aggregator", pa.string()),
        ("items", pa.list_(pa.string())),
        ("weights", pa.list_(pa.float64())),
        ("within", pa.float64()),
        ("floor", pa.float64()),
        ("messages", pa.float64()),
        ("alike", pa.string()),
        ("scale", pa.float64()),
        ("refused", pa.string()),
        ("tightest", pa.float64()),
    ]
)
"""What goes out; the last two are of queries without a plan, the others null there."""


@dataclass(frozen=True, eq=False)
class PlanRows:
    """Plans the queries of batches; a value, so that Spark can send it to executors."""

    offers: tuple[Offer, ...]
    dynamics: Dynamics
    model: CostModel
    planner: Planner
    floors_take: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The parts of a batch of queries."""
        for batch in batches:
            rows = [row for query in batch.to_pylist() for row in self._planned(query)]
            yield pa.RecordBatch.from_pylist(rows, PARTS)

    def _planned(self, row: dict[str, object]) -> list[dict[str, object]]:
        name, items, weights, within = (row[column] for column in QUERIES.names)
        assert isinstance(items, list)
        assert isinstance(weights, list)
        assert isinstance(within, float)
        query = SumQuery(tuple(items), tuple(weights), within)
        try:
            plan = self.planner(Problem(query, self.offers, self.dynamics, self.model, self.floors_take))
        except Infeasible as error:
            return [{"query": name, "refused": str(error), "tightest": error.tightest}]
        made: list[dict[str, object]] = []
        for part in plan.parts:
            alike, scale = likeness(part)
            made.append(
                {
                    "query": name,
                    "aggregator": part.aggregator,
                    "items": part.items,
                    "weights": part.weights,
                    "within": part.within,
                    "floor": part.floor,
                    "messages": part.messages,
                    "alike": repr(alike),
                    "scale": scale,
                }
            )
        return made


def plan_rows(
    queries: DataFrame,
    offers: tuple[Offer, ...],
    dynamics: Dynamics,
    model: CostModel,
    planner: Planner,
    *,
    floors_take: bool = False,
) -> DataFrame:
    """The parts of all queries."""
    chosen = queries.select(*QUERIES.names)
    return chosen.mapInArrow(PlanRows(offers, dynamics, model, planner, floors_take), spark_schema(PARTS))


def shared_rows(parts: DataFrame) -> DataFrame:
    """The parts that more than one query has: how many have it, and the tightest bound at scale 1."""
    planned = parts.where(f.col("refused").isNull())
    alike = planned.groupBy("alike").agg(
        f.first("aggregator").alias("aggregator"),
        f.count_distinct("query").alias("users"),
        f.min(f.col("within") / f.abs("scale")).alias("within"),
    )
    return alike.where(f.col("users") > 1)
