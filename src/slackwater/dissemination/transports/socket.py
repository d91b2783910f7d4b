"""WebSocket connection: the transport contract over any WebSocket library.

The libraries differ in how they report that a WebSocket is over; `WebSocketOver` is what they have in common. What the
contract asks beyond them is here once: sends that never wait, bounded buffers, one end with one reason.
"""

import asyncio
from typing import Protocol

from slackwater.dissemination.transports.base import (
    Carried,
    Closed,
    Ended,
    How,
    TransportLimits,
    shortened,
    size,
    too_large,
)
from slackwater.dissemination.transports.outbox import Outbox

NORMAL = 1000
NO_CODE = 1005
ABNORMAL = 1006
_HOW = {
    1002: How.GARBAGE,
    1003: How.GARBAGE,
    ABNORMAL: How.LOST,
    1007: How.GARBAGE,
    1009: How.TOO_LARGE,
    1011: How.LOST,  # what the libraries say of a peer that does not answer pings
}
"""RFC 6455, section 7.4.1; every other code is a peer that closed and said so."""

_WHY = {How.LOST: "the connection broke", How.GARBAGE: "what came was not as WebSocket says it must be"}


class WebSocketOver(Exception):
    """A WebSocket is over: the code and reason of its close frame, and which side sent it first."""

    def __init__(self, code: int, why: str, *, here: bool) -> None:
        super().__init__(code, why)
        how = _HOW.get(code, How.CLOSED)
        self.ended = Ended(how, here, why or _WHY.get(how, ""))


class WebSocket(Protocol):
    """Interface to a WebSocket library."""

    @property
    def peer(self) -> str:
        """Name of the peer."""
        ...

    async def read(self) -> Carried:
        """The next message; raises `WebSocketOver`."""
        ...

    def write_at_once(self, message: Carried) -> bool:
        """Write one message without waiting; False, and nothing is written, where that cannot be."""
        ...

    async def write(self, message: Carried) -> None:
        """Write one message, waiting where the system's buffers are full; may raise `WebSocketOver`."""
        ...

    async def shut(self, code: int, why: str) -> None:
        """Send a close frame and see the peer's; may wait for ever."""
        ...

    def abort(self) -> None:
        """Drop the socket at once, what is in its buffers included."""
        ...


class WebSocketConnection:
    """One end of a pair over a WebSocket."""

    def __init__(self, socket: WebSocket, limits: TransportLimits) -> None:
        self._socket = socket
        self._limits = limits
        self._ended: Ended | None = None
        self._closer: asyncio.Task[None] | None = None
        self._outbox = Outbox(socket.write, socket.write_at_once, self._write_failed, limits)

    @property
    def peer(self) -> str:
        """Name of the peer."""
        return self._socket.peer

    @property
    def ended(self) -> Ended | None:
        """How it ended."""
        return self._ended

    @property
    def unsent(self) -> int:
        """Bytes that wait in the outbox."""
        return self._outbox.unsent

    def send(self, message: Carried) -> bool:
        """Put it into the outbox."""
        if size(message) > self._limits.message:
            raise too_large(message, self._limits)
        if self._ended is not None or self._closer is not None:
            return False
        if not self._outbox.put(message):
            why = f"the peer does not read: {self._outbox.unsent} bytes wait, the limit is {self._limits.unsent}"
            self._end(Ended(How.OVERFLOW, True, why))
            self._socket.abort()
            return False
        return self._outbox.roomy

    async def drained(self) -> None:
        """Wait for room in the outbox."""
        await self._outbox.room()

    async def receive(self) -> Carried:
        """Read the next message."""
        if self._ended is None or not self._ended.here:
            try:
                return await self._socket.read()
            except WebSocketOver as over:
                self._end(over.ended)
        ended = self._ended
        assert ended is not None
        raise Closed(ended)

    async def close(self, why: str = "") -> None:
        """Deliver, exchange close frames, and drop the socket where the peer does not take part in time."""
        if self._closer is None:
            # A task of its own, so that a caller who is cancelled leaves no socket behind.
            self._closer = asyncio.get_running_loop().create_task(self._close(why))
        await asyncio.shield(self._closer)

    async def _close(self, why: str) -> None:
        try:
            async with asyncio.timeout(self._limits.grace):
                if self._ended is None:
                    await self._outbox.flushed()
                self._end(Ended(How.CLOSED, True, shortened(why)))
                await self._socket.shut(NORMAL, shortened(why))
        except (TimeoutError, WebSocketOver):
            self._end(Ended(How.CLOSED, True, shortened(why)))
        self._socket.abort()
        await self._outbox.close()

    def _write_failed(self, error: Exception) -> None:
        if isinstance(error, WebSocketOver):
            self._end(error.ended)
        else:
            self._end(Ended(How.LOST, True, f"{type(error).__name__}: {error}"))
            self._socket.abort()

    def _end(self, ended: Ended) -> None:
        known = self._ended
        # A writer may learn only that it cannot write; the reader then learns why.
        if known is None or (known.how is How.LOST and not known.here and ended.how is not How.LOST):
            self._ended = ended
            self._outbox.drop()
