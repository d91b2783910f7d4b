"""How live operators are best held on Spark's executors: three ways, by the processor time of a batch.

    python -m benchmarks.shard_hosting

20 000 bounded sums of 5 items in 2 shards, batches of 1 000 updates; each shard reads the batch from the log by itself.

*worker*: a Python worker keeps the shards that it has seen in a module and catches up on what it missed. With places: a
shard's task asks for the executor that had it before. Without: Spark gives tasks to whoever is free.
*process*: one process for each shard owns the operators; Python workers only pass on, over a Unix socket.
*state*: `transformWithState`, keyed by shard, keeps the position in Spark's state store, for the sake of the place
where Spark then runs the shard; operators are in the worker as above.
*stream* is *worker with places*, begun by Structured Streaming's batch function instead of a loop of our own.

Counted is the processor time of all processes (driver, Java, executors, workers, shards) for a batch, and how much of
the operators' work was catching up.
"""

import gc
import multiprocessing.connection
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from benchmarks import report
from benchmarks.bounded_aggregates import ITEMS, MEMBERS, QUOTES, SYMBOLS, World
from slackwater.core import Aggregate, AggregateFunction, Bound, HostKind, Position, Weight
from slackwater.hosting.engine import QueryEngine
from slackwater.kinds.registry import plain_query
from slackwater.log import LocalLog, Record, Registered, TableDefined, Updates
from slackwater.pipeline.host.executor_affinity import executor_ids, placed
from slackwater.pipeline.session import build_session
from slackwater.pipeline.source import FORMAT, opened, register

QUERIES, SHARDS, ROWS = 20_000, 2, 1_000
WARM, MEASURED = 20, 60

# ---- what runs on executors

_engines: dict[int, QueryEngine] = {}
_work = {"own": 0, "caught up": 0}


def advance(log: str, shard: int, start: int, end: int) -> int:
    """Bring a shard that this process keeps to the end of a batch; return what it had to say."""
    engine = _engines.get(shard)
    if engine is None:
        engine = _engines[shard] = QueryEngine(lambda one: one.host is HostKind.SPARK and one.number % SHARDS == shard)
    if engine.position < start:
        _work["caught up"] += start - engine.position
        for _ in engine.steps(opened(log).read(engine.position, Position(start))):
            pass
        # Spark's workers collect garbage after every task: what stays must not be looked at each time.
        gc.freeze()
    if engine.position < end:
        _work["own"] += end - start
        return sum(len(step.notifications) for step in engine.steps(opened(log).read(Position(start), Position(end))))
    return 0


class InWorker:
    """Advances a shard in the worker that the task runs in."""

    def __init__(self, log: str, start: int, end: int) -> None:
        self._told = (log, start, end)

    def __call__(self, shards: Iterable[int]) -> Iterator[tuple[int, int, int]]:
        log, start, end = self._told
        before = dict(_work)
        said = sum(advance(log, shard, start, end) for shard in shards)
        yield said, _work["own"] - before["own"], _work["caught up"] - before["caught up"]


class InProcess:
    """Has a shard's own process advance it, starting it where there is none."""

    def __init__(self, folder: str, log: str, start: int, end: int) -> None:
        self._folder, self._told = folder, (log, start, end)

    def __call__(self, shards: Iterable[int]) -> Iterator[tuple[int, int, int]]:
        for shard in shards:
            with self._connected(shard) as line:
                line.send((self._told[0], shard, *self._told[1:]))
                yield line.recv()

    def _connected(self, shard: int) -> Any:
        address = f"{self._folder}/{shard}.socket"
        for attempt in range(1_000):
            try:
                return multiprocessing.connection.Client(address, "AF_UNIX")
            except OSError:
                if not attempt:
                    subprocess.Popen([sys.executable, "-m", "benchmarks.shard_hosting", address])
                time.sleep(0.02)
        raise RuntimeError("the process of a shard does not start")


def own_process(address: str) -> None:
    """Serve one shard until killed."""
    with multiprocessing.connection.Listener(address, "AF_UNIX") as listener:
        while True:
            with listener.accept() as line:
                before = dict(_work)
                said = advance(*line.recv())
                line.send((said, _work["own"] - before["own"], _work["caught up"] - before["caught up"]))


class Positions(StatefulProcessor):
    """Keeps the position of a shard in Spark's state store, the shard itself in the worker."""

    def __init__(self, log: str) -> None:
        self._log = log

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._position = handle.getValueState("position", StructType([StructField("position", LongType())]))

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timers: Any) -> Iterator[pd.DataFrame]:  # noqa: N802
        """Advance the shard over the records of the batch."""
        spans = pd.concat(list(rows))
        start, end = int(spans["position"].min()), int((spans["position"] + spans["rows"]).max())
        before = dict(_work)
        said = advance(self._log, int(key[0]), start, end)
        self._position.update((end,))
        yield pd.DataFrame(
            {"told": [f"{said} {_work['own'] - before['own']} {_work['caught up'] - before['caught up']}"]}
        )

    def close(self) -> None:
        """Nothing is held."""


# ---- the driver


Batch = Callable[[int, int], list[tuple[int, int, int]]]


def in_worker(session: SparkSession, log: Path, folder: Path, *, places: bool) -> Batch:
    """Jobs of our own."""

    def batch(start: int, end: int) -> list[tuple[int, int, int]]:
        executors = executor_ids(session.sparkContext) if places else []
        where = [executors[shard % len(executors)] if executors else None for shard in range(SHARDS)]
        shards = placed(session.sparkContext, list(range(SHARDS)), where)
        return list(shards.mapPartitions(InWorker(str(log), start, end)).collect())

    return batch


def in_process(session: SparkSession, log: Path, folder: Path) -> Batch:
    """Jobs of our own, to processes of the shards."""

    def batch(start: int, end: int) -> list[tuple[int, int, int]]:
        shards = placed(session.sparkContext, list(range(SHARDS)), [None] * SHARDS)
        return list(shards.mapPartitions(InProcess(str(folder), str(log), start, end)).collect())

    return batch


class Streaming:
    """A batch is done when the stream's batch function has been called for it."""

    def __init__(self, session: SparkSession, log: Path, folder: Path, *, state: bool) -> None:
        register(session)
        self._done: dict[int, list[tuple[int, int, int]]] = {}
        self._position = int(opened(str(log)).end)
        options = {"path": str(log), "start": str(self._position)}
        frame = session.readStream.format(FORMAT).options(**options).load()
        if state:
            told = StructType([StructField("told", StringType())])
            spread = frame.selectExpr("explode(sequence(0, 1)) AS shard", "position", "rows")
            frame = spread.groupBy("shard").transformWithStateInPandas(
                Positions(str(log)), told, outputMode="Append", timeMode="None"
            )
        run = in_worker(session, log, folder, places=True)

        def take(frame: DataFrame, number: int) -> None:
            end = int(opened(str(log)).end)
            self._done[end] = told_by(frame) if state else run(self._position, end)
            self._position = end

        self.query = (
            frame.writeStream.foreachBatch(take).option("checkpointLocation", (folder / "checkpoint").as_uri()).start()
        )

    def __call__(self, start: int, end: int) -> list[tuple[int, int, int]]:
        while end not in self._done:
            if not self.query.isActive:
                raise RuntimeError(str(self.query.exception()))
            time.sleep(0.0005)
        return self._done.pop(end)


def told_by(frame: DataFrame) -> list[tuple[int, int, int]]:
    """The three counts of each shard."""
    told = [list(map(int, row[0].split())) for row in frame.collect()]
    return [(said, own, caught_up) for said, own, caught_up in told]


def processor_seconds() -> float:
    """Of this process and all that it started, directly or not."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        stats[int(path.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    ours, ticks = {os.getpid()}, 0
    for pid in sorted(stats):
        chain = pid
        while chain in stats and chain not in ours:
            chain = stats[chain][0]
        if chain in ours:
            ticks += stats[pid][1]
    return ticks / os.sysconf("SC_CLK_TCK")


def prepare(folder: Path) -> tuple[Path, World]:
    """A log with a table, its rows and the queries."""
    random = np.random.default_rng(3)
    world = World(random, 100 + random.standard_normal(ITEMS))
    records: list[Record] = [TableDefined(QUOTES), Updates("quotes", world.batch(np.arange(ITEMS)))]
    for _ in range(QUERIES):
        items = random.choice(ITEMS, MEMBERS, replace=False)
        listed = tuple(Weight((SYMBOLS[item],), float(random.integers(1, 10))) for item in items)
        query = Aggregate("quotes", AggregateFunction.SUM, "price", Bound(5.0), weights=listed)
        records.append(Registered("quotes", "", "bench", query=plain_query(query), host=HostKind.SPARK.value))
    with LocalLog(folder / "log") as log:
        log.append(records)
    return folder / "log", world


def measure(executors: int, how: str) -> dict[str, Any]:
    """One way, in a session of its own."""
    with tempfile.TemporaryDirectory(prefix="slackwater-") as scratch:
        folder = Path(scratch)
        path, world = prepare(folder)
        extra = {"spark.executorEnv.PYTHONPATH": str(Path(__file__).parent.parent), "spark.sql.shuffle.partitions": "2"}
        if how == "state":
            extra["spark.sql.streaming.stateStore.providerClass"] = (
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
            )
        session = build_session(f"local-cluster[{executors},1,1024]", extra=extra)
        stream: Streaming | None = None
        milliseconds, processor, counts = [], [], np.zeros(3, np.int64)
        try:
            with LocalLog(path) as log:
                while len(executor_ids(session.sparkContext)) < executors:
                    time.sleep(0.05)
                if how in ("stream", "state"):
                    stream = Streaming(session, path, folder, state=how == "state")
                    batch: Batch = stream
                elif how == "process":
                    batch = in_process(session, path, folder)
                else:
                    batch = in_worker(session, path, folder, places=how == "worker with places")
                for nth in range(WARM + MEASURED):
                    start = int(log.end)
                    used, began = processor_seconds(), time.perf_counter()
                    end = int(log.append([Updates("quotes", world.batch(world.items(ROWS, None)))]))
                    told = batch(start, end)
                    if nth >= WARM:
                        milliseconds.append((time.perf_counter() - began) * 1e3)
                        processor.append(processor_seconds() - used)
                        counts += np.array(told).sum(axis=0)
        finally:
            if stream is not None:
                stream.query.stop()
            session.stop()
            subprocess.run(["pkill", "-f", f"shard_hosting {folder}"], check=False)
    return {
        "processor_ms_a_batch": round(statistics.fmean(processor) * 1e3, 1),
        "p50_ms": round(statistics.median(milliseconds), 1),
        "p99_ms": round(float(np.percentile(milliseconds, 99)), 1),
        "notifications_a_batch": round(int(counts[0]) / MEASURED, 1),
        "share_of_work_that_is_catching_up": round(int(counts[2]) / max(int(counts[1] + counts[2]), 1), 3),
    }


WAYS = ("worker with places", "worker without places", "process", "stream", "state")


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] == "one":
        print("figures:", measure(int(sys.argv[3]), sys.argv[2]))
        return
    figures: dict[str, Any] = {}
    for executors in (1, 2):
        for how in WAYS:
            # A process has one Java: each way gets its own.
            command = [sys.executable, "-m", "benchmarks.shard_hosting", "one", how, str(executors)]
            lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
            [told] = [line.removeprefix("figures: ") for line in lines if line.startswith("figures: ")]
            figures.setdefault(how, {})[f"{executors} executors"] = eval(told)
            print(how, executors, told, flush=True)
    report.write("shard_hosting", {"queries": QUERIES, "shards": SHARDS, "rows_a_batch": ROWS, **figures})


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].endswith(".socket"):
        own_process(sys.argv[1])
    else:
        # By name, else Spark would send all of this module along with each task, and what a worker keeps would be lost.
        from benchmarks import shard_hosting

        shard_hosting.main()
