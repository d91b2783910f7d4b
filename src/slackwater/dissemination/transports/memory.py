"""In-process transport: the plain twin of every other one, for tests and simulations.

What one end sends lies in the inbox of the other. The first `unread` messages there count as arrived, the rest as
unsent: that is where a slow reader is felt.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from slackwater.dissemination.transports.base import (
    Carried,
    Closed,
    Ended,
    Handler,
    How,
    TransportLimits,
    Unreachable,
    shortened,
    size,
    too_large,
)


class MemoryConnection:
    """One end of a pair in memory."""

    def __init__(self, peer: str, limits: TransportLimits) -> None:
        self._peer = peer
        self._limits = limits
        self._other: MemoryConnection = self
        self._inbox: deque[tuple[Carried, int]] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._taken = asyncio.Event()
        self._over = asyncio.Event()
        self._ended: Ended | None = None
        self._closing = False
        self._unsent = 0

    @property
    def peer(self) -> str:
        """The address of the listener, or which dialler this was."""
        return self._peer

    @property
    def ended(self) -> Ended | None:
        """How it ended."""
        return self._ended

    @property
    def unsent(self) -> int:
        """Bytes in the other's inbox beyond what counts as arrived."""
        return self._unsent

    def send(self, message: Carried) -> bool:
        """Put it into the other's inbox."""
        weight = size(message)
        if weight > self._limits.message:
            raise too_large(message, self._limits)
        if self._ended is not None or self._closing:
            return False
        other = self._other
        if weight > other._limits.message:
            why = f"a message of {weight} bytes, the limit is {other._limits.message}"
            other._end(Ended(How.TOO_LARGE, True, why))
            self._end(Ended(How.TOO_LARGE, False, why))
            return False
        waits = len(other._inbox) >= other._limits.unread
        if waits and self._unsent + weight > self._limits.unsent:
            self._overflow()
            return False
        other._inbox.append((message, weight))
        other._arrived.set()
        if waits:
            self._unsent += weight
            if self._unsent > self._limits.hold_back:
                self._room.clear()
        return self._unsent <= self._limits.hold_back

    async def drained(self) -> None:
        """Wait for room."""
        await self._room.wait()

    async def receive(self) -> Carried:
        """Take the next message out of the inbox."""
        while not self._inbox:
            if self._ended is not None:
                raise Closed(self._ended)
            self._arrived.clear()
            await self._arrived.wait()
        message, _ = self._inbox.popleft()
        self._other._carried(self)
        return message

    async def close(self, why: str = "") -> None:
        """End both sides, once the other has taken what was sent or `grace` has passed."""
        if self._ended is None and not self._closing:
            self._closing = True
            if self._unsent:
                self._taken.clear()
                try:
                    async with asyncio.timeout(self._limits.grace):
                        await self._taken.wait()
                except TimeoutError:
                    self.kill()
                    return
            self._end(Ended(How.CLOSED, True, shortened(why)))
            self._other._end(Ended(How.CLOSED, False, shortened(why)))
        await self._over.wait()

    def kill(self) -> None:
        """End without a close message, as a killed process does: messages in transit are lost."""
        self._end(Ended(How.LOST, True, "killed"))
        inbox = self._other._inbox
        while len(inbox) > self._other._limits.unread:
            inbox.pop()
        self._other._end(Ended(How.LOST, False, "the peer is gone"))

    def _carried(self, reader: "MemoryConnection") -> None:
        """The reader took one message, so the first that waited has arrived."""
        limit = reader._limits.unread
        if len(reader._inbox) >= limit:
            self._unsent -= reader._inbox[limit - 1][1]
        if self._unsent < self._limits.hold_back / 2:
            self._room.set()
        if not self._unsent:
            self._taken.set()

    def _overflow(self) -> None:
        why = f"the peer does not read: {self._unsent} bytes wait, the limit is {self._limits.unsent}"
        inbox = self._other._inbox
        while len(inbox) > self._other._limits.unread:
            inbox.pop()
        self._end(Ended(How.OVERFLOW, True, why))
        self._other._end(Ended(How.LOST, False, "the peer is gone"))

    def _end(self, ended: Ended) -> None:
        if self._ended is None:
            self._ended = ended
        self._unsent = 0
        self._room.set()
        self._taken.set()
        self._over.set()
        self._arrived.set()


def pair(limits: TransportLimits, other: TransportLimits | None = None) -> tuple[MemoryConnection, MemoryConnection]:
    """Two ends that belong together."""
    left, right = MemoryConnection("right", limits), MemoryConnection("left", other or limits)
    left._other, right._other = right, left
    return left, right


class MemoryListener:
    """A name in this process under which connections arrive."""

    def __init__(self, address: str, handler: Handler, limits: TransportLimits) -> None:
        self._address = address
        self.handler = handler
        self.limits = limits
        self.handling: dict[asyncio.Task[None], MemoryConnection] = {}

    @property
    def address(self) -> str:
        """What a peer dials."""
        return self._address

    def take(self, connection: MemoryConnection) -> None:
        """Handle a new connection in a task of its own."""
        task = asyncio.get_running_loop().create_task(self._handle(connection))
        self.handling[task] = connection
        task.add_done_callback(lambda done: self.handling.pop(done, None))

    async def _handle(self, connection: MemoryConnection) -> None:
        try:
            await self.handler(connection)
        except Closed:
            pass
        finally:
            await connection.close()


class MemoryTransport:
    """Listeners and diallers of one process, by name."""

    def __init__(self) -> None:
        self._listeners: dict[str, MemoryListener] = {}
        self._numbers = itertools.count(1)

    @asynccontextmanager
    async def listen(
        self, handler: Handler, limits: TransportLimits | None = None, address: str | None = None
    ) -> AsyncIterator[MemoryListener]:
        """Take connections under a name."""
        name = address or f"memory://{next(self._numbers)}"
        listener = self._listeners[name] = MemoryListener(name, handler, limits or TransportLimits())
        try:
            yield listener
        finally:
            del self._listeners[name]
            while listener.handling:
                tasks = list(listener.handling)
                await asyncio.gather(*(end.close("the listener closes") for end in listener.handling.values()))
                await asyncio.wait(tasks)

    async def dial(self, address: str, limits: TransportLimits | None = None) -> MemoryConnection:
        """Connect to a name."""
        await asyncio.sleep(0)
        listener = self._listeners.get(address)
        if listener is None:
            raise Unreachable(f"there is no listener at {address}: start one there first")
        dialler, taken = pair(limits or TransportLimits(), listener.limits)
        dialler._peer, taken._peer = address, f"dialler of {address}"
        listener.take(taken)
        return dialler
