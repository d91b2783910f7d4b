"""Send buffer of a socket: bounded by bytes, drained by one task that lives while there is anything in it.

What the system takes at once never waits here. The task lives only while something waits, so thousands of idle
connections, and busy ones whose peers keep up, cost no tasks. A message counts until its
write has returned: a write that waits for the system's buffers is what a slow peer looks like from here.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from slackwater.dissemination.transports.base import Carried, TransportLimits, size


class Outbox:
    """The unsent messages of one connection, in order."""

    def __init__(
        self,
        write: Callable[[Carried], Awaitable[None]],
        write_at_once: Callable[[Carried], bool],
        failed: Callable[[Exception], None],
        limits: TransportLimits,
    ) -> None:
        self._write = write
        self._write_at_once = write_at_once
        self._failed = failed
        self._limits = limits
        self._waiting: deque[tuple[Carried, int]] | None = None
        self._writer: asyncio.Task[None] | None = None
        # Made when there is something to wait for: of most connections there never is.
        self._room: asyncio.Event | None = None
        self._empty: asyncio.Event | None = None
        self._dropped = False
        self.unsent = 0

    def put(self, message: Carried) -> bool:
        """Take a message; False where the buffer would exceed its limit."""
        weight = size(message)
        if self._dropped or self.unsent + weight > self._limits.unsent:
            return False
        if self._writer is None and self._write_at_once(message):
            return True
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append((message, weight))
        self.unsent += weight
        if self._empty is None:
            self._empty = asyncio.Event()
        if self._room is None and not self.roomy:
            self._room = asyncio.Event()
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._drain())
        return True

    @property
    def roomy(self) -> bool:
        """True while the peer keeps up."""
        return self.unsent <= self._limits.hold_back

    async def room(self) -> None:
        """Return when there is room again, or nothing will be written any more."""
        if self._room is not None:
            await self._room.wait()

    async def flushed(self) -> None:
        """Return when all is written, or nothing will be written any more."""
        if self._empty is not None:
            await self._empty.wait()

    def drop(self) -> None:
        """Forget what waits; nothing is taken any more."""
        self._dropped = True
        self._waiting = None
        self.unsent = 0
        if self._writer is not None:
            self._writer.cancel()
        self._tell_room()
        self._tell_empty()

    async def close(self) -> None:
        """Drop the buffer, and wait for the writer."""
        writer = self._writer
        self.drop()
        if writer is not None and writer is not asyncio.current_task():
            await asyncio.wait([writer])

    async def _drain(self) -> None:
        try:
            while self._waiting:
                message, weight = self._waiting[0]
                await self._write(message)
                if self._dropped:
                    return
                self._waiting.popleft()
                self.unsent -= weight
                if self.unsent < self._limits.hold_back / 2:
                    self._tell_room()
            self._waiting = None
            self._tell_empty()
        except Exception as error:
            self._writer = None
            self.drop()
            self._failed(error)
        finally:
            self._writer = None

    def _tell_room(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None

    def _tell_empty(self) -> None:
        if self._empty is not None:
            self._empty.set()
            self._empty = None
