"""Label job: labels for thousands of clients in one Spark job, from their queries and a table's changes.

What clients asked comes as rows (client, table, region, price, times), the region as JSON. What they answered from
their caches comes as the same rows: a count for a region stands for so many queries. Limits of caches are rows too.

Design
    The table's part of every client's workload is the same: it is counted once (`table_activity`), written in
    coordinates once, and broadcast. Only the rows of what was asked are shuffled, once, to the bucket of their client,
    and sorted there; so a task meets its clients one after the other in a stream of Arrow batches, and pays nothing for
    a client but its labelling. (A group for each client in Spark's own way costs a millisecond or more before any work
    is done.) A query that many clients ask is brought to coordinates once in a task.

    A task writes the labels file of its bucket and tells the driver its size and checksum; the driver publishes
    (`hosting.published_labels`). Rows are put together and sorted before they are labelled and nothing is drawn, so the
    same rows give the same bytes, however they were divided. The number of buckets is no matter of the cluster's size.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from slackwater.core.errors import PlanningError
from slackwater.core.labels import Labels, labels_line
from slackwater.core.region import Region
from slackwater.core.region_codec import plain_region, region_of
from slackwater.core.types import Position
from slackwater.hosting.published_labels import LabelsFile, LabelsFolder, PublishedPlan, write_bucket
from slackwater.pipeline.jobs.table_activity import TablePlan, table_activity
from slackwater.pipeline.tables.frames import spark_schema
from slackwater.pipeline.tables.snapshot import snapshot
from slackwater.planning.push_pull.label_many import Activity, Demand, Footprint, label_client

BUCKETS = 16
"""Labels files, and tasks, of a plan by default: enough for the cores of one machine."""
MOST_REMEMBERED = 200_000
"""Queries whose coordinates a task keeps at hand."""

ASKED = pa.schema(
    [
        ("client", pa.string()),
        ("table", pa.string()),
        ("region", pa.string()),
        ("price", pa.float64()),
        ("times", pa.int64()),
    ]
)
"""Schema of queries asked and of queries answered from caches; price and count default to 1."""
LIMITS = pa.schema([("client", pa.string()), ("table", pa.string()), ("rows", pa.int64())])
"""How many rows of a table a client has room for."""
WRITTEN = pa.schema(
    [
        ("bucket", pa.int32()),
        ("lines", pa.int64()),
        ("size", pa.int64()),
        ("digest", pa.string()),
        ("cost", pa.float64()),
        ("at_least", pa.float64()),
        ("held", pa.int64()),
    ]
)
"""Schema of a task's report on a labels file."""

_FIRST = ("bucket", "client", "table")


def region_text(region: Region) -> str:
    """A region as it stands in rows of queries."""
    return msgspec.json.encode(plain_region(region)).decode()


def label_clients(
    session: SparkSession,
    kept: Path | str,
    folder: Path | str,
    asked: DataFrame,
    tables: Mapping[str, TablePlan],
    limits: DataFrame | None = None,
    buckets: int = BUCKETS,
) -> PublishedPlan:
    """Plan for all clients as of the position of what is kept, and publish; the same position gives the same plan."""
    now = snapshot(kept)
    with LabelsFolder(Path(folder)) as writer:
        begun = writer.begin(now.place)
        if isinstance(begun, PublishedPlan):
            return begun
        activities = {name: table_activity(session, now, name, plan) for name, plan in sorted(tables.items())}
        position = now.place.position
        made = write_labels(session, Path(folder), begun.epoch, position, asked, activities, limits, buckets)
        plan = msgspec.structs.replace(made, incarnation=now.place.incarnation)
        writer.publish(plan)
        return plan


def write_labels(
    session: SparkSession,
    folder: Path,
    epoch: int,
    position: Position,
    asked: DataFrame,
    activities: Mapping[str, Activity],
    limits: DataFrame | None = None,
    buckets: int = BUCKETS,
) -> PublishedPlan:
    """Label all clients and write their labels files: a plan that is not published yet."""
    rows = asked.select(*ASKED.names).na.fill({"price": 1.0, "times": 1})
    rows = rows.withColumn("rows", f.lit(None).cast("bigint"))
    if limits is not None:
        rows = rows.unionByName(limits.select(*LIMITS.names), allowMissingColumns=True)
    placed = rows.withColumn("bucket", f.pmod(f.crc32(f.encode("client", "UTF-8")), f.lit(buckets)).cast("int"))
    together = placed.repartitionById(buckets, "bucket")
    # A null stands before every value: a limit comes before what was asked.
    in_order = together.sortWithinPartitions(*_FIRST, "region", "price")
    shared = session.sparkContext.broadcast(dict(activities))
    try:
        labelling = _Labelling(str(folder), epoch, int(position), shared)
        written = in_order.mapInArrow(labelling, spark_schema(WRITTEN)).toArrow().sort_by("bucket").to_pylist()
    finally:
        shared.destroy()
    return PublishedPlan(
        epoch,
        int(position),
        buckets,
        tuple(LabelsFile(*(row[name] for name in WRITTEN.names[:4])) for row in written),
        sum(row["cost"] for row in written),
        sum(row["at_least"] for row in written),
        sum(row["held"] for row in written),
    )


@dataclass(frozen=True, eq=False)
class _Labelling:
    """Labels the clients of sorted rows; a value, so that Spark can send it to executors."""

    folder: str
    epoch: int
    position: int
    activities: "Broadcast[dict[str, Activity]]"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the labels files of the given buckets, and report on them."""
        files: list[dict[str, Any]] = []
        bucket, lines, total = -1, list[str](), [0.0, 0.0, 0]
        looked_up = _Footprints(self.activities.value)

        def finish() -> None:
            if lines:
                file = write_bucket(Path(self.folder), self.epoch, bucket, lines)
                kinds = zip(("cost", "at_least", "held"), total, strict=True)
                files.append({**msgspec.structs.asdict(file), **dict(kinds)})

        for (own, client, table), rows in _grouped(batches):
            if own != bucket:
                finish()
                bucket, lines, total = own, [], [0.0, 0.0, 0]
            limits = [row["rows"] for row in rows if row["rows"] is not None]
            demands = [Demand(looked_up(table, region), price, times) for region, price, times in _put_together(rows)]
            if not demands:
                continue  # a cache with a limit whose client asks nothing
            plan = label_client(looked_up.activity(table), demands, min(limits, default=None))
            labels = Labels(client, table, self.epoch, Position(self.position), plan.attributes, plan.pushed)
            lines.append(labels_line(labels))
            total = [total[0] + plan.cost, total[1] + plan.at_least, total[2] + plan.rows]
        finish()
        yield pa.RecordBatch.from_pylist(files, WRITTEN)


class _Footprints:
    """Queries in coordinates, each made once as long as there is room."""

    def __init__(self, activities: Mapping[str, Activity]) -> None:
        self._activities = activities
        self._made: dict[tuple[str, str], Footprint] = {}

    def activity(self, table: str) -> Activity:
        """Changes of a table."""
        found = self._activities.get(table)
        if found is None:
            known = ", ".join(self._activities) or "none"
            raise PlanningError(f"clients asked table {table!r}, which is not planned; these are: {known}")
        return found

    def __call__(self, table: str, region: str) -> Footprint:
        """A query in coordinates."""
        found = self._made.get((table, region))
        if found is None:
            if len(self._made) >= MOST_REMEMBERED:
                self._made.clear()
            found = self.activity(table).footprint(region_of(msgspec.json.decode(region)))
            self._made[table, region] = found
        return found


def _grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[tuple[int, str, str], list[dict[str, Any]]]]:
    """The rows of each bucket, client and table; a group may begin in one batch and end in another."""
    present: tuple[int, str, str] | None = None
    rows: list[dict[str, Any]] = []
    for batch in batches:
        for row in batch.to_pylist():
            group = (row["bucket"], row["client"], row["table"])
            if group != present:
                if present is not None:
                    yield present, rows
                present, rows = group, []
            rows.append(row)
    if present is not None:
        yield present, rows


def _put_together(rows: list[dict[str, Any]]) -> list[tuple[str, float, int]]:
    """Equal queries as one, so that it does not matter in how many rows they came."""
    counted: dict[tuple[str, float], int] = {}
    for row in rows:
        if row["region"] is not None:
            query = row["region"], row["price"]
            counted[query] = counted.get(query, 0) + row["times"]
    return [(region, price, times) for (region, price), times in counted.items() if times > 0]
