"""The promises of `slackwater.dissemination.transports.base`, one by one, for every transport there is.

WebSockets are real ones on the loopback interface, on ports that the system chooses; so is the NATS server. A new
transport joins by a world of its own in `WORLDS`.
"""

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Protocol

import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nats.aio.transport import TcpTransport
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from slackwater.dissemination.transports.asgi import AsgiSocket, HeldProtocol
from slackwater.dissemination.transports.base import (
    LONGEST_REASON,
    Carried,
    Closed,
    Connection,
    Ended,
    Handler,
    How,
    MessageTooLarge,
    TransportLimits,
    Unreachable,
)
from slackwater.dissemination.transports.memory import MemoryConnection, MemoryTransport
from slackwater.dissemination.transports.nats import NatsTransport
from slackwater.dissemination.transports.nats_connection import NatsConnection
from slackwater.dissemination.transports.socket import WebSocketConnection
from slackwater.dissemination.transports.websocket import WebSocketTransport

LIMITS = TransportLimits(message=1 << 20, hold_back=64 << 10, unsent=4 << 20, unread=8, grace=1.0)


class World(Protocol):
    """A place where one transport is used."""

    def listen(self, handler: Handler, limits: TransportLimits) -> AbstractAsyncContextManager[str]: ...

    async def dial(self, address: str, limits: TransportLimits) -> Connection: ...

    def kill(self, connection: Connection) -> None:
        """What the other end sees when the process of this end is killed."""
        ...

    def speaks_bytes(self) -> bool:
        """Whether garbage can be sent at all."""
        ...


class MemoryWorld:
    def __init__(self) -> None:
        self.transport = MemoryTransport()

    @asynccontextmanager
    async def listen(self, handler: Handler, limits: TransportLimits) -> AsyncIterator[str]:
        async with self.transport.listen(handler, limits) as listener:
            yield listener.address

    async def dial(self, address: str, limits: TransportLimits) -> Connection:
        return await self.transport.dial(address, limits)

    def kill(self, connection: Connection) -> None:
        assert isinstance(connection, MemoryConnection)
        connection.kill()

    def speaks_bytes(self) -> bool:
        return False


class WebSocketWorld:
    def __init__(self) -> None:
        self.transport = WebSocketTransport()

    @asynccontextmanager
    async def listen(self, handler: Handler, limits: TransportLimits) -> AsyncIterator[str]:
        async with self.transport.listen(handler, limits) as listener:
            yield listener.address

    async def dial(self, address: str, limits: TransportLimits) -> Connection:
        return await self.transport.dial(address, limits)

    def kill(self, connection: Connection) -> None:
        assert isinstance(connection, WebSocketConnection)
        connection._socket.abort()

    def speaks_bytes(self) -> bool:
        return True


class QuietServer(uvicorn.Server):
    """A web server that leaves the signals of the test run alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class AsgiWorld(WebSocketWorld):
    """The listening side is a web server."""

    @asynccontextmanager
    async def listen(self, handler: Handler, limits: TransportLimits) -> AsyncIterator[str]:
        open_ones: set[Connection] = set()

        async def take(websocket: WebSocket) -> None:
            await websocket.accept()
            connection = WebSocketConnection(AsgiSocket(websocket), limits)
            open_ones.add(connection)
            try:
                await handler(connection)
            except Closed:
                pass
            finally:
                await connection.close()
                open_ones.discard(connection)

        config = uvicorn.Config(
            Starlette(routes=[WebSocketRoute("/", take)]),
            port=0,
            ws=HeldProtocol,
            ws_max_size=limits.message,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            log_level="critical",
            backlog=4096,
        )
        listening = socket.create_server(("127.0.0.1", 0), backlog=4096)
        server = QuietServer(config)
        serving = asyncio.create_task(server.serve([listening]))
        try:
            yield f"ws://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            await asyncio.gather(*(one.close("the listener closes") for one in list(open_ones)))
            server.should_exit = True
            await serving
            listening.close()


class NatsWorld:
    """Both ends have a connection to the server of their own, as two processes have."""

    url = ""
    names = itertools.count(1)

    def __init__(self) -> None:
        self.listening = NatsTransport(name="listening", ping=0.5)
        self.dialling = NatsTransport(name="dialling", ping=0.5)

    @asynccontextmanager
    async def listen(self, handler: Handler, limits: TransportLimits) -> AsyncIterator[str]:
        address = f"{self.url}/world-{next(self.names)}"
        async with self.listening.listen(handler, limits, address) as listener:
            yield listener.address

    async def dial(self, address: str, limits: TransportLimits) -> Connection:
        return await self.dialling.dial(address, limits)

    def kill(self, connection: Connection) -> None:
        assert isinstance(connection, NatsConnection)
        client = connection._bus._client
        assert client is not None
        assert isinstance(client._transport, TcpTransport)
        writer = client._transport._io_writer
        assert writer is not None
        writer.transport.abort()

    def speaks_bytes(self) -> bool:
        return False


WORLDS: list[Callable[[], World]] = [MemoryWorld, WebSocketWorld, AsgiWorld, NatsWorld]
worlds = pytest.mark.parametrize("make_world", WORLDS, ids=lambda world: world.__name__, indirect=True)


@pytest.fixture
def make_world(request: pytest.FixtureRequest) -> Callable[[], World]:
    made: Callable[[], World] = request.param
    if made is NatsWorld:
        NatsWorld.url = request.getfixturevalue("nats_server").url
    return made


class Hall:
    """Handles connections for a test: hands each over, and keeps it until the test ends."""

    def __init__(self) -> None:
        self.arrived: asyncio.Queue[Connection] = asyncio.Queue()
        self.over = asyncio.Event()

    async def handle(self, connection: Connection) -> None:
        self.arrived.put_nowait(connection)
        await self.over.wait()

    @asynccontextmanager
    async def in_use(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self.over.set()


@asynccontextmanager
async def connected(
    world: World, here: TransportLimits = LIMITS, there: TransportLimits = LIMITS
) -> AsyncIterator[tuple[Connection, Connection]]:
    """Both ends of one connection: the dialler's and the listener's."""
    hall = Hall()
    async with world.listen(hall.handle, there) as address:
        dialler = await world.dial(address, here)
        taken = await hall.arrived.get()
        try:
            yield dialler, taken
        finally:
            hall.over.set()
            await dialler.close()
            await taken.close()


async def within(seconds: float, happening: Awaitable[object]) -> None:
    async with asyncio.timeout(seconds):
        await happening


async def read_to_the_end(connection: Connection) -> tuple[list[Carried], Ended]:
    """What still arrives, and how it ended."""
    arrived = []
    async with asyncio.timeout(10):
        while True:
            try:
                arrived.append(await connection.receive())
            except Closed as closed:
                return arrived, closed.ended


async def ending(connection: Connection) -> Ended:
    _, ended = await read_to_the_end(connection)
    assert connection.ended == ended
    return ended


@worlds
async def test_messages_arrive_whole_in_order_and_of_their_kind(make_world: Callable[[], World]) -> None:
    messages: list[Carried] = [b"", "", "ü", b"\x00\xff", "a" * 70_000, bytes(300_000), *(str(n) for n in range(500))]
    async with connected(make_world()) as ends:
        for sender, receiver in (ends, ends[::-1]):

            async def send_all(sender: Connection = sender) -> None:
                for message in messages:
                    if not sender.send(message):
                        await sender.drained()

            sending = asyncio.create_task(send_all())
            received = [await receiver.receive() for _ in messages]
            await sending
            assert received == messages
            assert [type(message) for message in received] == [type(message) for message in messages]


@given(st.lists(st.binary(max_size=200) | st.text(max_size=200), max_size=40), st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_messages_by_any_interleaving(messages: list[Carried], data: st.DataObject) -> None:
    async def run() -> None:
        async with connected(MemoryWorld()) as (left, right):
            received = []
            for message in messages:
                assert left.send(message)
                if data.draw(st.booleans()):
                    received.append(await right.receive())
            # At the same time: who closes waits for the reader, but not for ever.
            closing = asyncio.create_task(left.close("done"))
            rest, _ = await read_to_the_end(right)
            await closing
            assert received + rest == messages

    asyncio.run(run())


@worlds
async def test_too_large_to_send_is_refused_and_the_connection_lives_on(make_world: Callable[[], World]) -> None:
    async with connected(make_world()) as (here, there):
        with pytest.raises(MessageTooLarge, match="1048577 bytes is above the limit of 1048576"):
            here.send(bytes(LIMITS.message + 1))
        with pytest.raises(MessageTooLarge):
            here.send("ü" * (LIMITS.message // 2 + 1))
        here.send(bytes(LIMITS.message))
        assert await there.receive() == bytes(LIMITS.message)


@worlds
async def test_too_large_to_receive_ends_the_connection(make_world: Callable[[], World]) -> None:
    small = TransportLimits(message=1000, unread=8, grace=1.0)
    async with connected(make_world(), here=LIMITS, there=small) as (here, there):
        assert here.send(bytes(1000))
        here.send(bytes(1001))
        assert await there.receive() == bytes(1000)
        ended = await ending(there)
        assert (ended.how, ended.here) == (How.TOO_LARGE, True)
        assert (await ending(here)).how in (How.TOO_LARGE, How.LOST)


@worlds
async def test_a_slow_reader_is_felt_and_then_served(make_world: Callable[[], World]) -> None:
    async with connected(make_world(), there=LIMITS) as (here, there):
        for sender, receiver in ((there, here), (here, there)):
            count = 0
            # What the system's buffers take is not known, and they grow; so we go on until it is felt, and stays so.
            waiting: asyncio.Task[None] | None = None
            while waiting is None or waiting.done():
                while sender.send(count.to_bytes(4) * 16_000):
                    count += 1
                    await asyncio.sleep(0)
                    assert count < 1000
                assert sender.unsent > LIMITS.hold_back
                count += 1
                waiting = asyncio.create_task(sender.drained())
                await asyncio.sleep(0.05)
            assert sender.unsent > LIMITS.hold_back / 2
            assert [await receiver.receive() for _ in range(count)] == [n.to_bytes(4) * 16_000 for n in range(count)]
            await within(5, waiting)
            assert sender.unsent < LIMITS.hold_back / 2
            assert sender.send(b"again")
            assert await receiver.receive() == b"again"


@worlds
async def test_overflow_ends_the_connection_at_once(make_world: Callable[[], World]) -> None:
    for dialler_sends in (True, False):
        async with connected(make_world()) as ends:
            sender, receiver = ends if dialler_sends else ends[::-1]
            number = 0
            while sender.ended is None:
                sender.send(number.to_bytes(4) * 16_000)
                number += 1
                if number % 8 == 0:
                    await asyncio.sleep(0)
                assert sender.unsent <= LIMITS.unsent
                assert number < 1000
            assert (sender.ended.how, sender.ended.here) == (How.OVERFLOW, True)
            assert "does not read" in sender.ended.why
            assert not sender.send(b"more")
            await within(1, sender.drained())
            assert (await ending(sender)).how is How.OVERFLOW
            arrived, ended = await read_to_the_end(receiver)
            assert (ended.how, ended.here) == (How.LOST, False)
            # Nothing is missing before the end: what arrived is a beginning of what was sent.
            assert arrived == [n.to_bytes(4) * 16_000 for n in range(len(arrived))]
            assert len(arrived) < number


@worlds
async def test_the_reason_reaches_the_other_side(make_world: Callable[[], World]) -> None:
    for dialler_closes in (True, False):
        async with connected(make_world()) as ends:
            here, there = ends if dialler_closes else ends[::-1]
            here.send(b"last words")
            noticed = asyncio.create_task(ending(there))
            await here.close("tired of waiting: " + "ü" * 200)
            ended = await noticed
            assert (ended.how, ended.here) == (How.CLOSED, False)
            assert ended.why.startswith("tired of waiting: ü")
            assert LONGEST_REASON - 2 <= len(ended.why.encode()) <= LONGEST_REASON
            own = await ending(here)
            assert (own.how, own.here) == (How.CLOSED, True)
            assert not here.send(b"too late")
            assert not there.send(b"too late")


@worlds
async def test_what_was_sent_before_closing_arrives(make_world: Callable[[], World]) -> None:
    for dialler_closes in (True, False):
        async with connected(make_world()) as ends:
            here, there = ends if dialler_closes else ends[::-1]
            sent = [n.to_bytes(4) * 8_000 for n in range(100)]
            for message in sent:
                here.send(message)
            closing = asyncio.create_task(here.close("all said"))
            received, ended = await read_to_the_end(there)
            await closing
            assert received == sent
            assert ended.why == "all said"


@worlds
async def test_closing_does_not_wait_for_ever(make_world: Callable[[], World]) -> None:
    hurried = TransportLimits(message=1 << 20, hold_back=64 << 10, unsent=64 << 20, unread=8, grace=0.2)
    for dialler_closes in (True, False):
        async with connected(make_world(), here=hurried, there=hurried) as ends:
            here = ends[0] if dialler_closes else ends[1]
            while here.unsent < 1 << 20:
                here.send(bytes(1 << 17))
                await asyncio.sleep(0)
            await within(5, here.close("not read"))
            assert here.ended is not None


@worlds
async def test_closing_twice_is_closing_once(make_world: Callable[[], World]) -> None:
    async with connected(make_world()) as (here, there):
        await asyncio.gather(here.close("first"), here.close("second"), there.close("third"))
        await here.close("fourth")
        assert here.ended is not None
        first = here.ended
        await there.close()
        assert here.ended == first
        assert (await ending(there)).how is How.CLOSED


@worlds
async def test_a_killed_peer_is_noticed(make_world: Callable[[], World]) -> None:
    world = make_world()
    for dialler_dies in (True, False):
        async with connected(world) as ends:
            dying, living = ends if dialler_dies else ends[::-1]
            waiting = asyncio.create_task(ending(living))
            await asyncio.sleep(0.01)
            world.kill(dying)
            ended = await waiting
            assert (ended.how, ended.here) == (How.LOST, False)
            await within(2, living.drained())
            assert not living.send(b"anybody?")


@worlds
async def test_a_peer_killed_while_it_is_written_to_is_noticed(make_world: Callable[[], World]) -> None:
    world = make_world()
    for dialler_dies in (True, False):
        async with connected(world) as ends:
            dying, living = ends if dialler_dies else ends[::-1]
            while living.send(bytes(64_000)):
                await asyncio.sleep(0)
            waiting = asyncio.create_task(living.drained())
            world.kill(dying)
            await within(5, waiting)
            assert (await ending(living)).how is How.LOST


@worlds
async def test_nobody_there(make_world: Callable[[], World]) -> None:
    world = make_world()
    async with world.listen(Hall().handle, LIMITS) as address:
        pass
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1|memory"):
        await world.dial(address, LIMITS)


@worlds
async def test_nothing_outlives_close(make_world: Callable[[], World]) -> None:
    before = asyncio.all_tasks()
    async with connected(make_world()) as (here, there):
        here.send(b"one")
        there.send(bytes(500_000))
        await there.receive()
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == before


@worlds
async def test_a_listener_closes_its_connections(make_world: Callable[[], World]) -> None:
    world, hall = make_world(), Hall()

    async def until_closed(connection: Connection) -> None:
        hall.arrived.put_nowait(connection)
        while True:
            await connection.receive()

    async with world.listen(until_closed, LIMITS) as address:
        ends = [await world.dial(address, LIMITS) for _ in range(5)]
        for _ in ends:
            await hall.arrived.get()
        noticing = asyncio.gather(*(ending(end) for end in ends))
    assert {ended.why for ended in await noticing} == {"the listener closes"}
    for end in ends:
        await end.close()


@worlds
async def test_a_thousand_connections(make_world: Callable[[], World]) -> None:
    world = make_world()

    async def echo(connection: Connection) -> None:
        while True:
            connection.send(await connection.receive())

    async def visit(number: int) -> None:
        async with gate:
            end = await world.dial(address, LIMITS)
        ends.append(end)
        end.send(f"I am {number}")
        assert await end.receive() == f"I am {number}"

    ends: list[Connection] = []
    gate = asyncio.Semaphore(100)
    async with world.listen(echo, LIMITS) as address:
        await asyncio.gather(*(visit(number) for number in range(1000)))
        assert all(end.ended is None for end in ends)
        await asyncio.gather(*(end.close() for end in ends))


HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
GARBAGE = {
    "text that is not text": b"\x81\x82\0\0\0\0\xff\xfe",
    "not masked": b"\x82\x01a",
    "an opcode that is not": b"\x83\x80\0\0\0\0",
    "reserved bits": b"\xf2\x80\0\0\0\0",
    "a continuation of nothing": b"\x80\x80\0\0\0\0",
    "a ping that is too long": b"\x89\xfe\x00\x7e\0\0\0\0" + bytes(126),
}


@worlds
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_ends_that_connection_only(make_world: Callable[[], World], garbage: bytes) -> None:
    world, hall = make_world(), Hall()
    if not world.speaks_bytes():
        pytest.skip("carries no bytes, so there can be no garbage")
    async with world.listen(hall.handle, LIMITS) as address, hall.in_use():
        honest = await world.dial(address, LIMITS)
        honest_taken = await hall.arrived.get()
        port = int(address.rsplit(":")[-1].strip("/"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        taken = await hall.arrived.get()
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x82\x82\0\0\0\0ok" + garbage)
        assert await taken.receive() == b"ok"
        ended = await ending(taken)
        assert (ended.how, ended.here) == (How.GARBAGE, True)
        assert ended.why
        writer.close()
        assert honest.send(b"still here")
        assert await honest_taken.receive() == b"still here"
        await honest.close()
