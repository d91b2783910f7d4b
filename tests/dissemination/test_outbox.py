"""The buffer between a session and its socket: what the system takes at once, and what waits behind it."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from slackwater.dissemination.transports.base import Carried, TransportLimits
from slackwater.dissemination.transports.outbox import Outbox

LIMITS = TransportLimits(message=1000, hold_back=100, unsent=400)


class Peer:
    """A socket whose peer reads now and then."""

    def __init__(self) -> None:
        self.taken: list[Carried] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.failures: list[Exception] = []
        self.outbox = Outbox(self.write, self.write_at_once, self.failures.append, LIMITS)

    def write_at_once(self, message: Carried) -> bool:
        if not self.reads.is_set():
            return False
        self.taken.append(message)
        return True

    async def write(self, message: Carried) -> None:
        await self.reads.wait()
        self.taken.append(message)
        await asyncio.sleep(0)


async def test_what_the_peer_takes_needs_no_task() -> None:
    peer = Peer()
    before = asyncio.all_tasks()
    assert all(peer.outbox.put(b"message %d" % number) for number in range(50))
    assert peer.taken == [b"message %d" % number for number in range(50)]
    assert asyncio.all_tasks() == before
    assert (peer.outbox.unsent, peer.outbox.roomy) == (0, True)


async def test_a_message_never_overtakes_one_that_waits() -> None:
    peer = Peer()
    peer.reads.clear()
    peer.outbox.put(b"first")
    await asyncio.sleep(0)
    peer.reads.set()
    peer.outbox.put(b"second")
    await peer.outbox.flushed()
    assert peer.taken == [b"first", b"second"]


async def test_a_message_above_the_limit_is_not_written_at_once_either() -> None:
    peer = Peer()
    assert not peer.outbox.put(bytes(LIMITS.unsent + 1))
    assert peer.taken == []


@given(st.lists(st.sampled_from(["put", "stop", "read", "turn"]), max_size=60))
def test_in_order_whatever_the_peer_does(moves: list[str]) -> None:
    async def live() -> None:
        peer, put = Peer(), 0
        for move in moves:
            if move == "put":
                put += peer.outbox.put(b"%d" % put)
            elif move == "turn":
                await asyncio.sleep(0)
            else:
                (peer.reads.set if move == "read" else peer.reads.clear)()
        peer.reads.set()
        await peer.outbox.flushed()
        assert peer.taken == [b"%d" % number for number in range(put)]
        assert peer.outbox.unsent == 0
        await peer.outbox.close()

    asyncio.run(live())
