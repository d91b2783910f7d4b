"""The proof of the seams: a kind, an operator and a source from outside work everywhere; `src` knows none of them."""

import asyncio
import math
import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import httpx
import pytest

import slackwater
from simulation import workload
from simulation.run import run as run_world
from slackwater.core import HostKind, Instant, Origin, Position, Update
from slackwater.core.arrow import to_batch
from slackwater.core.statement import Subscribe
from slackwater.deployment.feed import Feed
from slackwater.extensions import extended
from slackwater.hosting.engine import QueryEngine
from slackwater.hosting.publication_log import PublicationReader
from slackwater.kinds.registry import kind_of, plain_query, query_of
from slackwater.log import Registered, TableDefined, Updates
from slackwater.log.local import LocalLog
from slackwater.processing.base import Rebuild
from slackwater.processing.host import Host
from slackwater.sources import generator
from slackwater.sql import Catalog, bind, explain, parse, to_sql
from tests.contracts import median as extension
from tests.support.server_process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = "tests.contracts.median"
SQL = "SUBSCRIBE SELECT MEDIAN(price) FROM steps WHERE id < 5"


@pytest.fixture(autouse=True)
def with_medians() -> Iterator[None]:
    with extended(MODULE):
        yield


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerProcess]:
    monkeypatch.setenv("SLACKWATER_EXTENSIONS", MODULE)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
    with ServerProcess(tmp_path / "node") as running:
        yield running


def table() -> Catalog:
    return Catalog((generator("steps")().schema,))


def test_it_is_small_and_the_package_does_not_know_it() -> None:
    written = Path(extension.__file__).read_text(encoding="utf-8")
    assert len(written.splitlines()) <= 150
    sources = Path(slackwater.__file__).parent.rglob("*.py")
    names = ("exp.Median", "MedianKind", "Medians", MODULE)
    assert not [path for path in sources if any(name in path.read_text(encoding="utf-8") for name in names)]


def test_sql_and_explain() -> None:
    statement = bind(parse(SQL), table())
    assert isinstance(statement, Subscribe)
    assert bind(parse(to_sql(statement, table())), table()) == statement
    assert query_of(plain_query(statement.query)) == statement.query
    assert explain(statement).text().splitlines()[1] == "  └ median"
    assert "column: price" in explain(statement).text()


def records(count: int) -> list[Updates]:
    schema = generator("steps")().schema
    rows = [(nth % 7, (nth * 37 % 101) / 4, nth) for nth in range(count)]
    return [
        Updates("steps", to_batch(schema, [Update("steps", row, Instant(nth), Origin("s", nth))]))
        for nth, row in enumerate(rows)
    ]


def truths(count: int) -> list[float]:
    latest: dict[int, float] = {}
    found = []
    for nth in range(count):
        latest[nth % 7] = (nth * 37 % 101) / 4
        found.append(median(value for key, value in latest.items() if key < 5))
    return found


def test_a_host_keeps_it_exactly_and_a_snapshot_without_it_is_rebuilt() -> None:
    schema, query = generator("steps")().schema, bind(parse(SQL), table())
    assert isinstance(query, Subscribe)
    host = Host()
    host.define(schema, Position(1))
    host.register(1, query.query, Position(2))
    for nth, (record, truth) in enumerate(zip(records(40), truths(40), strict=True)):
        host.apply("steps", record.batch, Position(3 + nth))
        assert host.answer(1).value == truth
    restored = Host()
    restored.restore(host.snapshot())
    assert restored.snapshot() == host.snapshot()
    assert not restored.rebuilt
    for operator in host.operators:
        operator.version += operator.name == "Medians"
    rebuilt = Host()
    rebuilt.restore(host.snapshot())
    assert rebuilt.rebuilt == {"Medians": (1,)}
    assert rebuilt.answer(1).value == truths(40)[-1]
    assert rebuilt.operators[0].rebuilt_from is Rebuild.TABLES


async def test_a_real_server_rest_and_both_clients(server: ServerProcess) -> None:
    source = generator("steps")(ticks=20)
    feed = Feed(lambda: server.url)
    await asyncio.to_thread(feed.define, source.schema)
    await asyncio.to_thread(feed.send, source.arrivals())
    feed.close()
    expected = median(1.5 * nth for nth in range(13, 20) if nth % 7 < 5)
    async with slackwater.connect(server.url) as client:
        held = await client.subscribe(SQL).ready(20)
        assert held.value == expected
        explained = (await client.explain(SQL)).text
        assert "median" in explained
        assert "host node" in explained
        [standing] = await client.subscriptions()
        assert (standing.kind, standing.within) == ("median", 0.0)
        receipt = await client.ingest("steps", [{"id": 0, "price": 1000.0, "at": "2026-06-01T00:00:00Z"}])
        await held.reached(receipt.position, 20)
        assert held.value == median([1000.0, *(1.5 * nth for nth in (15, 16, 17, 18))])

    def in_turn() -> float | None:
        with slackwater.connect_sync(server.url) as client:
            return client.subscribe(SQL).ready(20).value

    assert await asyncio.to_thread(in_turn) == median([1000.0, *(1.5 * nth for nth in (15, 16, 17, 18))])
    refused = httpx.post(f"{server.url}/v1/explain", json={"sql": SQL.replace("price", "prise")})
    assert refused.status_code == 400
    assert "did you mean price" in refused.text


def test_simulated_worlds_with_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "AGGREGATES", ("SUBSCRIBE SELECT MEDIAN(price) FROM items WHERE stock > 2",))
    monkeypatch.setattr(workload, "BOUNDS", ("",))
    for seed in range(12):
        report = run_world(seed)
        assert report.violation is None, (seed, report.violation)


def test_on_real_spark(spark: "SparkSession", tmp_path: Path) -> None:
    from slackwater.pipeline.host.executor_affinity import OnExecutors
    from slackwater.pipeline.host.spark_host import SparkHost

    schema, statement = generator("steps")().schema, bind(parse(SQL), table())
    assert isinstance(statement, Subscribe)
    with LocalLog(tmp_path / "log") as log:
        log.append([TableDefined(schema)])
        plain = plain_query(statement.query)
        log.append([Registered("steps", SQL, "ann", query=plain, host=HostKind.SPARK.value)])
        log.append(records(30))
        with SparkHost(tmp_path / "log", tmp_path / "host", OnExecutors(spark.sparkContext), shards=2) as host:
            while host.batch():
                pass
        end = log.end
    reader = PublicationReader(tmp_path / "host")
    reader.catch_up()
    [number] = reader.replica.queries
    assert kind_of(reader.replica.queries[number]).name == "median"
    assert reader.replica.position == end
    assert reader.replica.answer(number).value == truths(30)[-1]


def test_engines_cut_anywhere_say_the_same(tmp_path: Path) -> None:
    engine = QueryEngine()
    with LocalLog(tmp_path / "log") as log:
        log.append([TableDefined(generator("steps")().schema)])
        log.append([Registered("steps", SQL, "ann")])
        log.append(records(25))
        for _ in engine.steps(log.read(Position(0))):
            pass
    [number] = engine.registrations
    value = engine.host.answer(number).value
    assert value is not None
    assert math.isclose(value, truths(25)[-1])
