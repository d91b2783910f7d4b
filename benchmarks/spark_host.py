"""The Spark host with 100 000 bounded sums of 5 items: updates a second and the time of a batch, at 1 and 2 executors.

    python -m benchmarks.spark_host

The workload is that of `bounded_aggregates`. *Batch*: 1 000 updates are appended when the batch before was said; the
time is from appending until what they had to say is durable and can be read by servers. *Throughput*: so many updates
lie in the log already that every batch has as many rows as it may. *Catching up* is the share of rows that shards took
in because another worker had the shard before. Beside it the node host on one core, driven from the same log, and what
a shard needs for the rows alone, which every shard does for itself: it is what limits scaling.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.bounded_aggregates import ITEMS, MEMBERS, QUOTES, SYMBOLS, ZIPF, World
from benchmarks.pipeline_batches import percentiles
from slackwater.core import Aggregate, AggregateFunction, Bound, HostKind, Weight
from slackwater.hosting.engine import QueryEngine
from slackwater.kinds.registry import plain_query
from slackwater.log import LocalLog, Record, Registered, TableDefined, Updates
from slackwater.pipeline.host.executor_affinity import OnExecutors, wait_for_executors
from slackwater.pipeline.host.spark_host import HOST_SETTINGS, HostProgress, SparkHost
from slackwater.pipeline.session import build_session

QUERIES = 100_000
ROWS, WARM, MEASURED = 1_000, 30, 100
LARGE_ROWS, LARGE_BATCHES = 65_536, 12
STEP = 0.05


def prepare(folder: Path) -> World:
    """A log with a table, its rows and the queries."""
    random = np.random.default_rng(2)
    world = World(random, 100 + random.standard_normal(ITEMS), STEP)
    ends = np.cumsum(ZIPF)
    records: list[Record] = [TableDefined(QUOTES), Updates("quotes", world.batch(np.arange(ITEMS)))]
    for _ in range(QUERIES):
        chosen: set[int] = set()
        while len(chosen) < MEMBERS:
            chosen.add(min(int(np.searchsorted(ends, random.random())), ITEMS - 1))
        factors = random.integers(1, 10, MEMBERS).astype(float)
        listed = tuple(
            Weight((SYMBOLS[item],), float(factor)) for item, factor in zip(sorted(chosen), factors, strict=True)
        )
        query = Aggregate(
            "quotes", AggregateFunction.SUM, "price", Bound(float(np.sqrt((factors**2).mean()))), weights=listed
        )
        records.append(Registered("quotes", "", "bench", query=plain_query(query), host=HostKind.SPARK.value))
    with LocalLog(folder / "log") as log:
        for at in range(0, len(records), 20_000):
            log.append(records[at : at + 20_000])
    return world


def on_spark(executors: int) -> dict[str, Any]:
    """All of it, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="slackwater-") as scratch:
        folder = Path(scratch)
        world = prepare(folder)
        master = f"local-cluster[{executors},1,1024]"
        session = build_session(master, extra=HOST_SETTINGS)
        seen: list[HostProgress] = []
        figures: dict[str, Any] = {}
        try:
            wait_for_executors(session.sparkContext, master)
            runner = OnExecutors(session.sparkContext)
            with (
                LocalLog(folder / "log") as log,
                SparkHost(folder / "log", folder / "host", runner, max_rows=LARGE_ROWS, progress=seen.append) as host,
            ):
                began = time.perf_counter()
                while host.batch():
                    pass
                figures["registering_seconds"] = round(time.perf_counter() - began, 1)
                milliseconds = []
                for nth in range(WARM + MEASURED):
                    if nth == WARM:
                        seen.clear()
                    started = time.perf_counter()
                    log.append([Updates("quotes", world.batch(world.items(ROWS, None)))])
                    host.batch()
                    milliseconds.append((time.perf_counter() - started) * 1e3)
                figures["batches of 1000"] = percentiles(milliseconds[WARM:]) | told(seen)
                for _ in range(LARGE_BATCHES):
                    log.append([Updates("quotes", world.batch(world.items(LARGE_ROWS, None)))])
                host.batch()
                seen.clear()
                while host.batch():
                    pass
                figures[f"batches of {LARGE_ROWS}"] = told(seen)
        finally:
            session.stop()
    return figures


def told(seen: list[HostProgress]) -> dict[str, Any]:
    """What the batches were, together."""
    own, caught_up = sum(one.own_rows for one in seen), sum(one.caught_up_rows for one in seen)
    return {
        "updates_a_second": round(sum(one.rows for one in seen) / sum(one.seconds for one in seen)),
        "notifications_a_batch": round(sum(one.notifications for one in seen) / len(seen)),
        "share_of_work_that_is_catching_up": round(caught_up / (own + caught_up), 4),
    }


def on_node() -> dict[str, Any]:
    """The same queries in one process, and the rows alone."""
    with tempfile.TemporaryDirectory(prefix="slackwater-") as scratch:
        folder = Path(scratch)
        world = prepare(folder)
        figures = {}
        with LocalLog(folder / "log") as log:
            start = log.end
            for _ in range(4):
                log.append([Updates("quotes", world.batch(world.items(LARGE_ROWS, None)))])
            for name, keeps in (("node", lambda one: True), ("rows alone", lambda one: False)):
                engine = QueryEngine(keeps)
                for _ in engine.steps(log.read(log.start, start)):
                    pass
                began, processor = time.perf_counter(), time.process_time()
                for _ in engine.steps(log.read(start, log.end)):
                    pass
                rows = log.end - start
                figures[name] = {
                    "updates_a_second": round(rows / (time.perf_counter() - began)),
                    "updates_a_processor_second": round(rows / (time.process_time() - processor)),
                }
    return figures


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] == "executors":
        print("figures:", json.dumps(on_spark(int(sys.argv[2]))))
        return
    figures: dict[str, Any] = {}
    for executors in (1, 2):
        command = [sys.executable, "-m", "benchmarks.spark_host", "executors", str(executors)]
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        [line] = [line.removeprefix("figures: ") for line in lines if line.startswith("figures: ")]
        figures[f"{executors} executors"] = json.loads(line)
        print(executors, line, flush=True)
    report.write("spark_host", {"queries": QUERIES, "items": ITEMS, **figures, **on_node()})


if __name__ == "__main__":
    main()
