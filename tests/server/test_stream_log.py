"""Nodes whose log is a stream on a bus: one writes it, another follows, and everything is killed in between."""

import asyncio
from pathlib import Path

import pytest

import slackwater
from slackwater.client import Client
from slackwater.core import SlackwaterError
from slackwater.log.jetstream import JetStreamLog
from tests.support.nats_server import NatsServer
from tests.support.server_process import ServerProcess

TABLE = "CREATE TABLE quotes (symbol TEXT PRIMARY KEY, price DOUBLE)"


async def test_a_node_writes_a_stream_and_another_follows_it(own_nats_server: NatsServer, tmp_path: Path) -> None:
    stream = f"{own_nats_server.url}/desk"
    with (
        ServerProcess(tmp_path / "writer", "--lease", "1", "--log", stream) as writer,
        ServerProcess(tmp_path / "follower", "--lease", "1", "--follow", stream) as follower,
    ):
        assert not (tmp_path / "writer" / "log").exists()
        async with slackwater.connect(writer.url) as client, slackwater.connect(follower.url) as reader:
            await client.execute(TABLE)
            position = (await client.ingest("quotes", [{"symbol": "A", "price": 1.0}])).position
            total = client.subscribe("SUBSCRIBE SELECT SUM(price) FROM quotes WITHIN 0")
            assert (await reader.query("SELECT SUM(price) AS s FROM quotes", after=position)).value == 1.0
            assert (await total.reached(position, 20)).value == 1.0
            # A second writer is refused; the message names the first.
            with pytest.raises(SlackwaterError, match="is being written by process"):
                ServerProcess(tmp_path / "second", "--log", stream).start()
            # The bus is killed while rows come in: they wait, and are taken once.
            sending = asyncio.create_task(_send(client, 200))
            await asyncio.sleep(0.1)
            own_nats_server.kill()
            await asyncio.sleep(0.3)
            await asyncio.to_thread(own_nats_server.start)
            position = await sending
            assert (await total.reached(position, 20)).value == 1.0 + sum(range(200))
            answer = await reader.query("SELECT SUM(price) AS s FROM quotes", after=position)
            assert answer.value == 1.0 + sum(range(200))
            # So is the writer, whose memory of what it took lies in its folder, and whose log does not.
            writer.kill()
            await asyncio.to_thread(writer.start)
            position = await _send(client, 200, source="again")
            assert (await client.query("SELECT COUNT(*) AS n FROM quotes", after=position)).value == 201
    for server in (writer, follower):
        assert "Traceback" not in server.report()
    with JetStreamLog(stream, read_only=True) as log:
        assert log.end == position


async def _send(client: Client, rows: int, source: str = "desk") -> int:
    position = 0
    for n in range(0, rows, 5):
        batch = [{"symbol": f"S{k}", "price": float(k)} for k in range(n, n + 5)]
        position = (await client.ingest("quotes", batch, source=source, first=n)).position
    return position


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    for arguments, sentence in (
        (("--log", "nats://127.0.0.1:1/desk"), "no NATS server answers"),
        (("--log", "nats://127.0.0.1:4222"), "needs a name"),
        (("--log", str(tmp_path / "log")), "is for a stream"),
    ):
        with pytest.raises(SlackwaterError, match=sentence):
            ServerProcess(tmp_path / "node", *arguments).start()
