"""Requests on the direct lane are answered as by the general protocol, in order, whatever pieces they come in."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import uvicorn
from starlette.responses import Response
from uvicorn.server import ServerState

from slackwater.dissemination.transports.asgi import recognise
from slackwater.server.acceptor import STRANGER_BYTES, Acceptor, Slot
from slackwater.server.connections import ConnectionPhase, ConnectionSlots, SlotLimits
from slackwater.server.http_protocol import HEAD_BYTES, SlotProtocol
from slackwater.server.whole_request import HeadReader, WholeRequest

LIMITS = SlotLimits(8, 8, head_seconds=30.0, body_seconds=30.0, idle_seconds=30.0, turns=0)


def request(body: bytes, path: str = "/v1/tables/t/rows?source=s", *fields: str, method: str = "POST") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


class Server:
    """An application that answers with what it read, and says by which way it was asked."""

    def __init__(self, listener: socket.socket) -> None:
        config = uvicorn.Config(
            self.generally,
            interface="asgi3",
            ws="none",
            log_config=None,
            access_log=False,
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
        self.address = listener.getsockname()
        self.protocols: list[SlotProtocol] = []
        self.slots = ConnectionSlots(LIMITS)
        self.asked: list[str] = []
        self.open = asyncio.Event()
        self.open.set()
        heads = HeadReader()

        def make(slot: Slot) -> SlotProtocol:
            direct = self.directly, heads
            self.protocols.append(SlotProtocol(slot, direct, config=config, server_state=ServerState(), app_state={}))
            return self.protocols[-1]

        self.acceptor = Acceptor(listener, self.slots, make)
        self.acceptor.start()

    async def directly(self, request: WholeRequest) -> Response:
        self.asked.append("directly")
        recognise(request.scope)
        await self.open.wait()
        return Response(request.path_params["table"].encode() + b" " + request.content)

    async def generally(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append("generally")
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        name = scope["path"].split("/")[3].encode() if scope["path"].count("/") > 3 else b"none"
        await Response(name + b" " + body)(scope, receive, send)

    def phase(self) -> ConnectionPhase:
        (one,) = self.slots._connections.values()
        return one.phase


@asynccontextmanager
async def served() -> AsyncIterator[Server]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = Server(listener)
        try:
            async with asyncio.timeout(60):
                yield server
        finally:
            server.acceptor.close()
            for one in server.protocols:
                one.transport.abort()


async def answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 100 "):
        head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n"), head
    [length] = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    return await reader.readexactly(int(length))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


UNUSUAL = [
    request(b"x", "/v1/tables/%74/rows"),
    request(b"x", "/v1/tables/t/quarantine"),
    request(b"x", "/v1/tables/t/rows", "Connection: Keep-Alive, x"),
    request(b"x", "/v1/tables/t/rows", "Expect: 100-continue"),
    request(b"x", "/v1/tables/t/rows", "X: ü"),
    request(b"", "/v1/tables/t/rows", method="GET"),
    request(b"1\r\nx\r\n0\r\n\r\n", "/v1/tables/t/rows", "Transfer-Encoding: chunked"),
    b"POST /v1/tables/t/rows HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
]


PLAIN = b"POST /v1/tables/t/rows?first=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy"
NOT_PLAIN = [
    (b"Host: a\r\n", b""),
    (b"Host: a", b"Host: a\r\nHost: b"),
    (b"Host: a", b"Host:"),
    (b"Host: a", b"Host: a\r\nContent-Length: 2"),
    (b"Host: a", b"Host: a\r\n folded"),
    (b"Host: a", b"Host : a"),
    (b"Host: a", b"Host: a\r\nX"),
    (b"Host: a", b"Host: a\r\nX: \x00"),
    (b"Host: a", b"Host: a\r\nX: a\nContent-Length: 7"),
    (b"Host: a", b"Host: a\r\nConnection: close"),
    (b"Host: a", b"Host: a\r\nUpgrade: websocket"),
    (b"Length: 2", b"Length: +2"),
    (b"Length: 2", b"Length: 2, 2"),
    (b"Length: 2", b"Length: 0x2"),
    (b"HTTP/1.1", b"HTTP/1.0"),
    (b"HTTP/1.1\r\n", b"HTTP/1.1\n"),
    (b"POST ", b" POST "),
    (b"first=1", b"first=1#x"),
    (b"/v1", b"/../v1"),
]


@pytest.mark.parametrize(("part", "other"), NOT_PLAIN)
def test_a_head_that_is_not_plain_is_not_read(part: bytes, other: bytes) -> None:
    heads = HeadReader()
    found = heads.read(PLAIN)
    assert found is not None
    assert (found.table, found.query, found.end) == ("t", "first=1", len(PLAIN))
    assert part in PLAIN
    assert heads.read(PLAIN.replace(part, other, 1)) is None


@pytest.mark.parametrize("unusual", UNUSUAL)
async def test_what_is_not_plain_is_left_to_the_general_protocol(unusual: bytes) -> None:
    async with served() as server:
        reader, writer = await asyncio.open_connection(*server.address)
        for sent, way in ((request(b"a"), "directly"), (unusual, "generally"), (request(b"b"), "directly")):
            writer.write(sent)
            await answer(reader)
            assert server.asked[-1] == way
        writer.close()


async def test_any_pieces_and_any_pipeline_give_the_answers_in_order() -> None:
    ways_taken: list[str] = []
    for seed in range(25):
        random = Random(seed)
        bodies = [b"%d" % nth * random.choice([1, 10, 3000]) for nth in range(12)]
        ways = [random.choice(["/v1/tables/t/rows", "/v1/tables/t/rows?a=b%20c", "/v1/tables/t/other"]) for _ in bodies]
        sent = b"".join(request(body, way) for body, way in zip(bodies, ways, strict=True))
        async with served() as server:
            reader, writer = await asyncio.open_connection(*server.address)
            carrier = writer.get_extra_info("socket")
            carrier.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            async def send(writer: asyncio.StreamWriter, random: Random, rest: bytes) -> None:
                while rest:
                    size = random.choice([1, 40, 200, 5000, len(rest)])
                    writer.write(rest[:size])
                    rest = rest[size:]
                    await asyncio.sleep(random.choice([0, 0, 0.002]))

            sending = asyncio.create_task(send(writer, random, sent))
            assert [await answer(reader) for _ in bodies] == [b"t " + body for body in bodies]
            await sending
            ways_taken += server.asked
            writer.close()
    assert min(ways_taken.count("directly"), ways_taken.count("generally")) > 20


async def test_what_is_read_while_an_answer_is_written_comes_after_what_waits() -> None:
    async with served() as server:
        reader, writer = await asyncio.open_connection(*server.address)
        # More than is read of a stranger at once: the next piece is there when the first request is answered.
        bodies = [b"%d" % nth * 40 for nth in range(300)]
        sent = b"".join(map(request, bodies))
        assert len(sent) > 2 * STRANGER_BYTES
        writer.write(sent)
        assert [await answer(reader) for _ in bodies] == [b"t " + body for body in bodies]
        writer.close()


async def test_while_a_request_is_under_way_no_more_is_read() -> None:
    async with served() as server:
        server.open.clear()
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(request(b"a"))
        await until(lambda: bool(server.asked))
        assert server.phase() is ConnectionPhase.ANSWER
        writer.write(request(b"b") * 100_000)
        await until(lambda: server.protocols[0].flow.read_paused)
        transport: Any = server.protocols[0].transport
        lane: Any = server.protocols[0]._lane
        for _ in range(50):
            await asyncio.sleep(0.001)
            assert sum(map(len, lane._waiting)) <= 2 * transport.max_size
        assert server.asked == ["directly"]
        server.open.set()
        assert [await answer(reader) for _ in range(3)] == [b"t a", b"t b", b"t b"]
        writer.transport.abort()


async def test_of_a_stranger_little_is_gathered_and_a_slow_body_goes_the_general_way() -> None:
    async with served() as server:
        reader, writer = await asyncio.open_connection(*server.address)
        large = request(b"x" * 3 * STRANGER_BYTES)
        writer.write(large)
        assert len(await answer(reader)) > STRANGER_BYTES
        writer.write(request(b"a"))
        await answer(reader)
        writer.write(large)
        await answer(reader)
        assert server.asked == ["generally", "directly", "directly"]
        writer.write(request(b"slow")[:-2])
        await until(lambda: server.phase() is ConnectionPhase.BODY)
        await until(lambda: len(server.asked) == 4)
        writer.write(b"ow")
        assert await answer(reader) == b"t slow"
        assert server.asked[-1] == "generally"
        writer.close()


async def test_a_server_that_shuts_down_answers_first() -> None:
    async with served() as server:
        server.open.clear()
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(request(b"a"))
        await until(lambda: bool(server.asked))
        server.protocols[0].shutdown()
        server.open.set()
        assert await answer(reader) == b"t a"
        assert await reader.read() == b""
        writer.close()
        _, writer = await asyncio.open_connection(*server.address)
        await until(lambda: len(server.protocols) == 2 and server.protocols[1].flow is not None)
        server.protocols[1].shutdown()
        await until(server.protocols[1].transport.is_closing)
        writer.close()
