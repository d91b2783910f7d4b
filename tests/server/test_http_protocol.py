"""What a server keeps of one connection, and what it takes the connection to be at, over a real socket."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from slackwater.dissemination.transports.asgi import recognise
from slackwater.server.acceptor import STRANGER_BYTES, Acceptor, Slot
from slackwater.server.connections import ConnectionPhase, ConnectionSlots, SlotLimits
from slackwater.server.http_protocol import HEAD_BYTES, SlotProtocol

LIMITS = SlotLimits(8, 8, head_seconds=30.0, body_seconds=30.0, idle_seconds=30.0, turns=0)
LONG = 16 * 1024 * 1024
"""Bytes of an answer that no system takes from the server at once."""
HEAD = b"POST /%b HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n"


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers without reading a body: much at `/long`, and recognises its caller at `/known`."""
    if scope["path"] == "/known":
        recognise(scope)
    body = b"x" * (LONG if scope["path"] == "/long" else 2)
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Server:
    """An acceptor with the protocols that it made."""

    def __init__(self, listener: socket.socket) -> None:
        config = uvicorn.Config(
            application, ws="none", log_config=None, access_log=False, h11_max_incomplete_event_size=HEAD_BYTES
        )
        self.address = listener.getsockname()
        self.protocols: list[SlotProtocol] = []
        self.slots = ConnectionSlots(LIMITS)

        def make(slot: Slot) -> SlotProtocol:
            self.protocols.append(SlotProtocol(slot, config=config, server_state=ServerState(), app_state={}))
            return self.protocols[-1]

        self.acceptor = Acceptor(listener, self.slots, make)
        self.acceptor.start()

    def phase(self) -> ConnectionPhase:
        """What the one connection is at."""
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


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("requests", [1, 5_000])
async def test_an_answer_that_is_not_read_keeps_little(requests: int) -> None:
    """Of the answer, and of further requests that come meanwhile."""
    async with served() as server:
        _, writer = await asyncio.open_connection(*server.address, limit=1)
        writer.write(HEAD % (b"long", 0) * requests)
        await until(lambda: bool(server.protocols) and server.protocols[0].flow is not None)
        protocol = server.protocols[0]
        await until(lambda: protocol.transport.get_write_buffer_size() > 0)
        for _ in range(100):
            await asyncio.sleep(0.001)
            assert protocol.transport.get_write_buffer_size() <= 3 * STRANGER_BYTES
            assert len(protocol.conn.trailing_data[0]) <= 2 * STRANGER_BYTES
        writer.transport.abort()


async def test_an_answer_that_is_read_is_whole() -> None:
    async with served() as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(HEAD % (b"long", 0) * 2)
        for _ in range(2):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            assert await reader.readexactly(LONG) == b"x" * LONG
        writer.close()


async def test_a_head_that_is_too_long_is_refused() -> None:
    """Long before its end has come."""
    async with served() as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"GET / HTTP/1.1\r\nx: " + b"y" * HEAD_BYTES)
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()


async def test_what_is_recognised_is_read_in_large_pieces() -> None:
    async with served() as server:
        reader, writer = await asyncio.open_connection(*server.address)
        for path, small in ((b"short", True), (b"known", False), (b"short", False)):
            writer.write(HEAD % (path, 0))
            await reader.readuntil(b"\r\n\r\nxx")
            transport: Any = server.protocols[0].transport
            assert (transport.max_size == STRANGER_BYTES) == small
            assert (transport.get_write_buffer_limits()[1] == STRANGER_BYTES) == small
        writer.close()


@pytest.mark.parametrize(("tail", "after"), [(b"", ConnectionPhase.IDLE), (b"GET", ConnectionPhase.HEAD)])
async def test_the_late_end_of_a_body_is_no_half_head(tail: bytes, after: ConnectionPhase) -> None:
    """A request is answered before its body has come, then the rest comes: only what follows it begins a request."""
    async with served() as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(HEAD % (b"short", 10) + b"12345")
        await reader.readuntil(b"\r\n\r\nxx")
        await until(lambda: server.phase() is ConnectionPhase.REST)
        writer.write(b"67890" + tail)
        await until(lambda: server.phase() is not ConnectionPhase.REST)
        assert server.phase() is after
        writer.close()
