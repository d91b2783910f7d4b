"""Standing joins on Spark: what a node says, byte by byte, also when an executor is killed."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.client import Client
from slackwater.client.live.subscription import Subscription
from slackwater.core import Join, Position
from slackwater.core.update import Operation
from slackwater.kinds.registry import query_of
from slackwater.log import LocalLog, Updates
from slackwater.pipeline.host.executor_affinity import OnExecutors
from slackwater.pipeline.host.shard_assignment import Shardings
from slackwater.processing.columns import python_rows
from tests.support.join_histories import JoinHistory
from tests.support.server_process import ServerProcess
from tests.support.spark_processes import HostProcess, kill_executor
from tests.support.spark_workers import Workers, run


@pytest.mark.parametrize("seed", range(3))
def test_what_is_said_of_joins_is_what_a_node_says(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, Workers(seed, deaths=0.15), batches=20, restarts=0.15, history=JoinHistory(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30, 130))
def test_what_is_said_of_joins_is_what_a_node_says_often(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, Workers(seed, deaths=0.2), batches=20, restarts=0.2, history=JoinHistory(seed))


def test_histories_have_joins_in_them() -> None:
    made = [record for seed in range(8) for record in JoinHistory(seed).more(100)]
    plain = [record.query for record in made if hasattr(record, "query") and record.query is not None]
    kinds = [query.band is None for query in map(query_of, plain) if isinstance(query, Join)]
    assert kinds.count(True) > 30
    assert kinds.count(False) > 30


def test_on_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    run(1_999, tmp_path, OnExecutors(spark.sparkContext), batches=4, history=JoinHistory(1_999))


@pytest.mark.slow
def test_on_spark_for_longer(spark: SparkSession, tmp_path: Path) -> None:
    """5 histories of 20 batches."""
    for seed in range(5):
        runner = OnExecutors(spark.sparkContext)
        run(2_000 + seed, tmp_path / str(seed), runner, batches=20, history=JoinHistory(2_000 + seed))


# ---- a killed executor

Rows = frozenset[tuple[Any, ...]]
TABLES = (
    "CREATE TABLE unit (id BIGINT PRIMARY KEY, pos DOUBLE, product TEXT)",
    "CREATE TABLE target (id BIGINT PRIMARY KEY, pos DOUBLE, product TEXT)",
)
QUERIES = (
    "SUBSCRIBE SELECT unit.id, target.id FROM unit JOIN target ON target.pos - unit.pos BETWEEN -3 AND 5",
    "SUBSCRIBE SELECT unit.id, target.id FROM unit JOIN target USING (product) WHERE unit.pos < 50 AND target.pos > 20",
)


def truth(tables: dict[str, dict[int, tuple[Any, ...]]]) -> tuple[Rows, Rows]:
    pairs = [(a, b) for a in tables["unit"].values() for b in tables["target"].values()]
    band = frozenset((a[0], b[0]) for a, b in pairs if -3 <= b[1] - a[1] <= 5)
    select = frozenset((a[0], b[0]) for a, b in pairs if a[2] == b[2] and a[1] < 50 and b[1] > 20)
    return band, select


async def watch(live: list[Subscription], seen: list[dict[int, Rows]]) -> None:
    while True:
        for subscription, shown in zip(live, seen, strict=True):
            if subscription.certain and subscription.as_of is not None:
                shown[int(subscription.as_of)] = frozenset(tuple(row.values()) for row in subscription.rows)
        await asyncio.sleep(0.01)


def check_all(seen: list[dict[int, Rows]], log: Path) -> int:
    """Everything that was shown as certain equals recomputation at its position; how many moments that were."""
    wanted = sorted({position for shown in seen for position in shown})
    tables: dict[str, dict[int, tuple[Any, ...]]] = {"unit": {}, "target": {}}
    checked = 0

    def compare(position: int) -> None:
        nonlocal checked
        for shown, expected in zip(seen, truth(tables), strict=True):
            if position in shown:
                assert shown[position] == expected
                checked += 1

    with LocalLog(log, read_only=True) as opened:
        for entry in opened.read(Position(0)):
            rows = python_rows(entry.record.batch) if isinstance(entry.record, Updates) else []
            for nth in range(entry.rows):
                while wanted and wanted[0] <= entry.first + nth:
                    compare(wanted.pop(0))
                if isinstance(entry.record, Updates):
                    row = rows[nth]
                    table = tables[entry.record.table]
                    table.pop(int(str(row[0])), None)
                    if row[3] == Operation.UPSERT:
                        table[int(str(row[0]))] = row[:3]
    for position in wanted:
        compare(position)
    return checked


async def change(client: Client, tables: dict[str, dict[int, tuple[Any, ...]]], random: Random) -> int:
    """A few rows come, change or go; where that stands in the log."""
    table, gone = random.choice(["unit", "target"]), random.random() < 0.2
    ids = random.sample(range(40), 3)
    rows: list[tuple[Any, ...]] = [(one, float(random.randrange(80)), random.choice("abcde")) for one in ids]
    names = ("id",) if gone else ("id", "pos", "product")
    sent = [dict(zip(names, row, strict=False)) for row in rows]
    receipt = await client.ingest(table, sent, delete=gone)
    for row in rows:
        tables[table].pop(row[0], None)
        if not gone:
            tables[table][row[0]] = row
    return int(receipt.position)


async def fill(client: Client, tables: dict[str, dict[int, tuple[Any, ...]]]) -> None:
    """So many rows that joins are spread by them. They have no partners, and the seam is where the others are."""
    places = [sign * (1_000.0 + nth) for nth in range(600) for sign in (-1, 1)]
    tables["unit"] = {1_000 + nth: (1_000 + nth, place, f"x{nth}") for nth, place in enumerate(places)}
    await client.ingest(
        "unit", [dict(zip(("id", "pos", "product"), row, strict=True)) for row in tables["unit"].values()]
    )


@pytest.mark.slow
@pytest.mark.parametrize("by_rows", [False, True])
async def test_an_executor_killed_in_the_middle(by_rows: bool, tmp_path: Path) -> None:
    folder, random = tmp_path / "spark", Random(7)
    server = ServerProcess(tmp_path / "server", "--lease", "1.5", "--spark", str(folder))
    server.start()
    host = HostProcess(tmp_path / "server" / "log", folder, "local-cluster[2,1,1024]")
    seen: list[dict[int, Rows]] = [{} for _ in QUERIES]
    tables: dict[str, dict[int, tuple[Any, ...]]] = {"unit": {}, "target": {}}
    try:
        async with slackwater.connect(server.url) as client:
            for sql in TABLES:
                await client.execute(sql)
            if by_rows:
                await fill(client, tables)
            host.start()
            live = [await client.subscribe(sql).ready(120) for sql in QUERIES]
            watching = asyncio.create_task(watch(live, seen))
            for phase in range(3):
                for nth in range(40):
                    position = await change(client, tables, random)
                    if phase > 0 and nth == 20:
                        # In the middle: batches are under way, and more come before it is replaced.
                        kill_executor(host)
                    await asyncio.sleep(0.05)
                for subscription in live:
                    assert (await subscription.reached(position, 120)).as_of == position
                assert tuple(frozenset(tuple(row.values()) for row in one.rows) for one in live) == truth(tables)
                for shown, subscription in zip(seen, live, strict=True):
                    shown[position] = frozenset(tuple(row.values()) for row in subscription.rows)
            watching.cancel()
        # The ends of the phases at least; and whatever else was shown as certain in between.
        assert check_all(seen, tmp_path / "server" / "log") >= 3 * len(QUERIES)
    finally:
        await asyncio.to_thread(host.stop)
        await asyncio.to_thread(server.stop)
    assert "Traceback" not in server.report()
    assert bool(Shardings(folder).all[-1].lines) == by_rows
