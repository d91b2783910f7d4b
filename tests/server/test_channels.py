"""Shared channels of a real server over a real bus: one publish a step for all members, and catching up."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

import slackwater
from slackwater.client import Client
from slackwater.client.live.events import ChannelMissed
from slackwater.client.live.subscription import Subscription
from slackwater.dissemination.delivery.base import CloseChannel, OpenChannel
from slackwater.dissemination.transports import TransportLimits
from slackwater.dissemination.transports.base import Unreachable
from slackwater.dissemination.transports.open_channels import open_channels
from slackwater.server.channel_host import ChannelHost
from tests.support.nats_server import NatsServer
from tests.support.server_process import ServerProcess

TABLE = "CREATE TABLE quotes (id BIGINT PRIMARY KEY, price DOUBLE, at TIMESTAMP)"
SUM = "SUBSCRIBE SELECT SUM(price) FROM quotes WITHIN 2"
ROWS = "SUBSCRIBE SELECT id, price FROM quotes WHERE price > 5"
MEMBERS = 50


@pytest.fixture
def server(nats_server: NatsServer, tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "node", "--lease", "2", "--channels", f"{nats_server.url}/desk") as running:
        yield running
    assert "Traceback" not in running.report()


def counters(server: ServerProcess) -> dict[str, int]:
    found: dict[str, int] = httpx.get(f"{server.url}/v1/metrics").json()
    return found


async def put(client: Client, number: int, price: float) -> int:
    row = {"id": number, "price": price, "at": f"2026-01-01T00:00:{number:02}Z"}
    return (await client.ingest("quotes", [row])).position


async def joined(subscription: Subscription, position: int) -> None:
    """It is delivered by a channel, and what was published before it joined has been made good."""
    await subscription.reached(position, 20)
    assert subscription.delivery == "channel"


async def test_fifty_members_are_reached_by_one_publish_a_step(server: ServerProcess) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(slackwater.connect(server.url)) for _ in range(MEMBERS)]
        first = clients[0]
        await first.execute(TABLE)
        plain = first.subscribe("SUBSCRIBE SELECT SUM(price) FROM quotes WHERE id > -1 WITHIN 2")
        sums = [client.subscribe(SUM, delivery="channel") for client in clients]
        rows = [client.subscribe(ROWS, delivery="channel") for client in clients]
        for subscription in (plain, *sums, *rows):
            await subscription.ready(20)
        position = await put(first, 0, 10.0)
        for subscription in (*sums, *rows):
            await joined(subscription, position)
        before = counters(server)
        assert before["channel_members"] == 2 * MEMBERS
        steps = 8
        for number in range(1, steps + 1):
            position = await put(first, number, 10.0 * number)
        for subscription in (plain, *sums, *rows):
            await subscription.reached(position, 20)
        after = counters(server)
        assert {one.value for one in sums} == {plain.value}
        assert all(len(one.rows) == steps + 1 for one in rows)
        assert all(one.certain for one in (*sums, *rows))
        # Beside the steps there are heartbeats, four a lease of each channel and more than once a second together.
        told = after["channel_published"] - before["channel_published"]
        assert told < 2 * steps + 100 < 2 * steps * MEMBERS
        # One member is cut off: it hears nothing, asks for the state, and has all of it.
        session = first._sessions[None]
        reader = session._channels
        happened = reader._happened
        lost = [0]

        def deaf(event: object) -> None:
            lost[0] += 1

        reader._happened = deaf
        position = await put(first, 50, 70.0)
        await sums[1].reached(position, 20)
        assert (sums[0].as_of or 0) < position
        reader._happened = happened
        for name in list(session.state.channels._joined):
            session.dispatch(ChannelMissed(name))
        for subscription in (sums[0], rows[0]):
            await subscription.reached(position, 20)
        assert sums[0].value == sums[1].value
        assert rows[0].shown.rows == rows[1].shown.rows


async def test_a_server_that_is_killed_and_a_bus_that_is_away_cost_certainty_and_nothing_else(
    own_nats_server: NatsServer, tmp_path: Path
) -> None:
    with ServerProcess(tmp_path / "node", "--lease", "1", "--channels", f"{own_nats_server.url}/desk") as server:
        async with slackwater.connect(server.url, patience=60) as client:
            await client.execute(TABLE)
            total = client.subscribe(SUM, delivery="channel")
            await total.ready(20)
            await joined(total, await put(client, 0, 10.0))
            server.kill()
            await total.wait_until(lambda shown: not shown.certain, 20)
            server.start()
            await total.wait_until(lambda shown: shown.certain, 30)
            await joined(total, await put(client, 1, 20.0))
            assert total.value == 30.0
            own_nats_server.kill()
            for number in range(2, 60):
                shown = await total.reached(await put(client, number, 30.0), 60)
                assert shown.value == 30.0 * number
                if total.delivery == "unicast":
                    break
            assert total.delivery == "unicast"


async def test_a_server_without_channels_delivers_by_unicast_and_says_so(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "node") as server:
        async with slackwater.connect(server.url) as client:
            await client.execute(TABLE)
            total = client.subscribe(SUM, delivery="channel")
            await total.reached(await put(client, 0, 10.0), 20)
            assert (total.delivery, total.value) == ("unicast", 10.0)
            with pytest.raises(ValueError, match="delivery is"):
                client.subscribe(SUM, delivery="carrier pigeon")  # type: ignore[arg-type]
        assert counters(server)["channel_published"] == 0


async def test_a_session_that_comes_while_the_node_goes_down_opens_nothing() -> None:
    host = ChannelHost("memory", TransportLimits())
    host.do(OpenChannel("before"))
    await host.close()
    host.do(CloseChannel("before"))
    host.do(OpenChannel("after"))
    with pytest.raises(Unreachable):
        await open_channels("memory").join("after", TransportLimits())
