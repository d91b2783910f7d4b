"""Labels for 10 000 clients on Spark, with one and with two real executors of one core each.

A table of 5 000 rows gets 50 000 updates through the log, each moving a row a little along price and mileage. Every
client asks 20 ranges around three wishes of its own, each several times. *One attribute*: ranges of price. *Two, with a
limit*: ranges of price and mileage, and room for 20 rows. What is timed is the whole job, from history and the log of
queries to the published plan; its parts beside it. Sessions are warm (200 clients were labelled before), each job is
run twice into a folder of its own, all times are given. Both numbers of executors must publish the same bytes.

The control is a loop that does nothing but count, in as many tasks as a plan has: how much of the machine the executors
got. `cpu_ms_of_a_client` is processor time of labelling 200 of the clients in one process.
"""

import json
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import report

CLIENTS, QUERIES, ROWS, UPDATES, BATCH, LIMIT = 10_000, 20, 5_000, 50_000, 5_000, 20
REPEATS = 2
SETTINGS = {"one attribute": ("price",), "two attributes, rows limited": ("price", "mileage")}


def write_log(folder: Path) -> None:
    from slackwater.core import Column, DataType, Instant, Origin, TableSchema, Update
    from slackwater.core.arrow import to_batch
    from slackwater.log import LocalLog, TableDefined, Updates

    rng = np.random.default_rng(1)
    numbers = (Column("price", DataType.DOUBLE), Column("mileage", DataType.DOUBLE))
    cars = TableSchema("cars", (Column("id", DataType.BIGINT, nullable=False), *numbers), key=("id",))
    at = rng.uniform(0, 100_000, (ROWS, 2)).round()
    # Nine updates of ten are of the cheapest third: where it is worth to push is not everywhere the same.
    cheap = np.flatnonzero(at[:, 0] < 33_000)
    drawn = np.where(rng.random(UPDATES) < 0.9, rng.choice(cheap, UPDATES), rng.integers(0, ROWS, UPDATES))
    who = np.concatenate((np.arange(ROWS), drawn))
    with LocalLog(folder) as log:
        log.append([TableDefined(cars)])
        for start in range(0, len(who), BATCH):
            updates = []
            for nth, key in enumerate(who[start : start + BATCH], start):
                if nth >= ROWS:
                    at[key] = np.clip(at[key] + rng.normal(0, 800, 2).round(), 0, 100_000)
                row = (int(key), float(at[key, 0]), float(at[key, 1]))
                updates.append(Update("cars", row, Instant(1_700_000_000_000_000 + nth), Origin("s", nth)))
            log.append([Updates("cars", to_batch(cars, updates))])


def write_asked(path: Path, columns: tuple[str, ...]) -> None:
    """The log of queries, as Parquet."""
    from slackwater.core.extent import Interval
    from slackwater.core.region import Box, Region, Side
    from slackwater.pipeline.jobs.client_labels import ASKED, region_text

    rng = np.random.default_rng(2)
    regions, width = [], 100 if len(columns) == 1 else 3_000
    for _ in range(CLIENTS):
        wishes = rng.uniform(0, 100_000, (3, len(columns)))
        middle = wishes[rng.integers(0, 3, QUERIES)] + rng.normal(0, 3 * width, (QUERIES, len(columns)))
        half = np.abs(rng.normal(width, width / 2, middle.shape))
        for low, high in zip((middle - half).round(), (middle + half).round(), strict=True):
            sides = (Side(name, Interval(float(a), float(b))) for name, a, b in zip(columns, low, high, strict=True))
            regions.append(region_text(Region((Box.of(*sides),))))
    count = CLIENTS * QUERIES
    clients = [f"client-{k // QUERIES}" for k in range(count)]
    arrays = [clients, ["cars"] * count, regions, np.ones(count), rng.integers(1, 40, count)]
    pq.write_table(pa.table(arrays, schema=ASKED), path, row_group_size=50_000)


def keep(folder: Path) -> None:
    """What the pipeline keeps of the log, and the logs of queries."""
    from slackwater.pipeline.session import build_session
    from slackwater.pipeline.tables.stream import run_pipeline

    write_log(folder / "log")
    session = build_session("local[2]")
    with run_pipeline(folder / "log", folder / "kept", session, available_now=True) as run:
        run.wait()
    session.stop()
    for name, columns in SETTINGS.items():
        write_asked(folder / f"{name}.parquet", columns)


def control(session: Any) -> float:
    def spin(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Here, so that it travels as a value: executors do not have this module.
        yield from batches
        for _ in range(10_000_000):
            pass

    started = time.perf_counter()
    session.range(0, 16, 1, 16).mapInArrow(spin, "id bigint").count()
    return round(time.perf_counter() - started, 1)


def in_process(activity: Any, path: Path, limit: int | None) -> float:
    """Processor milliseconds of a client, without Spark."""
    import msgspec

    from slackwater.core.region_codec import region_of
    from slackwater.planning.push_pull.label_many import Demand, label_client

    rows = pq.read_table(path)[: 210 * QUERIES].to_pylist()
    spent = 0.0
    for start in range(0, len(rows), QUERIES):
        started = time.process_time()
        own = rows[start : start + QUERIES]
        footprints = [activity.footprint(region_of(msgspec.json.decode(row["region"]))) for row in own]
        label_client(activity, [Demand(f, 1.0, row["times"]) for f, row in zip(footprints, own, strict=True)], limit)
        # The first clients compile.
        spent += time.process_time() - started if start >= 10 * QUERIES else 0.0
    return round(1000 * spent / 200, 2)


def labelled(folder: Path, executors: int) -> dict[str, Any]:
    """All settings with so many executors; the session lives for this measurement only."""
    from slackwater.hosting.published_labels import read_all
    from slackwater.pipeline.jobs.client_labels import LIMITS, label_clients
    from slackwater.pipeline.jobs.table_activity import TablePlan, table_activity
    from slackwater.pipeline.session import build_session
    from slackwater.pipeline.tables.frames import spark_schema
    from slackwater.pipeline.tables.snapshot import snapshot
    from slackwater.planning.push_pull.cost_models import Messages

    session = build_session(f"local-cluster[{executors},1,1024]")
    figures: dict[str, Any] = {}
    try:
        for name, columns in SETTINGS.items():
            asked = session.read.parquet(str(folder / f"{name}.parquet"))
            limits = None
            if len(columns) > 1:
                rows = session.range(CLIENTS).selectExpr("concat('client-', id)", "'cars'", f"{LIMIT}L")
                limits = session.createDataFrame(rows.rdd, spark_schema(LIMITS))
            tables = {"cars": TablePlan(columns, Messages())}
            few = asked.limit(200 * QUERIES)
            label_clients(session, folder / "kept", folder / f"warm {executors} {name}", few, tables, limits)
            whole, counting, controls = [], [], [control(session)]
            for nth in range(REPEATS):
                started = time.perf_counter()
                activity = table_activity(session, snapshot(folder / "kept"), "cars", tables["cars"])
                counted = time.perf_counter()
                out = folder / f"{nth} {executors} {name}"
                plan = label_clients(session, folder / "kept", out, asked, tables, limits)
                whole.append(round(time.perf_counter() - counted, 1))
                counting.append(round(counted - started, 1))
                controls.append(control(session))
            boxes = [len(one.pushed.boxes) for one in read_all(out, plan)]
            figures[name] = {
                "executors": executors,
                "seconds": whole,
                "of_which_counting_what_changes": counting,
                "seconds_of_control": controls,
                "cpu_ms_of_a_client": in_process(
                    activity, folder / f"{name}.parquet", LIMIT if limits is not None else None
                ),
                "clients": plan.clients,
                "clients_per_second": round(plan.clients / min(whole)),
                "cost_over_proven_bound": round(plan.cost / plan.at_least, 4),
                "cost_over_pulling_everything": round(plan.cost / pulling(folder / f"{name}.parquet"), 3),
                "rows_held_by_a_client": round(plan.held / plan.clients, 1),
                "boxes_of_a_client": round(float(np.mean(boxes)), 1),
                "bytes_of_a_client": round(plan.size / plan.clients),
                "plan": json.dumps([(file.bucket, file.digest) for file in plan.files]),
            }
    finally:
        session.stop()
    return figures


def pulling(path: Path) -> int:
    """What it costs to ask every time."""
    return int(np.sum(pq.read_table(path, columns=["times"])["times"].to_numpy()))


def apart(function: Any, *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def ratio(first: list[float], second: list[float]) -> float:
    return round(min(first) / min(second), 2)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        apart(keep, folder)
        one, two = apart(labelled, folder, 1), apart(labelled, folder, 2)
    settings = []
    for name in SETTINGS:
        same = one[name].pop("plan") == two[name].pop("plan")
        settings.append(
            {
                "setting": name,
                "queries_of_a_client": QUERIES,
                "updates": UPDATES,
                "executors": [one[name], two[name]],
                "one_over_two": ratio(one[name]["seconds"], two[name]["seconds"]),
                "one_over_two_of_control": ratio(one[name]["seconds_of_control"], two[name]["seconds_of_control"]),
                "same_bytes_with_one_and_two": same,
            }
        )
    report.write("client_labels", {"settings": settings})


if __name__ == "__main__":
    main()
