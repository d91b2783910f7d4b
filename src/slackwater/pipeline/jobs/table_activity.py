"""Table activity: changes and stored rows counted on Spark, *history* → one `Activity` for all clients.

Rows of history are brought together by key once. In the order of positions an update changes its row when its rank
(event time, source, sequence) is above all before it; one that loses, or that brings what was there, is no change. A
change is counted at its place and the place before it, a deletion at the place it empties. What reaches the driver is a
count for each place and pair of places, however many updates there were, and so what travels to executors.

Rows of a bulk load stand before all positions: they are where rows were, not changes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from slackwater.core.arrow import EVENT_TIME, OPERATION, SEQUENCE, SOURCE
from slackwater.core.schema import TableSchema
from slackwater.core.update import Operation
from slackwater.pipeline.tables.columns import POSITION
from slackwater.pipeline.tables.frames import history_at
from slackwater.pipeline.tables.snapshot import TableSnapshot
from slackwater.planning.push_pull.cost_models import Pricing
from slackwater.planning.push_pull.encoding import Changed, Row, Stored
from slackwater.planning.push_pull.label_many import Activity


@dataclass(frozen=True, slots=True)
class TablePlan:
    """Planning parameters of one table: the columns to cut along, the costs, and the position events count from."""

    columns: tuple[str, ...]
    pricing: Pricing
    since: int = 0


def table_activity(session: SparkSession, now: TableSnapshot, table: str, plan: TablePlan) -> Activity:
    """Count what is kept of a table, as of the position of the snapshot."""
    # Of our own, for its number of partitions: Spark's is a constant, independent of the work and of the executors.
    own = session.newSession()
    own.conf.set("spark.sql.shuffle.partitions", str(2 * session.sparkContext.defaultParallelism))
    states = _states(history_at(own, now, table), now.table(table), plan.columns).cache()
    try:
        changed = [Changed(*_places(row), times=row["times"]) for row in _rows(_changes(states, plan))]
        stored = [Stored(_known(row["after"]), float(row["times"]), row["times"]) for row in _rows(_held(states))]
    finally:
        states.unpersist()
    return Activity.of(plan.columns, changed, stored, plan.pricing)


def _states(history: DataFrame, schema: TableSchema, columns: Sequence[str]) -> DataFrame:
    """The updates that changed a row: where it then is and where it was (null: nowhere), and whether it is so still."""
    key = [f.col(_quoted(name)) for name in schema.key]
    in_order = Window.partitionBy(*key).orderBy(f.coalesce(f.col(POSITION), f.lit(-1)), EVENT_TIME, SOURCE, SEQUENCE)
    rank = f.struct(EVENT_TIME, SOURCE, SEQUENCE)
    ahead = f.max(rank).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    gone = f.col(OPERATION) == int(Operation.DELETE)

    def unless_gone(names: Iterable[str]) -> Column:
        return f.when(~gone, f.struct(*(f.col(_quoted(name)) for name in names)))

    won = history.select(
        *key,
        f.coalesce(f.col(POSITION), f.lit(-1)).alias(POSITION),
        EVENT_TIME,
        SOURCE,
        SEQUENCE,
        unless_gone(columns).alias("after"),
        unless_gone(column.name for column in schema.columns).alias("row"),
        (ahead.isNull() | (rank > ahead)).alias("won"),
    ).where("won")
    states = won.withColumns(
        {
            "before": f.lag("after").over(in_order),
            "was": f.lag("row").over(in_order),
            "last": f.lead(POSITION).over(in_order).isNull(),
        }
    )
    return states.select(POSITION, "after", "before", "last", (~f.col("row").eqNullSafe(f.col("was"))).alias("changes"))


def _changes(states: DataFrame, plan: TablePlan) -> DataFrame:
    changes = states.where(f.col("changes") & (f.col(POSITION) >= max(plan.since, 0)))
    return changes.groupBy("after", "before").agg(f.count("*").alias("times"))


def _held(states: DataFrame) -> DataFrame:
    held = states.where(f.col("last") & f.col("after").isNotNull())
    return held.groupBy("after").agg(f.count("*").alias("times"))


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Collected in an order that does not depend on how the work was divided; instants as whole numbers."""
    rows: list[dict[str, Any]] = _plain_instants(frame.toArrow()).to_pylist()
    return sorted(rows, key=lambda row: [_order(row.get(place)) for place in ("after", "before")])


def _order(place: Row | None) -> list[tuple[bool, Any]]:
    return [(value is not None, 0 if value is None else value) for value in (place or {}).values()]


def _plain_instants(table: pa.Table) -> pa.Table:
    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(one.name, plain(one.type)) for one in kind])
        return pa.int64() if pa.types.is_timestamp(kind) else kind

    return table.cast(pa.schema([pa.field(one.name, plain(one.type)) for one in table.schema]))


def _places(row: dict[str, Any]) -> tuple[Row, Row | None]:
    """Where a change is, and where the row was before if that is somewhere else."""
    after, before = row["after"], row["before"]
    return (_known(before), None) if after is None else (after, before)


def _known(place: Row | None) -> Row:
    assert place is not None
    return place


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
