"""Standing joins on Spark: arriving rows a second at 1 and 2 executors, spread by query and by rows.

    python -m benchmarks standing_joins_spark

10 000 joins, 20 000 rows on each side; rows move to places of chance, on either side, and have ten results as they were
and ten as they are. *Band*: differences in ten groups, up to a fiftieth of all places. *Key*: 2 000 products, one of
them with a hundredth of all rows, and ranges of quantities on both sides. Batches of 2 000 rows, then of 16 384.

*Rows a second* is from taking a batch out of the log until what it had to say is durable and can be read by servers;
*in the shards* is the same by the time of the slowest shard alone, without Spark, the driver and the disk. *Partitions
a row* is to how many shards a row was sent, as it was or as it is, in the mean.

Besides, for bands, in one process: the work of all shards together, one after the other, were there so many of them.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import report
from slackwater.core import Box, Column, DataType, HostKind, Interval, Join, Operation, Region, Side, TableSchema
from slackwater.core.arrow import EVENT_TIME, OPERATION, SEQUENCE, SOURCE, update_schema
from slackwater.log import LocalLog, Record, Registered, TableDefined, Updates
from slackwater.pipeline.join_cuts import BY_QUERY, Spreading
from slackwater.pipeline.placing import OnExecutors, wait_for_executors
from slackwater.pipeline.session import build_session
from slackwater.pipeline.shards import Shard, ShardReport, ShardTask
from slackwater.pipeline.spark_host import HOST_SETTINGS, Progress, Runner, SparkHost
from slackwater.processing.base import Floats, Integers
from slackwater.processing.queries import plain_query

QUERIES, ROWS = 10_000, 20_000
SPAN, REACH, GROUPS, RESULTS = 1e6, 2e4, 10, 10
PRODUCTS, HOT = 2_000, 0.01
SMALL, SMALL_BATCHES, WARM = 2_000, 15, 8
LARGE, LARGE_BATCHES = 16_384, 4
WAYS = {"by rows": Spreading(), "by query": BY_QUERY}
KINDS = ("band", "key")
MANY = (2, 8)

COLUMNS = (
    Column("id", DataType.BIGINT, nullable=False),
    Column("pos", DataType.DOUBLE),
    Column("product", DataType.BIGINT),
)
TABLES = {name: TableSchema(name, COLUMNS, key=("id",)) for name in ("unit", "target")}


class World:
    """Makes the log of one of the two kinds."""

    def __init__(self, kind: str) -> None:
        self._kind, self._random, self._sequence = kind, np.random.default_rng(7), 0

    def beginning(self) -> list[Record]:
        """Tables, joins, and then the rows."""
        made: list[Record] = [TableDefined(schema) for schema in TABLES.values()]
        joins = self._bands() if self._kind == "band" else self._keys()
        made += [Registered("unit", "", "bench", query=plain_query(one), host=HostKind.SPARK.value) for one in joins]
        return [*made, *(self._updates(table, np.arange(ROWS)) for table in TABLES)]

    def _bands(self) -> list[Join]:
        points = self._random.uniform(-REACH, REACH, GROUPS)[self._random.integers(0, GROUPS, QUERIES)]
        widths = self._random.exponential(RESULTS * SPAN / ROWS / QUERIES, QUERIES)
        lows = points - widths * self._random.random(QUERIES)
        return [
            Join("unit", "target", "pos", "pos", ("unit.id", "target.id"), Interval(float(low), float(low + width)))
            for low, width in zip(lows, widths, strict=True)
        ]

    def _keys(self) -> list[Join]:
        partners = ROWS / PRODUCTS
        width = SPAN * float(np.sqrt(RESULTS / QUERIES / partners))
        lows = self._random.uniform(0, SPAN - width, (QUERIES, 2))

        def within(low: float) -> Region:
            return Region((Box.of(Side("pos", Interval(low, low + width))),))

        shown = ("unit.id", "target.id")
        return [
            Join("unit", "target", "product", "product", shown, None, within(low), within(high))
            for low, high in lows.tolist()
        ]

    def more(self, rows: int) -> list[Record]:
        """So many rows that move, half of them on either side."""
        return [self._updates(table, self._random.choice(ROWS, rows // 2, replace=False)) for table in TABLES]

    def _updates(self, table: str, ids: Integers) -> Updates:
        count = len(ids)
        places: Floats = self._random.uniform(0, SPAN, count)
        products = np.where(self._random.random(count) < HOT, 0, self._random.integers(1, PRODUCTS, count))
        sequence = np.arange(self._sequence, self._sequence + count)
        self._sequence += count
        layout = update_schema(TABLES[table])
        named = {EVENT_TIME: sequence, SOURCE: ["bench"] * count, SEQUENCE: sequence}
        named |= {"id": ids, "pos": places, "product": products, OPERATION: [int(Operation.UPSERT)] * count}
        arrays = [pa.array(named[field.name]).cast(field.type) for field in layout]
        return Updates(table, pa.RecordBatch.from_arrays(arrays, schema=layout))


class InTurn:
    """All shards in this process, one after the other; what each of them needs is added up."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._live: dict[tuple[str, int], Shard] = {}
        self.seconds = 0.0

    def __call__(self, task: ShardTask, shards: list[int]) -> list[ShardReport]:
        told = [task.on(self._live, shard) for shard in shards]
        self.seconds += sum(one.seconds for one in told)
        return told


def measured(kind: str, runner: Runner, spreading: Spreading, sizes: dict[int, int]) -> dict[str, Any]:
    """One kind of join, one way of spreading."""
    world, seen = World(kind), list[Progress]()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="slackwater-") as scratch:
        folder = Path(scratch)
        with LocalLog(folder / "log") as log:
            log.append(world.beginning())
            where = (folder / "log", folder / "host")
            with SparkHost(*where, runner, max_rows=65_536, spreading=spreading, progress=seen.append) as host:
                began = time.perf_counter()
                while host.batch():
                    pass
                for _ in range(WARM):
                    log.append(world.more(SMALL))
                    host.batch()
                figures["seconds_until_warm"] = round(time.perf_counter() - began, 1)
                for size, batches in sizes.items():
                    seen.clear()
                    spent = getattr(runner, "seconds", 0.0)
                    for _ in range(batches):
                        log.append(world.more(size))
                        host.batch()
                    figures[f"batches of {size}"] = told(seen)
                    if isinstance(runner, InTurn):
                        figures["microseconds_a_row"] = round((runner.seconds - spent) / (size * batches) * 1e6, 1)
                figures["lines_cut"] = len(host.sharding.lines)
    return figures


def told(seen: list[Progress]) -> dict[str, Any]:
    """What the batches were, together."""
    rows = sum(one.rows for one in seen)
    # The middle batch: a snapshot, or whatever else held one up, counts for nothing.
    return {
        "rows_a_second": round(float(np.median([one.rows / one.seconds for one in seen]))),
        "rows_a_second_in_the_shards": round(float(np.median([one.rows / one.shard_seconds for one in seen]))),
        "partitions_a_row": round(sum(one.sent for one in seen) / sum(one.met for one in seen), 3),
        "notifications_a_row": round(sum(one.notifications for one in seen) / rows, 1),
    }


def on_spark(executors: int) -> dict[str, Any]:
    """Both kinds and both ways, in a process of its own. With one executor there is one shard and nothing to choose."""
    master = f"local-cluster[{executors},1,1024]"
    session = build_session(master, extra=HOST_SETTINGS)
    figures: dict[str, Any] = {}
    try:
        wait_for_executors(session.sparkContext, master)
        for kind in KINDS:
            for way in WAYS if executors > 1 else ("by query",):
                name = way if executors > 1 else "one shard"
                runner = OnExecutors(session.sparkContext)
                made = measured(kind, runner, WAYS[way], {SMALL: SMALL_BATCHES, LARGE: LARGE_BATCHES})
                figures.setdefault(kind, {})[name] = made
    finally:
        session.stop()
    return figures


def in_turn() -> dict[str, Any]:
    """The work of all shards together, for bands."""
    one = measured("band", InTurn(1), BY_QUERY, {LARGE: 2})
    figures: dict[str, Any] = {"1 shard": {"microseconds_a_row": one["microseconds_a_row"], "partitions_a_row": 1.0}}
    for shards in MANY:
        figures[f"{shards} shards"] = {}
        for way, spreading in WAYS.items():
            made = measured("band", InTurn(shards), spreading, {LARGE: 2})
            figures[f"{shards} shards"][way] = {
                "microseconds_a_row": made["microseconds_a_row"],
                "partitions_a_row": made[f"batches of {LARGE}"]["partitions_a_row"],
            }
    return figures


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] == "part":
        print("figures:", json.dumps(in_turn() if sys.argv[2] == "0" else on_spark(int(sys.argv[2]))))
        return
    figures: dict[str, Any] = {}
    for name, number in (("1 executor", 1), ("2 executors", 2), ("all shards in one process", 0)):
        command = [sys.executable, "-m", "benchmarks.standing_joins_spark", "part", str(number)]
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        [line] = [line.removeprefix("figures: ") for line in lines if line.startswith("figures: ")]
        figures[name] = json.loads(line)
        print(name, line, flush=True)
    report.write("standing_joins_spark", {"queries": QUERIES, "rows_on_each_side": ROWS, **figures})


if __name__ == "__main__":
    main()
