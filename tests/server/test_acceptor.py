"""Accepting where the system refuses: a pause, a report and another try; never a loop and never an end."""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Iterator

import pytest

from slackwater.server import acceptor as accepting
from slackwater.server.acceptor import Acceptor, Slot
from slackwater.server.connections import ConnectionPhase, ConnectionSlots, SlotLimits

LIMITS = SlotLimits(8, 8, head_seconds=30.0, body_seconds=30.0, idle_seconds=30.0, turns=0)


class Short(socket.socket):
    """A listening socket with as many refusals of accept as it is told."""

    refusals = 0
    tries = 0
    number = errno.EMFILE

    def accept(self) -> tuple[socket.socket, object]:
        self.tries += 1
        if self.refusals:
            self.refusals -= 1
            raise OSError(self.number, os.strerror(self.number))
        return super().accept()


class Echo(asyncio.Protocol):
    """Sends back what came, and gives the slot back at the end."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.slot.begin(transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.slot.gone()


@pytest.fixture
def listener() -> Iterator[Short]:
    with Short() as made:
        made.bind(("127.0.0.1", 0))
        made.listen()
        yield made


async def echoed(listener: Short) -> bytes:
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    try:
        writer.write(b"x")
        return await reader.read(1)
    finally:
        writer.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EPROTO])
async def test_a_refusal_is_a_pause(
    listener: Short, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accepting, "_AGAIN_SECONDS", 0.05)
    logging.getLogger("slackwater").propagate = True
    slots = ConnectionSlots(LIMITS)
    server = Acceptor(listener, slots, Echo)
    server.start()
    try:
        assert await echoed(listener) == b"x"
        listener.refusals, listener.number, listener.tries = 3, number, 0
        async with asyncio.timeout(30):
            assert await echoed(listener) == b"x"
        # Three refusals, one that succeeds, and at most one that finds nothing.
        assert listener.tries <= 6
        assert slots.counts["pauses"] == 3
        assert sum("accepting pauses" in record.getMessage() for record in caplog.records) == 3
    finally:
        server.close()


async def test_without_a_descriptor_a_stranger_gives_up_its_own(
    listener: Short, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "_AGAIN_SECONDS", 0.05)
    slots = ConnectionSlots(LIMITS)
    server = Acceptor(listener, slots, Echo)
    server.start()
    try:
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        while not len(slots):
            await asyncio.sleep(0.001)
        listener.refusals = 1
        async with asyncio.timeout(30):
            assert await echoed(listener) == b"x"
            assert await reader.read() == b""
        writer.close()
        assert slots.counts["evicted"] == 1
    finally:
        server.close()


async def test_a_server_without_a_slot_waits_without_a_busy_loop(listener: Short) -> None:
    """While all connections are at work the listening socket is not looked at; one that ends lets one in."""
    slots = ConnectionSlots(LIMITS)
    made: list[Echo] = []

    def make(slot: Slot) -> Echo:
        made.append(Echo(slot))
        return made[-1]

    server = Acceptor(listener, slots, make)
    server.start()
    try:
        ends = [await asyncio.open_connection(*listener.getsockname()) for _ in range(LIMITS.most)]
        async with asyncio.timeout(30):
            while len(made) < LIMITS.most:
                await asyncio.sleep(0.001)
            for one in made:
                one.slot.live()
            late = asyncio.create_task(echoed(listener))
            while not slots.counts["pauses"]:
                await asyncio.sleep(0.001)
            tries = listener.tries
            for _ in range(100):
                await asyncio.sleep(0.001)
            assert listener.tries == tries
            assert not late.done()
            ends[0][1].close()
            assert await late == b"x"
        assert slots.counts["pauses"] <= 3
        for _, writer in ends:
            writer.close()
    finally:
        server.close()


async def test_a_flood_does_not_replace_what_was_not_read_yet(listener: Short) -> None:
    """Many at once share the one slot that is not at work, each with something to say: all are answered."""
    limits = SlotLimits(8, 8, head_seconds=30.0, body_seconds=30.0, idle_seconds=30.0)
    made: list[Echo] = []

    def make(slot: Slot) -> Echo:
        made.append(Echo(slot))
        return made[-1]

    server = Acceptor(listener, ConnectionSlots(limits), make)
    server.start()
    try:
        async with asyncio.timeout(30):
            ends = [await asyncio.open_connection(*listener.getsockname()) for _ in range(limits.most - 1)]
            while len(made) < len(ends):
                await asyncio.sleep(0.001)
            for one in made:
                one.slot.live()
            assert await asyncio.gather(*(echoed(listener) for _ in range(50))) == [b"x"] * 50
        for _, writer in ends:
            writer.close()
    finally:
        server.close()


class Unsent(asyncio.Transport):
    """A transport of which only the bytes that wait to be sent are known."""

    max_size = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 30_000


async def test_a_peer_that_takes_an_answer_slowly_is_not_stuck(listener: Short) -> None:
    """As much waits at each look, but in between more of the answer could be written."""
    slot = Slot(Acceptor(listener, ConnectionSlots(LIMITS), Echo), 1)
    slot.begin(Unsent())
    looks = []
    for progress in (False, True, True, False):
        if progress:
            slot.note_progress()
        looks.append(slot.is_stuck(ConnectionPhase.ANSWER))
    assert looks == [False, False, False, True]
