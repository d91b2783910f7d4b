"""A server and its clients over NATS, and what they show while the NATS server is killed under load."""

import asyncio
import importlib.util
import itertools
from pathlib import Path

import pytest

import slackwater
from slackwater.cli.up import _roles
from slackwater.client import Client, Shown, Subscription, Unauthorized
from slackwater.core import MissingPart, SlackwaterError
from slackwater.deployment.configuration import read_deployment
from slackwater.dissemination.encoding import Encoding, encode
from slackwater.dissemination.messages import VERSION, Open
from slackwater.dissemination.transports.base import Closed, Denied, How
from slackwater.dissemination.transports.nats import NatsTransport
from slackwater.server.bus import check_bus
from slackwater.server.store import STORE_FILE, Scope, Store
from slackwater.wallclock import WallClock
from tests.support.nats_server import NatsServer
from tests.support.server_process import ServerProcess

TABLE = "CREATE TABLE quotes (symbol TEXT PRIMARY KEY, price DOUBLE)"
names = (f"bus-{number}" for number in itertools.count(1))


async def test_subscriptions_over_a_bus_and_requests_by_http(nats_server: NatsServer, tmp_path: Path) -> None:
    name = next(names)
    with ServerProcess(tmp_path / "node", "--nats", nats_server.url, "--nats-name", name) as server:
        async with slackwater.connect(server.url, bus=f"{nats_server.url}/{name}") as client:
            await client.execute(TABLE)
            total = client.subscribe("SUBSCRIBE SELECT SUM(price) FROM quotes WITHIN 0")
            every = client.subscribe("SUBSCRIBE SELECT * FROM quotes")
            position = (
                await client.ingest("quotes", [{"symbol": f"S{n}", "price": float(n)} for n in range(5000)])
            ).position
            await total.reached(position, 20)
            await every.reached(position, 20)
            assert total.value == sum(range(5000))
            assert len(every.rows) == 5000
            await total.wait_until(_certain, 20)
            async with client.stream("quotes", columns=("symbol", "price")) as stream:
                await stream.send([(f"S{n}", 1.0) for n in range(5000)])
                assert stream.live
            await total.reached(stream.receipt.position, 20)
            assert (stream.receipt.accepted, total.value) == (5000, 5000)
        # No WebSocket was used: all frames went over the bus.
        assert nats_server.figures()["in_msgs"] > 0
    assert "Traceback" not in server.report()


def test_without_async_too(nats_server: NatsServer, tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "node", "--nats", nats_server.url) as server,
        slackwater.connect_sync(server.url, bus=nats_server.url) as client,
    ):
        client.execute(TABLE)
        total = client.subscribe("SUBSCRIBE SELECT SUM(price) FROM quotes WITHIN 0")
        position = client.ingest("quotes", [{"symbol": "A", "price": 2.0}]).position
        assert total.reached(position, 20).value == 2.0


async def test_a_token_is_asked_for_and_revoking_it_ends_the_session(nats_server: NatsServer, tmp_path: Path) -> None:
    folder, name = tmp_path / "node", next(names)
    with Store(folder / STORE_FILE) as store:
        _, good = store.create_token("reader", [Scope.READ, Scope.ADMIN], WallClock().now())
        _, writer = store.create_token("writer", [Scope.INGEST], WallClock().now())
    with ServerProcess(folder, "--nats", nats_server.url, "--nats-name", name) as server:
        bus = f"{nats_server.url}/{name}"
        for token, status in ((None, 401), ("sw_nonsense_x", 401), (writer, 403)):
            with pytest.raises(Denied) as denied:
                await NatsTransport({} if token is None else {"token": token}).dial(bus)
            assert denied.value.status == status
            assert b'"error"' in denied.value.body
        async with slackwater.connect(server.url, token=good, bus=bus) as client:
            await client.execute(TABLE)
            total = client.subscribe("SUBSCRIBE SELECT SUM(price) FROM quotes WITHIN 0")
            await total.ready(20)
            with Store(folder / STORE_FILE) as store:
                store.revoke_token("reader", WallClock().now())
            with pytest.raises((Unauthorized, SlackwaterError)):
                await total.wait_until(lambda shown: False, 20)


async def test_a_message_above_the_limit_ends_the_connection(nats_server: NatsServer, tmp_path: Path) -> None:
    name = next(names)
    with ServerProcess(tmp_path / "node", "--nats", nats_server.url, "--nats-name", name):
        connection = await NatsTransport({"encoding": "json"}).dial(f"{nats_server.url}/{name}")
        connection.send(encode(Open(VERSION, 0, 0), Encoding.JSON).decode())
        assert str(await connection.receive()).startswith('["welcome"')
        connection.send("x" * (1 << 20))
        with pytest.raises(Closed) as closed:
            await connection.receive()
        assert closed.value.ended.how is How.TOO_LARGE
        await connection.close()


def test_a_bus_elsewhere_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(SlackwaterError, match="without a token"):
        check_bus("nats://bus.example:4222/desk", tmp_path)
    check_bus("nats://127.0.0.1:4222/desk", tmp_path)
    with pytest.raises(SlackwaterError, match="address of a bus"):
        check_bus("http://127.0.0.1:4222/desk", tmp_path)


def test_a_bus_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(SlackwaterError, match="cannot be reached"):
        ServerProcess(tmp_path / "node", "--nats", "nats://127.0.0.1:1").start()


def test_without_the_extra_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPart, match=r"pip install 'slackwater\[nats\]'"):
        slackwater.connect("http://127.0.0.1:8400", bus="nats://127.0.0.1:4222")


def test_an_address_that_is_no_bus_is_refused() -> None:
    with pytest.raises(ValueError, match="address of a bus"):
        slackwater.connect("http://127.0.0.1:8400", bus="http://127.0.0.1:4222")


def test_a_deployment_may_use_a_bus(tmp_path: Path) -> None:
    file = tmp_path / "slackwater.toml"
    bus = 'log = "nats://localhost:4222/desk"\nnats = "nats://localhost:4222"\nnats_name = "desk"\n'
    file.write_text(f"[server]\n{bus}[followers.edge]\n")
    roles = {role.name: list(role.command()) for role in _roles(file, tmp_path, read_deployment(file))}
    told = dict(zip(roles["server"], roles["server"][1:], strict=False))
    assert told["--log"] == "nats://localhost:4222/desk"
    assert (told["--nats"], told["--nats-name"]) == ("nats://localhost:4222", "desk")
    assert dict(zip(roles["edge"], roles["edge"][1:], strict=False))["--follow"] == "nats://localhost:4222/desk"
    for more, sentence in (("[pipeline]", "reads a log in files"), ("[followers.edge]\nlog = 'nats://h/x'", "only")):
        file.write_text(f"[server]\n{bus}{more}\n")
        with pytest.raises(SlackwaterError, match=sentence):
            read_deployment(file)


class Watch:
    """Looks at subscriptions all the time and notes what must never be seen."""

    def __init__(self, *subscriptions: Subscription) -> None:
        self._subscriptions = subscriptions
        self._latest = [-1] * len(subscriptions)
        self.wrong: list[str] = []
        self.looks = 0

    async def run(self) -> None:
        while True:
            for place, one in enumerate(self._subscriptions):
                shown = one.shown
                self.looks += 1
                if shown.as_of is not None:
                    if shown.as_of < self._latest[place]:
                        self.wrong.append(f"{one!r} went back from {self._latest[place]} to {shown.as_of}")
                    self._latest[place] = shown.as_of
                if shown.certain is bool(shown.why):
                    self.wrong.append(f"certain is {shown.certain} and why is {shown.why!r}")
            await asyncio.sleep(0.005)


async def _killed_under_load(bus: NatsServer, folder: Path, kills: int) -> None:
    """Rows are sent all the time; each row is a symbol of its own, so that the count says what was lost or doubled."""
    with ServerProcess(folder, "--lease", "0.6", "--nats", bus.url) as server:
        async with (
            slackwater.connect(server.url, bus=bus.url) as one,
            slackwater.connect(server.url, bus=bus.url) as other,
        ):
            await one.execute(TABLE)
            exact = one.subscribe("SUBSCRIBE SELECT SUM(price) FROM quotes WITHIN 0")
            loose = other.subscribe("SUBSCRIBE SELECT SUM(price) FROM quotes WITHIN 50")
            count = other.subscribe("SUBSCRIBE SELECT COUNT(*) FROM quotes WITHIN 0")
            every = one.subscribe("SUBSCRIBE SELECT * FROM quotes")
            all_of_them = (exact, loose, count, every)
            changes: list[str] = []
            following = asyncio.create_task(_follow(every, changes))
            watch = Watch(*all_of_them)
            watching = asyncio.create_task(watch.run())
            sending = asyncio.create_task(_send(one))
            for subscription in all_of_them:
                await subscription.ready(20)
            for _ in range(kills):
                await asyncio.sleep(0.3)
                bus.kill()
                for subscription in all_of_them:
                    shown = await subscription.wait_until(_uncertain, 10)
                    assert "lease ended" in shown.why
                # Rows still come in by HTTP: nobody may claim to know what they did.
                before = [subscription.shown.as_of for subscription in all_of_them]
                await asyncio.sleep(0.2)
                assert [subscription.shown.as_of for subscription in all_of_them] == before
                assert not any(subscription.certain for subscription in all_of_them)
                await asyncio.to_thread(bus.start)
                for subscription in all_of_them:
                    await subscription.wait_until(_certain, 20)
            sending.cancel()
            (rows,) = await asyncio.gather(sending)
            position = (await one.ingest("quotes", [{"symbol": "last", "price": 1.0}])).position
            for subscription in all_of_them:
                await subscription.reached(position, 20)
                await subscription.wait_until(_certain, 20)
            truth = {f"S{n}": float(n) for n in range(rows)} | {"last": 1.0}
            assert {row["symbol"]: row["price"] for row in every.rows} == truth
            assert exact.value == sum(truth.values())
            assert count.value == len(truth)
            assert loose.value is not None
            assert abs(loose.value - sum(truth.values())) <= 50
            async with asyncio.timeout(10):
                while len(changes) < len(truth):
                    await asyncio.sleep(0.01)
            # Each row was told of once, also to who only follows the changes.
            assert sorted(changes) == sorted(truth)
            for task in (watching, following):
                task.cancel()
            await asyncio.gather(watching, following, return_exceptions=True)
            assert watch.looks > 100
            assert watch.wrong == []
    assert "Traceback" not in server.report()


def _certain(shown: Shown) -> bool:
    return shown.certain


def _uncertain(shown: Shown) -> bool:
    return not shown.certain


async def _send(client: Client) -> int:
    """Rows in small pieces until cancelled; returns how many were acknowledged."""
    rows = 0
    sending: asyncio.Task[object] | None = None
    try:
        while True:
            batch = [{"symbol": f"S{n}", "price": float(n)} for n in range(rows, rows + 5)]
            sending = asyncio.create_task(client.ingest("quotes", batch))
            await asyncio.shield(sending)
            rows += 5
            await asyncio.sleep(0.005)
    except asyncio.CancelledError:
        if sending is not None and not sending.done():
            await sending
            rows += 5
        return rows


async def _follow(every: Subscription, changes: list[str]) -> None:
    async for change in every:
        changes += [row["symbol"] for row in change.upserts]


async def test_a_killed_bus_leaves_the_right_answers(own_nats_server: NatsServer, tmp_path: Path) -> None:
    await _killed_under_load(own_nats_server, tmp_path / "node", kills=1)


@pytest.mark.slow
async def test_a_bus_killed_ten_times_leaves_the_right_answers(own_nats_server: NatsServer, tmp_path: Path) -> None:
    await _killed_under_load(own_nats_server, tmp_path / "node", kills=10)
