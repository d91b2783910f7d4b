"""Rights: each principal sees its own rows alone, in whatever way it asks, and a change of them is a new epoch."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

import slackwater
from slackwater.client.cache.settings import Cache
from slackwater.client.client import Client
from slackwater.client.failures import Refused
from slackwater.core.errors import SlackwaterError
from slackwater.core.extent import Interval
from slackwater.core.labels import Labels
from slackwater.core.region import EVERYTHING, Box, Region, Side
from slackwater.core.types import Instant, Position
from slackwater.dissemination.delivery.channel import ChannelDelivery
from slackwater.server.node import Node, NodeSettings
from slackwater.server.planners.labels import LabelPlanner
from slackwater.server.store import STORE_FILE, Scope, Store
from tests.support.node_server import NodeServer, served

ROWS = "SUBSCRIBE SELECT k, v FROM t"
SUM = "SUBSCRIBE SELECT SUM(v) FROM t"
JOIN = "SUBSCRIBE SELECT t.k, u.k FROM t JOIN u ON u.v = t.v"
LOW, HIGH = (Region((Box.of(Side("v", one)),)) for one in (Interval(None, 4), Interval(5, None)))


@asynccontextmanager
async def world(tmp_path: Path, *names: str, cached: bool = False) -> AsyncIterator[tuple[NodeServer, list[Client]]]:
    """A server with a table of v from 0 to 9, of which ann may see what is below 5; a client for each name."""
    folder = tmp_path / "node"
    with Store(folder / STORE_FILE) as store:
        tokens = {name: store.create_token(name, [Scope.ADMIN], Instant(0))[1] for name in {"root", *names}}
        store.grant("ann", "T", LOW, 0)
    async with served(NodeSettings(folder)) as server, AsyncExitStack() as stack:
        root = await stack.enter_async_context(slackwater.connect(server.url, token=tokens["root"]))
        await root.execute("CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE)")
        await root.execute("CREATE TABLE u (k TEXT PRIMARY KEY, v DOUBLE)")
        await root.ingest("u", [{"k": f"u{v}", "v": float(v)} for v in range(10)])
        await root.ingest("t", [{"k": f"k{v}", "v": float(v)} for v in range(10)])
        caches = {name: Cache(name=name) if cached else None for name in names}
        made = [slackwater.connect(server.url, token=tokens[name], cache=caches[name]) for name in names]
        clients = [await stack.enter_async_context(client) for client in made]
        yield server, clients


def keys(rows: Iterable[Mapping[str, object]]) -> set[object]:
    return {row["k"] for row in rows}


UNDER_5, FROM_5, ALL = ({f"k{v}" for v in some} for some in (range(5), range(5, 10), range(10)))


async def test_each_principal_sees_its_own_rows_alone(tmp_path: Path) -> None:
    async with world(tmp_path, "ann", "bob", "cid") as (server, (ann, bob, cid)):
        await server.node.rights.grant("bob", "t", HIGH)
        for client, seen in ((ann, UNDER_5), (bob, FROM_5), (cid, ALL)):
            values = [float(str(one)[1:]) for one in seen]
            rows, total, pairs = client.subscribe(ROWS), client.subscribe(SUM), client.subscribe(JOIN)
            for one in (rows, total, pairs):
                await one.ready(30)
            assert keys(rows.rows) == seen
            assert total.value == sum(values)
            assert {row["t.k"] for row in pairs.rows} == seen
            (counted,) = await client.query("SELECT COUNT(*) AS n, SUM(v) AS s FROM t")
            assert (counted["n"], counted["s"]) == (len(seen), sum(values))
            assert keys(await client.query("SELECT t.k FROM t JOIN u ON u.v = t.v")) == seen
        assert len({one.rights for one in server.node.engine.registrations.values()}) == 3
        assert "v" in (await ann.explain(ROWS)).text


async def test_equal_rights_share_a_registration_and_others_do_not(tmp_path: Path) -> None:
    async with world(tmp_path, "ann", "bob", "cid") as (server, (ann, bob, cid)):
        await server.node.rights.grant("bob", "t", LOW)
        for client in (ann, bob, cid):
            await client.subscribe(ROWS).ready(10)
        assert sorted(one.rights.regions for one in server.node.engine.registrations.values()) == [(), (("t", LOW),)]


async def test_a_change_is_a_new_epoch_of_the_owner_and_parts_those_who_shared_it(tmp_path: Path) -> None:
    async with world(tmp_path, "ann", "bob") as (server, (ann, bob)):
        await server.node.rights.grant("bob", "t", LOW)
        own = await ann.subscribe(ROWS).ready(10)
        shared = await bob.subscribe(ROWS).ready(10)
        ((number, before),) = server.node.engine.registrations.items()
        assert before.owner == "ann"
        await server.node.rights.grant("ann", "t", HIGH)
        after = server.node.engine.registrations[number]
        assert (after.epoch, after.rights.of("t")) == (before.epoch + 1, HIGH)
        await own.wait_until(lambda _: keys(own.rows) == FROM_5, 10)
        # The other principal goes on with what it may see, under a registration of its own.
        await shared.wait_until(lambda shown: shown.certain and keys(shared.rows) == UNDER_5, 10)
        await bob.ingest("t", [{"k": "k0", "v": 3.5}, {"k": "k9", "v": 4.5}])
        await shared.wait_until(lambda _: {row["v"] for row in shared.rows} >= {3.5}, 10)
        await own.wait_until(lambda _: keys(own.rows) == FROM_5 - {"k9"}, 10)
        assert keys(shared.rows) == UNDER_5
        await server.node.rights.grant("ann", "t", EVERYTHING)
        await own.wait_until(lambda _: keys(own.rows) == ALL, 10)


async def test_a_name_is_not_a_way_around_rights(tmp_path: Path) -> None:
    async with world(tmp_path, "ann", "bob") as (_, (ann, bob)):
        await bob.execute("SUBSCRIBE all_of_it AS SELECT k, v FROM t")
        with pytest.raises(Refused, match="other rights than yours"):
            await ann.subscribe("all_of_it").ready(10)
        mine = ann.subscribe(ROWS)
        await mine.ready(10)
        assert keys(mine.rows) == UNDER_5


async def test_nothing_goes_over_shared_channels_where_rights_are_set(tmp_path: Path) -> None:
    settings = NodeSettings(tmp_path / "node", channels="memory")
    async with served(settings) as server, slackwater.connect(server.url) as client:
        await client.execute("CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE)")
        rows = client.subscribe(ROWS, delivery="channel")
        await rows.ready(10)
        await rows.reached((await client.ingest("t", [{"k": "k1", "v": 1.0}])).position, 10)
        assert rows.delivery == "channel"
        await server.node.rights.grant("ann", "t", LOW)
        channels = server.node.sessions.state.subscriptions.deliveries[1]
        assert isinstance(channels, ChannelDelivery)
        assert channels.members == 0
        await client.ingest("t", [{"k": "k2", "v": 2.0}])
        await rows.wait_until(lambda _: keys(rows.rows) == {"k1", "k2"}, 10)
        assert rows.delivery == "unicast"


async def test_a_grant_that_does_not_fit_its_table_ends_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, "bob") as (server, (bob,)):
        await bob.execute("SUBSCRIBE mine AS SELECT k, v FROM t")
        with pytest.raises(SlackwaterError, match="w"):
            await server.node.rights.grant("bob", "T", Region((Box.of(Side("w", Interval(0, 1))),)))
        assert server.node.engine.named("mine") is not None
        assert not server.node.registrar.outdated()


async def test_what_cannot_be_registered_under_new_rights_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, "bob") as (server, (bob,)):
        await bob.execute("SUBSCRIBE mine AS SELECT k, v FROM t")

        def refuse(*_: object) -> None:
            raise SlackwaterError("there is no room for it")

        monkeypatch.setattr(server.node.engine.host, "register", refuse)
        async with asyncio.timeout(10):
            await server.node.rights.grant("bob", "t", HIGH)
        assert server.node.engine.named("mine") is None


async def test_a_client_that_left_while_its_rights_changed_is_sent_the_whole_answer(tmp_path: Path) -> None:
    async with world(tmp_path, "ann") as (server, (ann,)):
        own = ann.subscribe(ROWS)
        await own.ready(10)
        await server.node.rights.grant("ann", "t", HIGH)
        (one,) = server.node.engine.registrations.values()
        # Rows under the former rights were sent up to the new registration.
        assert one.position < server.node.registrar.rights.since("ann") <= server.node.engine.position


async def test_the_number_of_rows_is_of_those_that_a_principal_may_see(tmp_path: Path) -> None:
    async with world(tmp_path) as (server, ()):
        token = server.node.store.create_token("dan", [Scope.READ], Instant(0))[1]
        await server.node.rights.grant("dan", "t", LOW)
        async with httpx.AsyncClient(base_url=server.url, headers={"authorization": f"Bearer {token}"}) as web:
            assert (await web.get("/v1/tables/t")).json()["rows"] == 5


async def test_what_stands_follows_a_change_that_was_made_while_the_node_was_down(tmp_path: Path) -> None:
    async with world(tmp_path, "bob") as (_, (bob,)):
        await bob.execute("SUBSCRIBE mine AS SELECT k, v FROM t")
    with Store(tmp_path / "node" / STORE_FILE) as store:
        token = store.create_token("again", [Scope.READ], Instant(0))[1]
        store.grant("bob", "t", HIGH, 10_000)
        store.grant("again", "t", HIGH, 10_000)
    async with served(NodeSettings(tmp_path / "node")) as server, slackwater.connect(server.url, token=token) as client:
        await client.subscribe(ROWS).ready(10)
        mine = client.subscribe("mine")
        await mine.ready(10)
        assert keys(mine.rows) == FROM_5
        (one,) = [one for one in server.node.engine.registrations.values() if one.name]
        assert (one.epoch, one.rights.of("t")) == (1, HIGH)
    node = Node(NodeSettings(tmp_path / "node"))
    try:
        assert one in node.engine.registrations.values(), "a snapshot keeps rights"
        assert one in node.store.registrations()[0]
    finally:
        node.close()


async def test_a_cache_and_its_questions_have_the_rows_of_its_owner(tmp_path: Path) -> None:
    sql = "SELECT k, v FROM t WHERE v > 1"
    async with world(tmp_path, "ann", cached=True) as (server, (ann,)):
        labels = server.node.planner(LabelPlanner)
        assert labels is not None
        assert keys(await ann.query(sql)) == {"k2", "k3", "k4"}, "pulled"
        async with asyncio.timeout(10):
            while not labels.caches():
                await asyncio.sleep(0.005)
        ((kept, cache),) = labels.caches()
        wide = Region((Box.of(Side("v", Interval(2, 8))),))
        one = Labels(cache.client, "t", kept.epoch + 1, Position(0), ("v",), wide)
        taken, _, position = await labels.take([one])
        assert taken == 1
        assert await server.node.reached(position, 10)
        ((kept, cache),) = labels.caches()
        assert cache.pushed.equals(wide.intersect(LOW)), "labels push no more than may be seen"
        assert keys(await ann.query(sql)) == {"k2", "k3", "k4"}, "partly pushed"
        await server.node.rights.grant("ann", "t", HIGH)
        ((kept, _),) = labels.caches()
        assert kept.rights.of("t") == HIGH
        assert keys(await ann.query(sql)) == FROM_5
