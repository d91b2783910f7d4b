"""Rows over a live connection of a real server: durable, in order, once, refused by name; sessions live on."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from websockets.sync.client import ClientConnection, connect

import slackwater
from slackwater.core.errors import LogFull, OutcomeUnknown
from slackwater.dissemination.encoding import Encoding, decode_from_node, encode
from slackwater.dissemination.messages import (
    VERSION,
    Ack,
    ArrowRows,
    ColumnRows,
    Frame,
    Ingest,
    Ingested,
    IngestRefused,
    IngestWindow,
    Message,
    Open,
    Welcome,
)
from slackwater.dissemination.transports.base import TransportLimits
from slackwater.dissemination.transports.memory import pair
from slackwater.server.access import Caller
from slackwater.server.group_commit import Busy
from slackwater.server.live import Live
from slackwater.server.node import NodeSettings
from slackwater.sessions.rules import SessionRules
from tests.support.node_server import served
from tests.support.server_process import ServerProcess


class Sender:
    """A raw live connection."""

    def __init__(self, socket: ClientConnection, encoding: Encoding) -> None:
        self._socket, self._encoding = socket, encoding
        self.send(Open(VERSION, 0, 0))
        welcome = self.answer(Welcome)
        self.window: IngestWindow | None = welcome.ingest

    def send(self, message: Message) -> None:
        data = encode(message, self._encoding)
        self._socket.send(data if self._encoding is Encoding.MESSAGEPACK else data.decode())

    def answer(self, *kinds: type) -> Any:
        while True:
            message = decode_from_node(self._socket.recv(timeout=10), self._encoding)
            if isinstance(message, kinds):
                return message

    def acknowledged(self, stream: int, until: int) -> tuple[int, int, int, int]:
        """Sums of what the acknowledgements count, up to a number."""
        accepted = quarantined = repeats = position = 0
        while True:
            message = self.answer(Ingested, IngestRefused)
            assert isinstance(message, Ingested), message
            if message.stream != stream:
                continue
            accepted, quarantined = accepted + message.accepted, quarantined + message.quarantined
            repeats, position = repeats + message.repeats, message.position
            if message.next >= until:
                assert message.next == until
                return accepted, quarantined, repeats, position


@contextmanager
def sender(
    server: ServerProcess, encoding: Encoding = Encoding.MESSAGEPACK, token: str | None = None
) -> Iterator[Sender]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with connect(f"{server.live_url}?encoding={encoding.value}", additional_headers=headers) as socket:
        yield Sender(socket, encoding)


@pytest.fixture(scope="module")
def rows_server(server: ServerProcess) -> ServerProcess:
    sql = "CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE)"
    httpx.post(f"{server.url}/v1/tables", json={"sql": sql}).raise_for_status()
    return server


def one(first: int, source: str, k: str, v: Any, stream: int = 1, table: str = "t") -> Ingest:
    return Ingest(stream, table, source, first, 1, ColumnRows(("k", "v"), ([k], [v])))


def latest(web: httpx.Client, position: int) -> dict[str, Any]:
    answer = web.post("/v1/query", json={"sql": "SELECT k, v FROM t", "after": position}).raise_for_status()
    return dict(answer.json()["rows"])


@pytest.mark.parametrize("encoding", Encoding)
def test_rows_are_taken_in_order_and_once(rows_server: ServerProcess, web: httpx.Client, encoding: Encoding) -> None:
    source = f"in order {encoding.value}"
    messages = [one(number, source, "a" if number % 2 else "b", float(number)) for number in range(500)]
    for again in (False, True):
        with sender(rows_server, encoding) as live:
            for message in messages:
                live.send(message)
            accepted, quarantined, repeats, position = live.acknowledged(1, 500)
        assert (accepted, quarantined, repeats) == ((0, 0, 500) if again else (500, 0, 0))
    found = latest(web, position)
    assert (found["a"], found["b"]) == (499.0, 498.0)


@pytest.mark.parametrize("encoding", Encoding)
def test_arrow_rows_deletions_and_quarantine(rows_server: ServerProcess, web: httpx.Client, encoding: Encoding) -> None:
    batch = pa.RecordBatch.from_pydict({"k": ["x", "y", "z"], "v": [1.0, 2.0, 3.0]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    source = f"forms {encoding.value}"
    with sender(rows_server, encoding) as live:
        live.send(Ingest(1, "t", source, 10, 3, ArrowRows(sink.getvalue().to_pybytes())))
        live.send(Ingest(1, "t", source, 13, 1, ColumnRows(("k",), (["y"],)), deletes=True))
        live.send(Ingest(1, "t", source, 14, 2, ColumnRows(("k", "v"), ([None, "z"], [1.0, "many"]))))
        accepted, quarantined, repeats, position = live.acknowledged(1, 16)
    assert (accepted, quarantined, repeats) == (4, 2, 0)
    found = latest(web, position)
    assert (found["x"], found["z"], "y" in found) == (1.0, 3.0, False)
    refused = web.get("/v1/tables/t/quarantine").json()["rows"]
    assert {row["sequence"] for row in refused if row["source"] == source} == {14, 15}


def test_a_refused_stream_ends_alone(rows_server: ServerProcess) -> None:
    with sender(rows_server) as live:
        live.send(one(0, "s", "a", 1.0, stream=1, table="nowhere"))
        refusal = live.answer(IngestRefused)
        assert (refusal.stream, refusal.code, refusal.status, refusal.again) == (1, "not_found", 404, False)
        live.send(Ingest(2, "t", "s", 0, 1, ArrowRows(b"nonsense")))
        assert live.answer(IngestRefused).code == "bad_request"
        live.send(Ingest(3, "t", "s", 0, 1, ColumnRows(("k",), (["a"],)), timezone="Atlantis"))
        assert "Atlantis" in live.answer(IngestRefused).why
        live.send(one(0, "alone", "a", 1.0, stream=4))
        assert live.acknowledged(4, 1)[0] == 1
        live.send(Ack(0, 17))
        assert live.answer(Frame).session


def test_more_than_the_window_is_refused_by_name(folder: Any) -> None:
    with ServerProcess(folder, "--limit", "ingest_rows=10") as server:
        sql = "CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE)"
        httpx.post(f"{server.url}/v1/tables", json={"sql": sql}).raise_for_status()
        with sender(server) as live:
            assert live.window is not None
            assert live.window.rows == 10
            live.send(Ingest(1, "t", "s", 0, 11, ColumnRows(("k",), ([str(n) for n in range(11)],))))
            assert live.answer(IngestRefused).code == "window"
        with slackwater.connect_sync(server.url) as client, client.stream("t", columns=("k", "v")) as stream:
            # The client's library cuts rows to the window.
            stream.send([(str(number), 1.0) for number in range(50)])
            assert stream.flush().accepted == 50
        metrics = httpx.get(f"{server.url}/v1/metrics").json()
        assert metrics["ingest_messages"] > metrics["ingest_changes"] >= 5
        assert (metrics["ingest_refusals"], metrics["ingest_rows"]) == (1, 50)
        assert metrics["ingest_waiting_bytes"] == 0


async def test_a_slow_disk_holds_up_neither_leases_nor_answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = asyncio.Event()
    settings = NodeSettings(folder, rules=SessionRules(lease=600_000, heartbeat=100_000))
    async with served(settings) as server, slackwater.connect(server.url) as client:
        await client.execute("CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE)")
        total = client.subscribe("SUBSCRIBE SELECT SUM(v) FROM t WITHIN 0")
        await total.ready()
        change = server.node.change

        async def slow(work: Any, rows: int = 1) -> Any:
            await disk.wait()
            return await change(work, rows)

        monkeypatch.setattr(server.node, "change", slow)
        async with client.stream("t", columns=("k", "v")) as stream:
            for number in range(500):
                await stream.send([(str(number), 1.0)])
            # The lease is renewed for longer than it lasts, and questions are answered.
            state = client._lane(None).state
            begin = state.until
            while state.until < begin + 1_200_000:
                await asyncio.sleep(0.02)
            assert (await client.query("SELECT COUNT(*) FROM t")).value == 0
            assert stream.acknowledged == 0
            assert server.node.ingest_totals.waiting > 0
            disk.set()
            receipt = await stream.flush()
        await total.reached(receipt.position)
        assert (total.value, server.node.ingest_totals.waiting) == (500.0, 0)


async def test_a_writer_that_is_busy_is_asked_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([Busy("400,000 rows are waiting"), LogFull("no space"), OutcomeUnknown("who knows")])
    async with served(NodeSettings(folder)) as server, slackwater.connect(server.url) as client:
        await client.execute("CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE)")
        change = server.node.change

        async def failing(work: Any, rows: int = 1) -> Any:
            failure = next(failures, None)
            if failure is not None:
                raise failure
            return await change(work, rows)

        monkeypatch.setattr(server.node, "change", failing)
        async with client.stream("t", columns=("k", "v")) as stream:
            for number in range(100):
                await stream.send([("a", float(number))])
                await asyncio.sleep(0)
        assert (stream.receipt.accepted, stream.receipt.repeats) == (100, 0)
        assert server.node.ingest_totals.refusals == 3
        answer = await client.query("SELECT v FROM t", after=stream.receipt.position)
        assert answer.value == 99.0


async def test_after_the_end_of_a_session_no_rows_are_taken(folder: Path) -> None:
    """As when the token is revoked: what came from its client and was not read yet is not taken any more."""
    async with served(NodeSettings(folder)) as server:
        async with slackwater.connect(server.url) as client:
            await client.execute("CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE)")
        node = server.node
        here, there = pair(TransportLimits())
        serving = asyncio.create_task(Live(node).serve(there, Caller(), Encoding.MESSAGEPACK, node.sessions))
        here.send(encode(Open(VERSION, 0, 0)))
        assert isinstance(decode_from_node(_bytes(await here.receive())), Welcome)
        for number in range(2):
            here.send(encode(one(number, "s", "a", 1.0)))
            if number == 0:
                while node.ingest_totals.messages == 0:
                    await asyncio.sleep(0)
            else:
                node.sessions.farewell_to_strangers("there are tokens now")
        await serving
        assert node.ingest_totals.messages == 1


def _bytes(message: bytes | str) -> bytes:
    assert isinstance(message, bytes)
    return message
