"""What a web server's WebSocket reads by itself and what its library reads, whatever pieces the bytes come in."""

import asyncio
import random
from typing import Any

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from slackwater.dissemination.transports.asgi import EXTENSION, HeldProtocol, framed

HEAD = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
ACK = b"ack"


class Wire(asyncio.Transport):
    """The socket of a protocol, as far as it is used."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = bytearray()
        self.closing = False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class World:
    """A protocol, and what its application received and was offered, in order."""

    def __init__(self) -> None:
        self.got: list[bytes | str] = []
        self.offered = 0
        self.over = False
        options: dict[str, Any] = {"log_config": None, "ws_per_message_deflate": False, "interface": "asgi3"}
        config = uvicorn.Config(self.serve, ws_max_size=1 << 20, **options)
        config.load()
        self.wire = Wire()
        self.protocol = HeldProtocol(config, ServerState(), {})
        self.protocol.connection_made(self.wire)

    def take(self, message: bytes) -> bool:
        if message.startswith(ACK):
            self.got.append(message)
            self.offered += 1
            return True
        return False

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "websocket.connect"
        scope["extensions"][EXTENSION]["hold"].take = self.take
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            binary, text = message.get("bytes"), message.get("text")
            self.got.append(bytes(binary) if binary is not None else text)
        self.over = True

    async def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.protocol.data_received(piece)
            await self.turns()

    async def turns(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)


def frame(kind: int, message: bytes, mask: bytes) -> bytes:
    """A frame as a client writes it."""
    plain = framed(message)
    head = plain[: len(plain) - len(message)]
    masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(message))
    return bytes((kind, head[1] | 0x80)) + head[2:] + mask + masked


MESSAGES = st.one_of(
    st.binary(max_size=5).map(lambda rest: ACK + rest),
    st.binary(max_size=130),
    st.text(max_size=30),
    st.sampled_from([b"x" * 125, b"x" * 126, b"y" * 70_000, ACK + bytes(122), ACK + bytes(123)]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(MESSAGES, max_size=12), st.integers(0, 2**32))
def test_everything_arrives_once_and_in_order(messages: list[bytes | str], seed: int) -> None:
    async def live() -> None:
        generator, world = random.Random(seed), World()
        await world.say(HEAD)
        stream: list[bytes] = []
        for message in messages:
            kind, data = (2, message) if isinstance(message, bytes) else (1, message.encode())
            mask = generator.randbytes(4)
            if generator.random() < 0.2:
                stream.append(frame(0x89, b"ping", mask))
            if len(data) > 1 and generator.random() < 0.3:
                cut = generator.randrange(1, len(data))
                stream += [frame(kind, data[:cut], mask), frame(0x80, data[cut:], mask)]
            else:
                stream.append(frame(0x80 | kind, data, mask))
        while stream:
            # One frame at a time, several at once, or cut anywhere.
            piece = b"".join(stream[: (count := generator.choice([1, 1, 1, 2, 3]))])
            del stream[:count]
            cut = generator.randrange(len(piece)) if generator.random() < 0.3 else 0
            pieces = [piece[:cut], piece[cut:]] if cut else [piece]
            if generator.random() < 0.5:
                await world.say(*pieces)
            else:
                for one in pieces:
                    world.protocol.data_received(one)
        await world.turns()
        for _ in messages:
            await world.turns()
        assert world.got == messages
        world.protocol.connection_lost(None)
        await world.turns()
        assert world.over

    asyncio.run(live())


async def test_an_acknowledgement_that_comes_alone_is_offered_at_once() -> None:
    world = World()
    await world.say(HEAD)
    world.protocol.data_received(frame(0x82, ACK + b"1", b"mask"))
    assert (world.got, world.offered) == ([ACK + b"1"], 1)
    # Behind a message that waits it waits as well.
    world.protocol.data_received(frame(0x82, b"before", b"mask"))
    world.protocol.data_received(frame(0x82, ACK + b"2", b"mask"))
    await world.turns()
    assert (world.got, world.offered) == ([ACK + b"1", b"before", ACK + b"2"], 1)
    # After an odd piece, too, it is known where frames begin.
    odd = frame(0x82, b"odd" * 50, b"mask")
    await world.say(odd[:1], odd[1:7], odd[7:])
    world.protocol.data_received(frame(0x82, ACK + b"3", b"mask"))
    assert world.offered == 2


@pytest.mark.parametrize("first", [b"\x82\xff", b"\x02\x83maskabc"], ids=["within a frame", "within a message"])
async def test_nothing_is_offered_out_of_the_middle(first: bytes) -> None:
    world = World()
    await world.say(HEAD, first, frame(0x82, ACK, b"mask"))
    assert world.offered == 0


async def test_nothing_is_offered_after_the_end() -> None:
    world = World()
    await world.say(HEAD, frame(0x88, b"\x03\xe8", b"mask"), frame(0x82, ACK, b"mask"))
    assert (world.offered, world.over) == (0, True)


async def test_what_is_written_at_once_is_a_frame_and_stops_with_the_connection() -> None:
    world = World()
    await world.say(HEAD)
    del world.wire.written[:]
    for message in (b"a", b"b" * 126, b"c" * 70_000, "d"):
        assert world.protocol.write_at_once(message)
    assert bytes(world.wire.written) == b"".join(framed(message) for message in (b"a", b"b" * 126, b"c" * 70_000, "d"))
    world.protocol.pause_writing()
    assert not world.protocol.write_at_once(b"e")
    world.protocol.resume_writing()
    assert world.protocol.write_at_once(b"f")
    await world.say(frame(0x88, b"\x03\xe8", b"mask"))
    assert not world.protocol.write_at_once(b"g")
