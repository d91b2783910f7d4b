"""What only a bus can do to a connection: lose a piece, carry a stranger's payload, go away and come back."""

import asyncio
import itertools
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec
import nats
import pytest

from slackwater.core.bus import bus_address
from slackwater.dissemination.transports.base import (
    Closed,
    Connection,
    Denied,
    Ended,
    Handler,
    How,
    TransportLimits,
    Unreachable,
)
from slackwater.dissemination.transports.nats import NatsTransport
from slackwater.dissemination.transports.nats_connection import NatsConnection
from slackwater.dissemination.transports.nats_frames import MessagePiece, Status, Unreadable, read, write
from tests.support.nats_server import NatsServer

LIMITS = TransportLimits(message=4 << 20, hold_back=64 << 10, unsent=16 << 20, unread=8, grace=1.0)
names = itertools.count(1)


@asynccontextmanager
async def connected(server: NatsServer, ping: float = 0.5) -> AsyncIterator[tuple[NatsConnection, NatsConnection]]:
    """The dialler's end and the listener's."""
    taken: asyncio.Queue[Connection] = asyncio.Queue()
    over = asyncio.Event()

    async def handle(connection: Connection) -> None:
        taken.put_nowait(connection)
        await over.wait()

    address = f"{server.url}/test-{next(names)}"
    async with NatsTransport(name="listening", ping=ping).listen(handle, LIMITS, address):
        here = await NatsTransport(name="dialling", ping=ping).dial(address, LIMITS)
        there = await taken.get()
        assert isinstance(there, NatsConnection)
        try:
            yield here, there
        finally:
            over.set()
            await here.close()


async def ending(connection: Connection) -> Ended:
    async with asyncio.timeout(10):
        while True:
            try:
                await connection.receive()
            except Closed as closed:
                return closed.ended


GARBAGE = {
    "nothing": b"",
    "no kind that there is": b"\xff1234",
    "half a head": b"\x01\x02",
    "text that is not text": write(MessagePiece(0, 2, True, True, True, b"\xff\xfe")),
    "a middle without a beginning": write(MessagePiece(0, 2, False, False, True, b"ab")),
    "more than was announced": write(MessagePiece(0, 2, False, True, True, b"abc")),
    "less than was announced": write(MessagePiece(0, 4, False, True, True, b"abc")),
    "a greeting in the middle": b"\x05" + b"\x90",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_ends_that_connection_only(nats_server: NatsServer, garbage: bytes) -> None:
    async with connected(nats_server) as (here, there), connected(nats_server) as (honest, honest_there):
        stranger = await nats.connect(nats_server.url)
        await stranger.publish(there.subject, garbage)
        ended = await ending(there)
        assert (ended.how, ended.here) == (How.GARBAGE, True)
        assert (await ending(here)).how is How.GARBAGE
        await stranger.close()
        assert honest.send("still here")
        assert await honest_there.receive() == "still here"


async def test_a_lost_piece_is_noticed_by_the_next(nats_server: NatsServer) -> None:
    async with connected(nats_server) as (here, there):
        here.send(b"one")
        assert await there.receive() == b"one"
        here._sequence += 1  # what the bus lost
        here.send(b"three")
        ended = await ending(there)
        assert ended.how is How.LOST
        assert "expected" in ended.why
        assert (await ending(here)).how is How.LOST


async def test_a_lost_piece_is_noticed_when_nothing_follows(nats_server: NatsServer) -> None:
    async with connected(nats_server) as (here, there):
        here._sequence += 1
        assert (await ending(there)).how is How.LOST


async def test_a_message_larger_than_the_bus_takes_arrives_whole(nats_server: NatsServer) -> None:
    async with connected(nats_server) as (here, there):
        largest = bytes(range(256)) * (LIMITS.message // 256)
        assert len(largest) > here._bus.largest
        for sender, receiver in ((here, there), (there, here)):
            sender.send(largest)
            sender.send("ü" * (LIMITS.message // 2))
            assert await receiver.receive() == largest
            assert await receiver.receive() == "ü" * (LIMITS.message // 2)


async def test_a_peer_that_only_falls_silent_is_lost(nats_server: NatsServer) -> None:
    async with connected(nats_server, ping=0.2) as (here, there):
        there._bus.leave(there.subject)  # it hears nothing any more
        there.tick = lambda now: None  # type: ignore[method-assign]
        assert (await ending(here)).how is How.LOST


async def test_who_is_not_let_in_is_told_why(nats_server: NatsServer) -> None:
    def admit(words: Mapping[str, str]) -> Handler:
        if words.get("token") != "right":
            raise Denied("no", status=401, body=b"who are you?")

        async def handle(connection: Connection) -> None:
            connection.send("welcome")
            await connection.receive()

        return handle

    address = f"{nats_server.url}/door"
    async with NatsTransport().listen(None, LIMITS, address, admit):
        with pytest.raises(Denied, match="401") as denied:
            await NatsTransport({"token": "wrong"}).dial(address, LIMITS)
        assert (denied.value.status, denied.value.body) == (401, b"who are you?")
        inside = await NatsTransport({"token": "right"}).dial(address, LIMITS)
        assert await inside.receive() == "welcome"
        await inside.close()


async def test_a_stranger_cannot_make_a_listener_publish_elsewhere(nats_server: NatsServer) -> None:
    async def handle(connection: Connection) -> None:
        await connection.receive()

    address = f"{nats_server.url}/hall"
    async with NatsTransport(name="hall").listen(handle, LIMITS, address):
        stranger = await nats.connect(nats_server.url)
        everything = await stranger.subscribe("elsewhere.>")
        for answer in ("elsewhere.x", "slackwater.at.*", "a b", ""):
            ask = b"\x05" + msgspec.msgpack.encode({"version": 1, "answer": answer, "unread": 8, "words": {}})
            await stranger.publish("slackwater.dial.hall", ask)
        await stranger.flush()
        end = await NatsTransport().dial(address, LIMITS)
        assert end.ended is None
        await end.close()
        assert everything.pending_msgs == 0
        await stranger.close()


async def test_a_stranger_cannot_have_an_answer_sent_elsewhere(nats_server: NatsServer) -> None:
    async with connected(nats_server) as (here, there):
        stranger = await nats.connect(nats_server.url)
        heard = await stranger.subscribe("elsewhere")
        for subject in (there.subject, f"{there._bus.base}.nobody"):
            for reply in ("elsewhere", "*", "slackwater.>"):
                await stranger.publish(subject, write(Status(0, 0, 0)), reply=reply)
        await stranger.flush()
        here.send("still here")
        assert await there.receive() == "still here"
        assert heard.pending_msgs == 0
        await stranger.close()


async def test_a_killed_bus_ends_connections_and_the_listener_comes_back(own_nats_server: NatsServer) -> None:
    async with connected(own_nats_server) as (here, there):
        address = here.peer
        own_nats_server.kill()
        for end in (here, there):
            assert (await ending(end)).how is How.LOST
        transport = NatsTransport(name="dialling")
        with pytest.raises(Unreachable, match="cannot be reached"):
            await transport.dial(address, LIMITS)
        own_nats_server.start()
        async with asyncio.timeout(10):
            while True:
                try:
                    again = await transport.dial(address, LIMITS)
                except Unreachable:
                    await asyncio.sleep(0.05)
                else:
                    break
        assert again.ended is None
        await again.close()


async def test_many_connections_are_one_to_the_server(nats_server: NatsServer) -> None:
    async def echo(connection: Connection) -> None:
        while True:
            connection.send(await connection.receive())

    address = f"{nats_server.url}/crowd"
    before = nats_server.figures()["connections"]
    async with NatsTransport(name="node").listen(echo, LIMITS, address):
        ends = await asyncio.gather(*(NatsTransport(name="crowd").dial(address, LIMITS) for _ in range(2000)))
        assert nats_server.figures()["connections"] == before + 2
        for number, end in enumerate(ends):
            end.send(str(number))
        assert [await end.receive() for end in ends] == [str(number) for number in range(2000)]
        await asyncio.gather(*(end.close() for end in ends))


def test_the_library_is_imported_when_it_is_used_and_not_before() -> None:
    modules = (
        "client",
        "dissemination.transports.nats",
        "dissemination.transports.nats_channels",
        "log.jetstream",
        "server.listener",
    )
    imports = "; ".join(f"import slackwater.{module}" for module in modules)
    subprocess.run([sys.executable, "-c", f"{imports}; import sys; sys.exit('nats' in sys.modules)"], check=True)


def test_frames_that_are_no_frames_are_unreadable() -> None:
    for payload in GARBAGE.values():
        if payload[:1] != b"\x01" or len(payload) < 14:
            with pytest.raises(Unreadable):
                read(payload)
    assert read(write(Status(1, 2, 3))) == Status(1, 2, 3)


@pytest.mark.parametrize(
    "wrong", ["http://host:1/a", "nats://", "nats://host:4222", "nats://h:4222/a.b", "nats://h:99999/a", "nats://h/a b"]
)
async def test_an_address_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"bus|name"):
        bus_address(wrong, named=True)
    with pytest.raises(Unreachable):
        await NatsTransport().dial(wrong)
