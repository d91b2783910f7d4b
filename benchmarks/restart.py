"""How long a server takes to start with many named queries, from its log and from a snapshot.

    python -m benchmarks.restart --queries 1000 10000 100000 --rows 1000000 --keys 100000

A folder is made with a log: a table of so many keys, named sums of five items each, then rows in batches of 1 000, and
no snapshot. A server process is started over it, until it answers that it is ready; it stops with a snapshot and is
started once more over that. Before a time counts, answers of both starts are compared with the rows. `--source` names
the `src` folder of another version, started in turns over copies of the same folder.
"""

import argparse
import asyncio
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import report
from benchmarks.subscribing import processor_seconds, resident_bytes
from slackwater.client import connect
from slackwater.core import Aggregate, AggregateFunction, Bound, Column, DataType, Instant, TableSchema, Weight
from slackwater.core.arrow import to_batch
from slackwater.core.update import Origin, Update
from slackwater.kinds.registry import plain_query
from slackwater.log import Record, Registered, TableDefined, Updates, open_log
from tests.support import server_process
from tests.support.server_process import ServerProcess

A_QUERY, BATCH = 5, 1_000
TABLE = TableSchema(
    "items", (Column("item", DataType.BIGINT, nullable=False), Column("price", DataType.DOUBLE)), key=("item",)
)
BEGAN = 1_700_000_000_000_000


class Patient(ServerProcess):
    """A server that may take minutes to start, of any version."""

    def __init__(self, folder: Path, source: Path | None) -> None:
        super().__init__(folder)
        if source is not None:
            self.environment = {"PYTHONPATH": str(source)}


def batch(items: np.ndarray[Any, Any], prices: np.ndarray[Any, Any], first: int) -> pa.RecordBatch:
    """Rows as they stand in the log, numbered from `first` on."""
    like = to_batch(TABLE, [Update("items", (0, 0.0), Instant(BEGAN), Origin("rows", 0))])
    count = len(items)
    columns = {"item": items, "price": prices, "$time": np.full(count, BEGAN) + first}
    columns["$seq"] = np.arange(first, first + count)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(columns[field.name]).cast(field.type)
            if field.name in columns
            else pa.array([like.column(field.name)[0].as_py()] * count, field.type)
            for field in like.schema
        ],
        schema=like.schema,
    )


def text_of(items: list[int]) -> str:
    """A sum of items, in normal form."""
    values = ", ".join(f"({item}, 1.0)" for item in items)
    return f"SUBSCRIBE SELECT SUM(w * price) FROM items JOIN (VALUES {values}) AS p(item, w) USING (item) WITHIN 5.0"


def records(rows: int, keys: int, wanted: list[list[int]], prices: np.ndarray[Any, Any]) -> Iterator[Record]:
    """The whole log: every key once, the queries, then the other rows at random; `prices` follows them."""
    generator = np.random.default_rng(7)
    yield TableDefined(TABLE)
    for first in range(0, keys, BATCH):
        every = np.arange(first, min(first + BATCH, keys))
        yield Updates("items", batch(every, prices[every], first))
    for place, items in enumerate(wanted):
        weights = tuple(Weight((item,), 1.0) for item in items)
        query = Aggregate("items", AggregateFunction.SUM, "price", Bound(5.0), weights=weights)
        yield Registered("items", text_of(items), "anonymous", f"q{place}", query=plain_query(query))
    for first in range(keys, rows, BATCH):
        chosen = generator.choice(keys, min(BATCH, rows - first), replace=False)
        prices[chosen] += generator.normal(0.0, 1.0, len(chosen))
        yield Updates("items", batch(chosen, prices[chosen], first))


def fill(folder: Path, queries: int, rows: int, keys: int) -> tuple[list[list[int]], np.ndarray[Any, Any]]:
    """Write the log of a server that never ran; returns the items of the queries, and the prices at its end."""
    generator = random.Random(7)
    wanted = [sorted(generator.sample(range(keys), A_QUERY)) for _ in range(queries)]
    prices = np.round(np.random.default_rng(3).uniform(50.0, 150.0, keys), 2)
    folder.mkdir(parents=True)
    with open_log(folder / "log") as log:
        some: list[Record] = []
        for record in records(rows, keys, wanted, prices):
            some.append(record)
            if len(some) >= 100:
                log.append(some)
                some = []
        log.append(some)
    return wanted, prices


async def compared(server: ServerProcess, wanted: list[list[int]], prices: np.ndarray[Any, Any]) -> None:
    """Look at some of the queries: their answers lie within the bound."""
    async with connect(server.url) as client:
        for place in random.Random(1).sample(range(len(wanted)), min(50, len(wanted))):
            shown = await client.subscribe(text_of(wanted[place])).ready(60)
            assert shown.value is not None
            error = abs(shown.value - float(prices[wanted[place]].sum()))
            assert error <= 5.0 * (1 + 1e-9), f"query {place} is {error} from the truth"


def started(
    folder: Path, source: Path | None, wanted: list[list[int]], prices: np.ndarray[Any, Any]
) -> dict[str, float]:
    """Start a server over a folder until it is ready, look at its answers, and stop it with a snapshot."""
    server = Patient(folder, source)
    began = time.perf_counter()
    try:
        server.start()
        seconds = time.perf_counter() - began
        assert server._process is not None
        figures = {
            "seconds": round(seconds, 2),
            "CPU seconds": round(processor_seconds(server._process.pid), 2),
            "MiB": resident_bytes(server._process.pid) >> 20,
        }
        asyncio.run(compared(server, wanted, prices))
    finally:
        server.stop()
    return figures


def main() -> None:
    """Measure each number of queries, and write the curve."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--queries", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--keys", type=int, default=100_000)
    options.add_argument("--source", type=Path, help="the src folder of another version")
    options.add_argument("--write", action="store_true", help="into benchmarks/results")
    chosen = options.parse_args()
    server_process.START_SECONDS = server_process.STOP_SECONDS = 900.0
    versions: dict[str, Path | None] = {"here": None} | ({"before": chosen.source} if chosen.source else {})
    curve = []
    with tempfile.TemporaryDirectory() as scratch:
        for queries in chosen.queries:
            origin = Path(scratch) / "origin"
            wanted, prices = fill(origin, queries, chosen.rows, chosen.keys)
            row: dict[str, Any] = {"queries": queries}
            for name, source in versions.items():
                folder = Path(scratch) / name
                shutil.copytree(origin, folder)
                row[name] = {
                    "from the log": started(folder, source, wanted, prices),
                    "from a snapshot": started(folder, source, wanted, prices),
                }
                shutil.rmtree(folder)
            shutil.rmtree(origin)
            curve.append(row)
            print(row, flush=True)
    figures = {"rows": chosen.rows, "keys": chosen.keys, "items a query": A_QUERY, "processors": os.cpu_count()}
    if chosen.write:
        report.write("restart", figures | {"curve": curve})


if __name__ == "__main__":
    main()
