"""The Spark lane over a log that is restored from a copy: nothing of the other history is served as certain."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import slackwater
from slackwater.client.client import Client
from slackwater.client.live.subscription import Subscription
from slackwater.core import HostKind, Placement, Position
from slackwater.core.lineage import Lineage
from slackwater.hosting.publication import Publication, PublishedStep
from slackwater.hosting.publication_log import PublicationWriter
from slackwater.hosting.step import Step
from slackwater.log.extent import LogExtent
from slackwater.pipeline.host.spark_host import SparkHost
from slackwater.processing.base import Notifications
from slackwater.server.lanes.spark import SparkLane
from slackwater.sessions.engine import NodeEngine
from slackwater.sessions.registrar import Registrar
from slackwater.sessions.router import Router
from slackwater.sessions.rules import SessionRules
from tests.support.server_process import ServerProcess
from tests.support.spark_workers import Workers

TABLE = "CREATE TABLE quotes (symbol TEXT PRIMARY KEY, price DOUBLE)"
ROWS = "SUBSCRIBE SELECT * FROM quotes WHERE price > 0"
NOT_COPIED = shutil.ignore_patterns("durable", "lock")


@asynccontextmanager
async def hosted(host: SparkHost) -> AsyncIterator[None]:
    """The host at work."""

    async def work() -> None:
        while True:
            host.batch()
            await asyncio.sleep(0.005)

    working = asyncio.create_task(work())
    try:
        yield
    finally:
        working.cancel()


async def ingest(client: Client, prefix: str, count: int) -> None:
    await client.ingest("quotes", [{"symbol": f"{prefix}{n}", "price": 1.0 + n} for n in range(count)])


LOST = {f"lost{n}" for n in range(5)}
LEASE = 0.6


def symbols(subscription: Subscription) -> set[object]:
    return {row["symbol"] for row in subscription.rows}


async def test_rows_of_a_history_that_was_lost_are_not_shown(tmp_path: Path) -> None:
    log, folder = tmp_path / "server" / "log", tmp_path / "spark"
    server = ServerProcess(tmp_path / "server", "--lease", str(LEASE), "--spark", str(folder))
    server.start()
    try:
        async with slackwater.connect(server.url) as former:
            await former.execute(TABLE)
            await ingest(former, "both", 2)
            with SparkHost(log, folder, Workers(1), shards=1) as host:
                async with hosted(host):
                    held = await former.subscribe(ROWS).ready(10)
                    assert symbols(held) == {"both0", "both1"}
                    shutil.copytree(log, tmp_path / "copy", ignore=NOT_COPIED)
                    await ingest(former, "lost", 5)
                    await held.wait_until(lambda one: len(one.rows or ()) == 7, 10)
            server.kill()
            shutil.rmtree(log)
            (tmp_path / "copy").rename(log)
            shutil.rmtree(tmp_path / "server" / "snapshots", ignore_errors=True)
            await asyncio.to_thread(server.start)
            await asyncio.sleep(LEASE)
            async with slackwater.connect(server.url) as client:
                await ingest(client, "new", 20)
                shown = client.subscribe(ROWS)

                def nothing_lost() -> None:
                    assert not symbols(shown) & LOST
                    assert not (held.certain and symbols(held) & LOST)

                # The host is away: what it published is of use up to the copy at most.
                for _ in range(100):
                    await asyncio.sleep(0.01)
                    nothing_lost()
                with SparkHost(log, folder, Workers(2), shards=1) as host:
                    async with hosted(host), asyncio.timeout(30):
                        for one in (shown, held):
                            while not (one.certain and len(one.rows) == 22):
                                await asyncio.sleep(0.01)
                                nothing_lost()
                assert {str(symbol)[:3] for symbol in symbols(held)} == {"bot", "new"}
        assert (folder / "aside" / "said").is_dir()
    finally:
        server.stop()
    assert "Traceback" not in server.report()


class Bench:
    """A lane over a log whose lineage and end are set by hand."""

    def __init__(self, folder: Path) -> None:
        engine = NodeEngine()
        registrar = Registrar(engine, router=Router(lambda: engine.registry, Placement(), frozenset(HostKind)))
        self.seen = LogExtent(Lineage().begin(7, Position(0)), Position(40))
        rules = SessionRules(host=HostKind.SPARK)
        self.lane = SparkLane(
            folder, "n", 1, rules, registrar, lambda append: None, lambda: int(self.seen.end), lambda: self.seen
        )
        self.lane.start()

    async def until_position(self, position: int) -> None:
        async with asyncio.timeout(10):
            while self.lane.engine.position != position or self.lane.sessions.state.position != position:
                await asyncio.sleep(0.01)

    async def until_doubt(self, word: str | None) -> None:
        async with asyncio.timeout(10):
            while (self.lane._doubt is None) if word is not None else (self.lane._doubt is not None):
                await asyncio.sleep(0.01)
        assert word is None or word in str(self.lane._doubt)
        assert self.lane.sessions.state._doubt == self.lane._doubt


def published(writer: PublicationWriter, end: int, incarnation: int) -> None:
    step = PublishedStep(Step(Notifications(Position(end))))
    writer.publish(Publication(writer.generation, writer.replica.position, Position(end), (step,), incarnation))


async def test_a_lane_whose_history_is_replaced_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    farewells: list[str] = []
    monkeypatch.setattr(bench.lane.sessions, "farewell_to_all", farewells.append)
    following = asyncio.create_task(bench.lane.follow())
    with PublicationWriter(tmp_path) as writer:
        published(writer, 20, 7)
        writer.write_snapshot()
        published(writer, 40, 7)
        await bench.until_position(40)
        # Ahead of what this server sees of its log: no other history.
        published(writer, 50, 7)
        await asyncio.sleep(0.1)
        assert bench.lane.engine.position == 40
        assert bench.lane._doubt is None
        bench.seen = LogExtent(bench.seen.lineage, Position(50))
        await bench.until_position(50)
        assert not farewells
        # Restored from a copy of 30 positions, and written to since.
        bench.seen = LogExtent(bench.seen.lineage.begin(8, Position(30)), Position(60))
        await bench.until_position(20)
        assert "history of the log was replaced; come again" in farewells[0]
        await bench.until_doubt("another history")
        del farewells[:]
        writer.begin_anew()
        published(writer, 60, 8)
        await bench.until_position(60)
        assert "begun anew; come again" in farewells[0]
        await bench.until_doubt(None)
    assert not following.done()
    following.cancel()


async def test_a_lane_over_a_log_that_lost_its_end_is_in_doubt(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    following = asyncio.create_task(bench.lane.follow())
    with PublicationWriter(tmp_path) as writer:
        published(writer, 40, 7)
        await bench.until_position(40)
        # A copy that no writer has opened yet.
        bench.seen = LogExtent(bench.seen.lineage, Position(30))
        await bench.until_doubt("the log ends before position 40")
        bench.seen = LogExtent(bench.seen.lineage, Position(45))
        await bench.until_doubt(None)
    following.cancel()
