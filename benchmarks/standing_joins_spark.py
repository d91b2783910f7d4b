"""Standing joins on Spark: arriving rows a second at 1 and 2 executors, spread by query and by rows.

    python -m benchmarks standing_joins_spark

10 000 joins, 20 000 rows on each side; rows move to places of chance, on either side, and have ten results as they were
and ten as they are. *Band*: differences in ten groups, up to a fiftieth of all places. *Key*: 2 000 products, one of
them with a hundredth of all rows, and ranges of quantities on both sides. Batches of 2 000 rows, then of 16 384.

Batches of 2 000 begin before joins are spread; rates are those of the middle batch.

*Rows a second* is from taking a batch out of the log until what it had to say is durable and can be read by servers;
*in the shards* is the same by the time of the slowest shard alone, without Spark, the driver and the disk. *Partitions
a row* is to how many shards a row was sent, as it was or as it is, in the mean.

Besides, for bands, in one process: the work of all shards together, one after the other, were there so many of them.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import report
from slackwater.core import Box, Column, DataType, HostKind, Interval, Join, Operation, Region, Side, TableSchema
from slackwater.core.arrow import EVENT_TIME, OPERATION, SEQUENCE, SOURCE, update_schema
from slackwater.kinds.registry import plain_query
from slackwater.log import LocalLog, Record, Registered, TableDefined, Updates
from slackwater.pipeline.host.executor_affinity import OnExecutors, wait_for_executors
from slackwater.pipeline.host.join_cuts import BY_QUERY, CutRule
from slackwater.pipeline.host.shards import Shard, ShardReport, ShardTask
from slackwater.pipeline.host.spark_host import HOST_SETTINGS, HostProgress, ShardRunner, SparkHost
from slackwater.pipeline.session import build_session
from slackwater.processing.base import Floats, Integers

QUERIES, ROWS = 10_000, 20_000
SPAN, REACH, GROUPS, RESULTS = 1e6, 2e4, 10, 10
PRODUCTS, HOT = 2_000, 0.01
SMALL, SMALL_BATCHES, WARM = 2_000, 15, 8
LARGE, LARGE_BATCHES = 16_384, 4
WAYS = {"by rows": CutRule(), "by query": BY_QUERY}
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
    """All shards in this process, one after the other."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._live: dict[tuple[str, int], Shard] = {}

    def __call__(self, task: ShardTask, shards: list[int]) -> list[ShardReport]:
        return [task.on(self._live, shard) for shard in shards]


class Way:
    """A host that spreads joins in one way, with a log of its own: all ways are given the same rows."""

    def __init__(self, kind: str, folder: Path, runner: ShardRunner, spreading: CutRule) -> None:
        self._world = World(kind)
        self._log = LocalLog(folder / "log")
        self._log.append(self._world.beginning())
        self.seen: list[HostProgress] = []
        where = (folder / "log", folder / "host")
        self._host = SparkHost(*where, runner, max_rows=65_536, spreading=spreading, progress=self.seen.append)
        while self._host.batch():
            pass

    def batch(self, rows: int) -> None:
        """So many rows arrive."""
        self._log.append(self._world.more(rows))
        self._host.batch()

    @property
    def lines(self) -> int:
        """How many lines are cut: one for each kind of join, or none."""
        return len(self._host.sharding.lines)

    def close(self) -> None:
        self._host.close()
        self._log.close()


def measured(kind: str, ways: Mapping[str, tuple[ShardRunner, CutRule]], sizes: dict[int, int]) -> dict[str, Any]:
    """One kind of join, in several ways, batch by batch in turn: whatever else the machine does concerns all alike."""
    figures: dict[str, Any] = {name: {} for name in ways}
    with tempfile.TemporaryDirectory(prefix="slackwater-") as scratch, ExitStack() as stack:
        hosts = {}
        for nth, (name, (runner, spreading)) in enumerate(ways.items()):
            hosts[name] = Way(kind, Path(scratch) / str(nth), runner, spreading)
            stack.callback(hosts[name].close)
        # Small batches come first in any case: with the first of them joins are not spread yet.
        for size, batches in {SMALL: WARM, **sizes}.items():
            for host in hosts.values():
                host.seen.clear()
            for _ in range(batches):
                for host in hosts.values():
                    host.batch(size)
            for name, host in hosts.items():
                figures[name][f"batches of {size}"] = told(host.seen)
                figures[name]["lines_cut"] = host.lines
    return figures


def told(seen: list[HostProgress]) -> dict[str, Any]:
    """What the batches were, together."""
    rows = sum(one.rows for one in seen)
    # The middle batch: a snapshot, or whatever else held one up, counts for nothing.
    return {
        "rows_a_second": round(float(np.median([one.rows / one.seconds for one in seen]))),
        "rows_a_second_in_the_shards": round(float(np.median([one.rows / one.shard_seconds for one in seen]))),
        "microseconds_a_row_in_all_shards": round(
            float(np.median([one.work_seconds / one.rows for one in seen])) * 1e6, 1
        ),
        "partitions_a_row": round(sum(one.sent for one in seen) / sum(one.met for one in seen), 3),
        "notifications_a_row": round(sum(one.notifications for one in seen) / rows, 1),
    }


def on_spark(executors: int) -> dict[str, Any]:
    """Both kinds and both ways, in a process of its own. With one executor there is one shard and nothing to choose."""
    master = f"local-cluster[{executors},1,1024]"
    session = build_session(master, extra=HOST_SETTINGS)
    try:
        wait_for_executors(session.sparkContext, master)
        chosen = WAYS if executors > 1 else {"one shard": BY_QUERY}
        ways = {name: (OnExecutors(session.sparkContext), spreading) for name, spreading in chosen.items()}
        return {kind: measured(kind, ways, {SMALL: SMALL_BATCHES, LARGE: LARGE_BATCHES}) for kind in KINDS}
    finally:
        session.stop()


def in_turn() -> dict[str, Any]:
    """The work of all shards together, for bands."""
    ways = {"1 shard": (InTurn(1), BY_QUERY)} | {
        f"{shards} shards, {way}": (InTurn(shards), spreading) for shards in MANY for way, spreading in WAYS.items()
    }
    found = measured("band", ways, {LARGE: 3})
    names = ("microseconds_a_row_in_all_shards", "partitions_a_row")
    return {way: {name: one[f"batches of {LARGE}"][name] for name in names} for way, one in found.items()}


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
