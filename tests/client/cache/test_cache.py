"""The cache against a real server: every answer is the server's, and messages are what the plan says."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import slackwater
from experiments.live_caches import Loaded, Replayed, load, replay
from slackwater.client import Answer, Client
from slackwater.client.cache.copy import Copy
from slackwater.client.cache.settings import Cache
from slackwater.client.cache.table import CachedTable
from slackwater.client.live.events import ClockTick
from slackwater.client.planned.service import Network
from slackwater.core.errors import SlackwaterError, SqlError
from slackwater.core.extent import Interval
from slackwater.core.labels import Labels, labels_line
from slackwater.core.region import EVERYTHING, Box, Region, Side
from slackwater.core.types import Position
from slackwater.dissemination.transports.base import Connection, TransportError, TransportLimits, Unreachable
from tests.support.server_process import ServerProcess

CARS = "CREATE TABLE cars (id BIGINT PRIMARY KEY, make TEXT, price DOUBLE, at TIMESTAMP)"
LINES = {"content-type": "application/x-ndjson"}


def between(low: float | None, high: float | None) -> Region:
    return Region((Box.of(Side("price", Interval(low, high))),))


def cars(many: int = 60) -> list[dict[str, Any]]:
    return [
        {
            "id": n,
            "make": "abc"[n % 3] if n % 7 else None,
            "price": float(n) if n % 11 else None,
            "at": f"2026-01-01T00:00:{n:02}Z",
        }
        for n in range(many)
    ]


def same(one: Answer, other: Answer) -> bool:
    return one.columns == other.columns and sorted(map(repr, one.rows)) == sorted(map(repr, other.rows))


class Shop:
    """A client with a cache of cars under these labels, and a client without; SQL says `cars` for the table."""

    def __init__(self, server: ServerProcess, table: str, name: str) -> None:
        self.server, self.table, self.name = server, table, name
        self.client: Client
        self.plain: Client

    def sql(self, text: str) -> str:
        return text.replace("cars", self.table)

    async def ask(self, text: str, **named: Any) -> Answer:
        return await self.client.query(self.sql(text), **named)

    async def truth(self, text: str) -> Answer:
        return await self.plain.query(self.sql(text))

    async def ingest(self, rows: list[dict[str, Any]], **named: Any) -> int:
        return (await self.plain.ingest(self.table, rows, **named)).position

    @property
    def own(self) -> CachedTable:
        own = self.client.cache.state.cached(self.table)
        assert own is not None
        return own

    @property
    def listed(self) -> dict[str, Any]:
        caches = httpx.get(f"{self.server.url}/v1/caches").json()["caches"]
        (found,) = [one for one in caches if one["client"] == self.name]
        return dict(found)

    def labels(self, pushed: Region, epoch: int = 1, client: str | None = None) -> str:
        return labels_line(Labels(client or self.name, self.table, epoch, Position(0), ("make", "price"), pushed))

    def give(self, lines: str) -> httpx.Response:
        return httpx.post(f"{self.server.url}/v1/caches/labels", content=lines, headers=LINES)

    async def labelled(self, epoch: int) -> None:
        async with asyncio.timeout(120):
            while (own := self.client.cache.state.cached(self.table)) is None or own.epoch is None or own.epoch < epoch:
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def shop(server: ServerProcess, name: str, pushed: Region | None = None, **options: Any) -> AsyncIterator[Shop]:
    made = Shop(server, f"cars_{name}", name)
    options = {"cache": slackwater.Cache(name=name), **options}
    async with slackwater.connect(server.url, **options) as made.client, slackwater.connect(server.url) as made.plain:
        await made.plain.execute(made.sql(CARS))
        await made.ingest(cars())
        await made.ask("SELECT * FROM cars WHERE price < 0")
        await made.labelled(0)
        if pushed is not None:
            assert made.give(made.labels(pushed)).json()["taken"] == 1
            await made.labelled(1)
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose leases do not end on a busy machine; labels are those that are given."""
    with ServerProcess(tmp_path_factory.mktemp("cache") / "node", "--relabel", "0", "--lease", "120") as server:
        yield server
    assert "Traceback" not in server.report()


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that hears from its clients often, and learns."""
    with ServerProcess(tmp_path_factory.mktemp("quick") / "node", "--relabel", "40", "--lease", "1.5") as server:
        yield server
    assert "Traceback" not in server.report()


QUESTIONS = (
    "SELECT * FROM cars WHERE price BETWEEN 10 AND 20",
    "SELECT price, id FROM cars WHERE price > 12 AND price <= 19.5 AND make <> 'a'",
    "SELECT id FROM cars WHERE price BETWEEN 10 AND 20 AND make IS NULL",
    "SELECT COUNT(*) FROM cars WHERE price BETWEEN 10 AND 20",
    "SELECT COUNT(make) AS named FROM cars WHERE price BETWEEN 10 AND 20",
    "SELECT SUM(id) FROM cars WHERE price BETWEEN 10 AND 20",
    "SELECT SUM(price) FROM cars WHERE price = 10.5",
    "SELECT MIN(make) FROM cars WHERE price BETWEEN 10 AND 20",
    "SELECT MAX(at) FROM cars WHERE price BETWEEN 10 AND 20",
    "SELECT AVG(price) AS mean FROM cars WHERE price BETWEEN 10 AND 20",
    "SELECT make, COUNT(*) AS n FROM cars WHERE price BETWEEN 10 AND 20 GROUP BY make ORDER BY make NULLS LAST",
    "SELECT id * 2 AS twice FROM cars WHERE price BETWEEN 10 AND 20 AND id % 2 = 0 ORDER BY id DESC LIMIT 3",
    "SELECT DISTINCT make FROM cars WHERE price BETWEEN 10 AND 20",
)


async def test_all_kinds_of_questions_are_answered_at_home_as_the_server_does(shared: ServerProcess) -> None:
    async with shop(shared, "kinds", between(10, 20)) as made:
        asked = made.client.cache.counts["asked"]
        for sql in QUESTIONS:
            assert same(await made.ask(sql), await made.truth(sql)), sql
        assert made.client.cache.counts["answered at home"] == len(QUESTIONS)
        assert made.client.cache.counts["asked"] == asked
        assert made.client.cache.counts["left to the server"] == 0


async def test_what_is_not_pushed_is_asked_for_and_put_together(shared: ServerProcess) -> None:
    async with shop(shared, "parts", between(10, 20)) as made:
        counts = made.client.cache.counts
        rows = counts["rows in replies"]
        for sql in (
            "SELECT * FROM cars WHERE price BETWEEN 15 AND 25",
            "SELECT id, price FROM cars",
            "SELECT id + 1 AS next FROM cars WHERE price BETWEEN 5 AND 12 ORDER BY next",
        ):
            assert same(await made.ask(sql), await made.truth(sql)), sql
        # 21..25 without 22, all rows but 10..20 without 11, and 5..9: rows that are pushed are not sent again.
        assert counts["rows in replies"] - rows == 4 + (60 - 10) + 5
        many = ", ".join(str(2 * number) for number in range(900))
        sql = f"SELECT id FROM cars WHERE id IN ({many}) AND price IS NOT NULL"
        assert same(await made.ask(sql), await made.truth(sql))
        assert counts["left to the server"] == 1, "a region of many boxes does not fit into a message"
        sql = "SELECT make, SUM(price) FROM cars WHERE price > 5 GROUP BY make"
        assert same(await made.ask(sql), await made.truth(sql))
        assert counts["left to the server"] == 2
        with pytest.raises(SqlError):
            await made.ask("SELECT nonsense FROM cars")


async def test_pushes_arrive_and_rows_that_leave_go(shared: ServerProcess) -> None:
    async with shop(shared, "pushes", between(10, 20)) as made:
        sql = "SELECT id FROM cars WHERE price BETWEEN 10 AND 20"
        for row, expected in (
            ({"id": 12, "price": 99.0}, {*range(10, 21)} - {11, 12}),
            ({"id": 99, "price": 15.0}, {*range(10, 21), 99} - {11, 12}),
        ):
            position = await made.ingest([row])
            found = await made.ask(sql, after=position)
            assert {row["id"] for row in found} == expected
            assert found.as_of >= position
        position = await made.ingest([{"id": 99}], delete=True)
        assert 99 not in {row["id"] for row in await made.ask(sql, after=position)}
        assert made.client.cache.counts["pushed"] == 3


async def test_what_was_found_is_found_once_while_no_row_changes(
    shared: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Region] = []
    usual = Copy.select

    def select(copy: Copy, region: Region) -> Any:
        looked.append(region)
        return usual(copy, region)

    monkeypatch.setattr(Copy, "select", select)
    async with shop(shared, "twice", between(10, 20)) as made:
        for sql in (
            "SELECT id, price FROM cars WHERE price BETWEEN 10 AND 20",
            "SELECT MAX(price) FROM cars WHERE price <= 20 AND price >= 10",
        ):
            first = await made.ask(sql)
            first.rows[0].clear()
            looked.clear()
            again = await made.ask(sql)
            assert not looked
            assert same(again, await made.truth(sql)), "rows that were given are the program's own"
            position = await made.ingest([{"id": 12, "price": 10.5 + len(sql) / 100}])
            assert same(await made.ask(sql, after=position), await made.truth(sql))
            assert looked
        # The time, and chance, are not in the rows.
        for _ in range(2):
            looked.clear()
            await made.ask("SELECT id, random() FROM cars WHERE price BETWEEN 10 AND 20")
            assert looked


async def test_explain_and_the_map_say_which_regions_come_from_where(shared: ServerProcess) -> None:
    async with shop(shared, "told", between(10, 20)) as made:
        told = str(await made.client.explain(made.sql("SELECT * FROM cars WHERE price BETWEEN 15 AND 25")))
        assert "pushed: price in [15.0, 20" in told
        assert "pulled: price in (20" in told
        lines = [row["explanation"].strip() for row in await made.ask("EXPLAIN SELECT id FROM cars WHERE price = 12")]
        assert "pulled: nothing" in lines
        assert any(line.startswith("answered: from the cache, as of") for line in lines)
        drawn, listed = made.client.cache.map(made.table), made.listed
        assert drawn.plain()["pushed"] == listed["pushed"] == [[["price", "interval", 10, 20, False, False]]]
        assert (drawn.rows, listed["rows"], listed["limit"], listed["epoch"]) == (10, 10, 100_000, 1)
        picture = httpx.get(f"{shared.url}/v1/caches/{listed['number']}/map")
        assert picture.headers["content-type"].startswith("image/svg+xml")
        assert picture.text.startswith("<svg")
        assert drawn.svg().startswith("<svg")
        assert httpx.get(f"{shared.url}/v1/caches/999999/map").status_code == 404


async def test_labels_that_are_late_or_wrong_change_nothing(shared: ServerProcess) -> None:
    async with shop(shared, "late", between(10, 20)) as made:
        lines = f"{made.labels(EVERYTHING)}\n{made.labels(EVERYTHING, 9, 'nobody')}\n"
        assert made.give(lines).json()["passed_over"] == 2
        assert made.give("nonsense").status_code == 400
        unfit = Region((Box.of(Side("make", Interval(1, 2))),))
        assert made.give(made.labels(unfit, 7)).status_code in (400, 422)
        other = httpx.post(f"{shared.url}/v1/caches/labels", content=lines, headers={"content-type": "text/plain"})
        assert other.status_code == 415
        assert (made.own.epoch, made.own.region) == (1, between(10, 20))


async def test_a_cache_without_room_gives_regions_up_and_the_plan_follows(quick: ServerProcess) -> None:
    async with shop(quick, "room", cache=slackwater.Cache(rows=20, name="room")) as made:
        assert made.give(made.labels(Region.of([*between(0, 30), *between(40, 45)]))).json()["taken"] == 1
        await made.labelled(2)
        assert made.own.region.equals(between(40, 45))
        assert (made.listed["epoch"], made.listed["rows"]) == (2, 5)
        for low, high in ((1, 5), (41, 43), (29, 42)):
            sql = f"SELECT * FROM cars WHERE price BETWEEN {low} AND {high}"
            assert same(await made.ask(sql), await made.truth(sql))


async def test_a_table_that_grows_or_goes(shared: ServerProcess) -> None:
    async with shop(shared, "grows", between(10, 20)) as made:
        sql = "SELECT * FROM cars WHERE price BETWEEN 10 AND 20"
        assert len((await made.ask(sql)).columns.names) == 4
        await made.plain.execute(made.sql(CARS).replace("TIMESTAMP)", "TIMESTAMP, extra TEXT)"))
        told = await made.truth(sql)
        assert "extra" in told.columns.names
        assert same(await made.ask(sql, after=told.as_of), told)
        await made.labelled(2)
        home = made.client.cache.counts["answered at home"]
        assert same(await made.ask(sql), told)
        assert made.client.cache.counts["answered at home"] == home + 1
        await made.plain.execute(made.sql("DROP TABLE cars"))
        await asyncio.sleep(0.3)
        with pytest.raises(SlackwaterError):
            await made.ask(sql)


async def test_rows_of_a_table_whose_columns_are_others_now_are_not_read_by_their_places(shared: ServerProcess) -> None:
    make = "CREATE TABLE spans (id BIGINT PRIMARY KEY, {} DOUBLE, {} DOUBLE)"
    sql = "SELECT id, low FROM spans WHERE id < 5"
    async with (
        slackwater.connect(shared.url) as plain,
        slackwater.connect(shared.url, cache=Cache(name="spans")) as client,
    ):
        for names in (("low", "high"), ("high", "low")):
            await plain.execute(make.format(*names))
            receipt = await plain.ingest("spans", [{"id": n, "low": n / 2, "high": 99.0} for n in range(9)])
            told = await client.query(sql, after=receipt.position)
            assert [row["low"] for row in sorted(told.rows, key=lambda row: row["id"])] == [0.0, 0.5, 1.0, 1.5, 2.0]
            await plain.execute("DROP TABLE spans")


async def test_without_a_lease_nothing_is_answered_from_the_cache_and_labels_outlive_the_server(tmp_path: Path) -> None:
    sql = "SELECT id FROM cars WHERE price BETWEEN 10 AND 20"
    with ServerProcess(tmp_path / "node", "--relabel", "0", "--lease", "1") as server:
        async with shop(server, "lease", between(10, 20), patience=1.0) as made:
            assert len(await made.ask(sql)) == 10
            server.kill()
            await asyncio.sleep(1.2)
            with pytest.raises(Unreachable):
                await made.ask(sql)
            server.start()
            home = made.client.cache.counts["answered at home"]
            async with asyncio.timeout(120):
                while made.client.cache.counts["answered at home"] < home + 3:
                    with contextlib.suppress(Unreachable):
                        assert len(await made.ask(sql)) == 10
                    await asyncio.sleep(0.05)
            assert (made.own.epoch, made.own.region) == (1, between(10, 20))


async def test_labels_are_learnt(quick: ServerProcess) -> None:
    sql = "SELECT * FROM cars WHERE price BETWEEN 10 AND 20"
    async with shop(quick, "learns") as made:
        counts = made.client.cache.counts
        async with asyncio.timeout(120):
            while not counts["answered at home"]:
                for _ in range(20):
                    await made.ask(sql)
                # Far away things change all the time: there it is not worth being told.
                await made.ingest([{"id": 55, "price": 55.0 + counts["asked"]}])
            while counts["report bytes"] == 0:
                await made.ask(sql)
                await asyncio.sleep(0.02)
            while made.listed["home"] == 0:
                await asyncio.sleep(0.05)
        assert made.listed["pushed"] == [[["price", "interval", 10.0, 20.0, False, False]]]
        # The first question came before the cache was granted, and is of no cache.
        assert made.listed["pulled"] >= counts["asked"] - 1


async def test_a_cache_has_a_name_and_room() -> None:
    with pytest.raises(ValueError, match="letters"):
        slackwater.Cache(name="two words")
    with pytest.raises(ValueError, match="room"):
        slackwater.Cache(rows=0)
    with pytest.raises(SlackwaterError, match="there is no cache"):
        slackwater.connect("http://localhost:1").cache.map("cars")


# Many clients.


def replayed(folder: Path, **sizes: int) -> Replayed:
    with ServerProcess(folder / "node", "--relabel", "0", "--lease", "60") as server:
        made = asyncio.run(replay(server.url, **sizes))
    assert made.wrong == ()
    assert made.back == 0
    assert made.answers == sizes["clients"] * sizes["events"]
    assert made.asked_again == 0
    assert (made.pushes, made.pulls) == (made.planned_pushes, made.planned_pulls)
    assert made.pushes + made.pulls == made.planned
    assert made.pushes > 0
    assert made.pulls > 0
    return made


def loaded(folder: Path, queries: int, clients: int) -> Loaded:
    with ServerProcess(folder / "node", "--relabel", "50", "--lease", "5") as server:
        made = asyncio.run(load(server.url, queries, clients))
    assert made.wrong == ()
    assert made.back == 0
    assert made.answers >= queries
    assert made.counts["answered at home"] > 0
    assert made.updates > 0
    return made


def test_messages_are_what_the_plan_says(tmp_path: Path) -> None:
    replayed(tmp_path, clients=4, events=20, updates=30, rows=120)


def test_every_answer_is_right(tmp_path: Path) -> None:
    loaded(tmp_path, 300, 3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_messages_of_fifty_clients_are_what_the_plan_says(tmp_path: Path) -> None:
    replayed(tmp_path, clients=50, events=40, updates=300, rows=300)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_thousand_answers_of_fifty_clients_are_right(tmp_path: Path) -> None:
    loaded(tmp_path, 20_000, 50)


async def test_what_another_session_of_the_same_log_delivered_counts_as_seen() -> None:
    class Nobody:
        async def dial(self, address: str, limits: TransportLimits) -> Connection:
            raise TransportError("nobody is there")

    async with Client("http://127.0.0.1:1", transport=Nobody(), cache=Cache()) as client:
        lane = client._lane("spark")
        lane.state.as_of = 40
        lane.dispatch(ClockTick())
        assert client.cache.state.seen == 40
        client._network = Network(client._addresses, (Nobody(), Nobody()), client._requests, client._elsewhere)
        client._network.saw = client._saw
        for nodes, position in (((), 50), (("http://127.0.0.1:2",), 60)):
            part = client._network.session(nodes)
            part.state.as_of = position
            part.dispatch(ClockTick())
        assert client.cache.state.seen == 50, "an aggregator has positions of its own"
