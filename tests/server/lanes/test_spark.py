"""Queries that another host keeps: what it says reaches clients, and what it does not say is not claimed."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import slackwater
from slackwater.client.failures import Refused
from slackwater.core import HostKind, Placement, Position
from slackwater.core.lineage import Lineage
from slackwater.hosting.publication import Publication, PublishedStep
from slackwater.hosting.publication_log import PublicationWriter
from slackwater.hosting.step import Step
from slackwater.log.extent import LogExtent
from slackwater.processing.base import Notifications
from slackwater.server.lanes.spark import SparkLane
from slackwater.sessions.engine import NodeEngine
from slackwater.sessions.registrar import Registrar
from slackwater.sessions.router import Router
from slackwater.sessions.rules import SessionRules
from tests.support.engine_twin import Host
from tests.support.nats_server import NatsServer
from tests.support.server_process import ServerProcess

TABLE = "CREATE TABLE quotes (symbol TEXT PRIMARY KEY, price DOUBLE)"
SUM = "SUBSCRIBE SELECT SUM(price) FROM quotes WITHIN 0.5"


@contextmanager
def served(tmp_path: Path, *more: str) -> Iterator[tuple[ServerProcess, Host]]:
    folder = tmp_path / "said"
    with ServerProcess(tmp_path / "server", "--lease", "0.6", "--spark", str(folder), *more) as server:
        host = Host(tmp_path / "server", folder)
        try:
            yield server, host
        finally:
            host.close()


async def test_values_and_rows_come_from_the_host(tmp_path: Path) -> None:
    with served(tmp_path) as (server, host):
        keeping = asyncio.create_task(host.keep_up())
        async with slackwater.connect(server.url) as client:
            await client.execute(TABLE)
            await client.ingest("quotes", [{"symbol": "A", "price": 1.0}, {"symbol": "B", "price": 2.0}])
            total = await client.subscribe(SUM).ready(10)
            every = await client.subscribe("SUBSCRIBE SELECT * FROM quotes WHERE price > 1.5").ready(10)
            assert total.value == 3.0
            assert [row["symbol"] for row in every.rows] == ["B"]
            receipt = await client.ingest("quotes", [{"symbol": "A", "price": 10.0}, {"symbol": "B", "price": None}])
            await total.reached(receipt.position, 10)
            await every.reached(receipt.position, 10)
            assert total.value == 10.0
            assert [row["symbol"] for row in every.rows] == ["A"]
            standing = await client.subscriptions()
            assert {one.host for one in standing} == {"spark"}
            assert sum(one.subscribers for one in standing) == 2
            assert "host spark" in (await client.explain(SUM)).text
            late = await client.subscribe("SUBSCRIBE SELECT * FROM quotes WHERE price > 1.5").ready(10)
            assert late.rows == every.rows
        keeping.cancel()


async def test_who_keeps_what_is_as_configured_and_clients_need_not_know(tmp_path: Path) -> None:
    with served(tmp_path, "--keep-on", "node", "--keep-on", "query:Slow=spark") as (server, host):
        keeping = asyncio.create_task(host.keep_up())
        async with slackwater.connect(server.url) as client:
            await client.execute(TABLE)
            await client.ingest("quotes", [{"symbol": "A", "price": 1.0}])
            assert "host spark" in (await client.explain("SUBSCRIBE slow AS SELECT MAX(price) FROM quotes")).text
            await client.execute("SUBSCRIBE slow AS SELECT MAX(price) FROM quotes")
            quick, slow = client.subscribe(SUM), client.subscribe("slow")
            again = client.subscribe("SUBSCRIBE slow AS SELECT MAX(price) FROM quotes")
            wrong = client.subscribe("SUBSCRIBE slow AS SELECT MIN(price) FROM quotes")
            await asyncio.gather(quick.ready(10), slow.ready(10), again.ready(10))
            with pytest.raises(Refused, match="already a subscription slow"):
                await wrong.ready(10)
            assert (quick.value, slow.value, again.value) == (1.0, 1.0, 1.0)
            assert {one.name: one.host for one in await client.subscriptions()} == {None: "node", "slow": "spark"}
            assert "host node" in (await client.explain(SUM)).text
            keeping.cancel()
            # The host says nothing any more; what the node keeps does not mind.
            receipt = await client.ingest("quotes", [{"symbol": "A", "price": 5.0}])
            await quick.reached(receipt.position, 10)
            assert quick.value == 5.0
            assert slow.value == 1.0


async def test_a_host_that_falls_behind_is_not_relied_on(tmp_path: Path) -> None:
    with served(tmp_path) as (server, host):
        async with slackwater.connect(server.url) as client:
            await client.execute(TABLE)
            await client.ingest("quotes", [{"symbol": "A", "price": 1.0}])
            total = client.subscribe(SUM)
            keeping = asyncio.create_task(host.keep_up())
            await total.wait_until(lambda shown: shown.certain, 10)
            await asyncio.sleep(1.5)
            assert total.certain, "nothing happens in the log: there is nothing to be behind of"
            keeping.cancel()
            receipt = await client.ingest("quotes", [{"symbol": "A", "price": 9.0}])
            shown = await total.wait_until(lambda shown: not shown.certain, 10)
            assert shown.value == 1.0
            await total.wait_until(lambda shown: "behind the log" in shown.why, 10)
            host.batch()
            shown = await total.wait_until(lambda shown: shown.certain, 10)
            assert (shown.value, shown.as_of) == (9.0, receipt.position)


async def test_a_host_that_is_not_there_yet_is_asked_once(tmp_path: Path) -> None:
    again = 7.0  # a node asks the log again after 5 seconds
    with served(tmp_path) as (server, host):
        async with slackwater.connect(server.url) as client:
            await client.execute(TABLE)
            total, named = client.subscribe(SUM), client.subscribe(SUM.replace("SELECT", "slow AS SELECT", 1))
            await asyncio.sleep(again)
            assert sorted(str(one.name) for one in await client.subscriptions()) == ["None", "slow"]
            host.batch()
            await asyncio.gather(total.ready(10), named.ready(10))


async def test_a_name_decides_also_when_the_host_is_slow_and_a_race_for_it_ends(tmp_path: Path) -> None:
    again = 7.0
    rules = ("--keep-on", "node", "--keep-on", "query:slow=spark", "--keep-on", "table:alarms=spark")
    with served(tmp_path, *rules) as (server, host):
        async with slackwater.connect(server.url) as client:
            await client.execute(TABLE)
            await client.execute("CREATE TABLE alarms (id TEXT PRIMARY KEY, level DOUBLE)")
            slow = client.subscribe(SUM.replace("SELECT", "slow AS SELECT", 1))
            # One name, two tables, two lanes, at once: one of them is told, whichever it is.
            first = client.subscribe("SUBSCRIBE both AS SELECT SUM(price) FROM quotes WITHIN 1")
            second = client.subscribe("SUBSCRIBE both AS SELECT SUM(level) FROM alarms WITHIN 1")
            await asyncio.sleep(again)
            keeping = asyncio.create_task(host.keep_up())
            await slow.ready(10)
            ends = await asyncio.gather(first.ready(20), second.ready(20), return_exceptions=True)
            assert sorted(type(end).__name__ for end in ends) == ["Refused", "Subscription"]
        keeping.cancel()


async def test_a_lane_that_missed_too_much_begins_again(tmp_path: Path) -> None:
    engine = NodeEngine()
    registrar = Registrar(engine, router=Router(lambda: engine.registry, Placement(), frozenset(HostKind)))
    extent = LogExtent(Lineage(), Position(40))
    rules = SessionRules(host=HostKind.SPARK)
    lane = SparkLane(tmp_path, "n", 1, rules, registrar, lambda append: None, lambda: 40, lambda: extent)
    lane.start()
    with PublicationWriter(tmp_path) as writer:
        for start in range(0, 40, 10):
            end = Position(start + 10)
            step = PublishedStep(Step(Notifications(end)))
            writer.publish(Publication(writer.generation, Position(start), end, (step,)))
            writer.write_snapshot()
            writer.forget_before(start + 10)
        following = asyncio.create_task(lane.follow())
        async with asyncio.timeout(10):
            while lane.engine.position < 40:
                await asyncio.sleep(0.01)
        assert lane.sessions.state.position == 40
        for path in (tmp_path / "said").iterdir():
            path.unlink()
        (tmp_path / "said" / f"{40:020d}.said").write_bytes(b"damaged")
        async with asyncio.timeout(10):
            while lane._doubt is None:
                await asyncio.sleep(0.01)
        assert "damaged" in lane._doubt
        assert not following.done(), "a doubt, and not the end"
        following.cancel()


async def test_a_server_that_is_started_again_knows_what_was_said(tmp_path: Path) -> None:
    with served(tmp_path) as (server, host):
        keeping = asyncio.create_task(host.keep_up())
        async with slackwater.connect(server.url) as client:
            await client.execute(TABLE)
            await client.ingest("quotes", [{"symbol": "A", "price": 1.0}])
            total = await client.subscribe(SUM).ready(10)
            server.kill()
            await asyncio.to_thread(server.start)
            receipt = await client.ingest("quotes", [{"symbol": "A", "price": 7.0}])
            await total.reached(receipt.position, 20)
            assert total.value == 7.0
        keeping.cancel()


async def test_lanes_over_a_bus(nats_server: NatsServer, tmp_path: Path) -> None:
    bus = ("--nats", nats_server.url, "--nats-name", "lanes", "--keep-on", "node", "--keep-on", "query:slow=spark")
    with served(tmp_path, *bus) as (server, host):
        keeping = asyncio.create_task(host.keep_up())
        async with slackwater.connect(server.url, bus=f"{nats_server.url}/lanes") as client:
            await client.execute(TABLE)
            await client.ingest("quotes", [{"symbol": "A", "price": 1.0}])
            quick, slow = client.subscribe(SUM), client.subscribe("SUBSCRIBE slow AS SELECT MAX(price) FROM quotes")
            await asyncio.gather(quick.ready(10), slow.ready(10))
            assert (quick.value, slow.value) == (1.0, 1.0)
            assert {one.name: one.host for one in await client.subscriptions()} == {None: "node", "slow": "spark"}
        keeping.cancel()


def test_rules_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    from slackwater.core.errors import SlackwaterError

    with pytest.raises(SlackwaterError, match="no Spark host was named"):
        ServerProcess(tmp_path / "server", "--keep-on", "spark").start()
    with pytest.raises(SlackwaterError, match="write node, spark"):
        ServerProcess(tmp_path / "server", "--keep-on", "table:=node").start()
