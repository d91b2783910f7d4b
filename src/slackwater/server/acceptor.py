"""Acceptor: takes TCP connections from a listening socket, as many as there are slots, and ends the overdue ones.

It takes the place of asyncio's own loop. That one accepts without a bound, and where descriptors have run out it
reports once for each connection that it could not accept, thousands of times a second.

    free slot ───────────▶ accept, HEAD ─▶ …
    none, but a stranger ▶ accept, the stranger is closed
    none, all at work ───▶ pause: the socket is not watched until a connection ends or may be replaced
    EMFILE, ENFILE, … ───▶ pause as well, and close a stranger: that gives a descriptor back
"""

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from slackwater.server.connections import ConnectionPhase, ConnectionSlots, counted_address

_report = logging.getLogger("slackwater.server")

_BURST = 32
"""Connections accepted in one turn of the loop."""
_SHARE = 16
"""The same as a part of the slots, where these are few: no flood replaces all strangers before they had their turns."""
_AGAIN_SECONDS = 0.5
"""Pause after an accept that the system refused."""
_TURN_SECONDS = 0.005
"""Pause where room is to be had in a few turns."""
_LEAST_TAKEN = 16 * 1024
"""Bytes of an answer that a peer has to take between two looks, or all that is left."""
STRANGER_BYTES = 16 * 1024
"""Bytes that are read at a time from a stranger, and bytes that wait for it before its answer does."""
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\nretry-after: 1\r\n\r\n"
    b'{"error":"busy","message":"there are as many connections from your address as are allowed; close some"}'
)


class Slot:
    """The slot of one connection, for the protocols that serve it."""

    def __init__(self, acceptor: "Acceptor", number: int) -> None:
        self._acceptor = acceptor
        self._transport: asyncio.Transport | None = None
        self._unsent = 0
        self._dropped = False
        self.is_recognised = False
        """True once a request over the connection was admitted."""
        self.number = number

    def begin(self, transport: asyncio.Transport) -> None:
        """The connection is made, by a stranger: little is read ahead of it and little is kept for it."""
        self._transport = transport
        self._read_size: int = transport.max_size  # type: ignore[attr-defined]
        transport.max_size = STRANGER_BYTES  # type: ignore[attr-defined]
        transport.set_write_buffer_limits(high=STRANGER_BYTES)
        if self._dropped:
            transport.abort()

    def enter(self, phase: ConnectionPhase) -> None:
        """The connection comes to a phase."""
        self._acceptor.slots.enter(self.number, phase, self._acceptor.now())
        self._acceptor.resume()

    def recognise(self) -> None:
        """A request over it was admitted."""
        if self.is_recognised:
            return
        self._acceptor.slots.recognise(self.number)
        if self._transport is not None:
            self.is_recognised = True
            self._transport.max_size = self._read_size  # type: ignore[attr-defined]
            self._transport.set_write_buffer_limits()

    def note_progress(self) -> None:
        """The peer has taken so much of its answer that more of it could be written."""
        self._unsent = 0

    def live(self) -> None:
        """It is an accepted WebSocket from now on."""
        self.recognise()
        self.enter(ConnectionPhase.LIVE)

    def gone(self) -> None:
        """The connection has ended."""
        self._acceptor.forget(self.number)

    def drop(self) -> None:
        """Close the connection at once."""
        self._dropped = True
        if self._transport is not None:
            self._transport.abort()

    def is_stuck(self, phase: ConnectionPhase) -> bool:
        """True if a connection that is looked at has to be closed.

        A peer that takes what it is sent, slowly, stays; one that reads nothing keeps its connection no longer than
        one that says nothing.
        """
        if phase not in (ConnectionPhase.ANSWER, ConnectionPhase.IDLE) or self._transport is None:
            return True
        before, self._unsent = self._unsent, self._transport.get_write_buffer_size()
        if not self._unsent:
            return phase is ConnectionPhase.IDLE
        return 0 < before < self._unsent + _LEAST_TAKEN


class Acceptor:
    """Accepts on one listening socket; `make` makes the protocol of a connection. A server, as far as uvicorn asks."""

    def __init__(
        self,
        listener: socket.socket,
        slots: ConnectionSlots,
        make: Callable[[Slot], asyncio.Protocol],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.slots = slots
        self.now = now
        self._listener = listener
        self._make = make
        self._open: dict[int, Slot] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None
        self._full = False
        self._closed = False
        limits = slots.limits
        self._period = min(1.0, max(0.02, min(limits.head_seconds, limits.body_seconds, limits.idle_seconds) / 8))
        self._burst = max(1, min(_BURST, min(limits.most, limits.most_strangers) // _SHARE))

    def start(self) -> None:
        """Begin to accept, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        self._watch()
        self._look()

    def close(self) -> None:
        """Accept no more; connections go on."""
        self._closed = True
        for timer in (self._timer, self._again):
            if timer is not None:
                timer.cancel()
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener.fileno())

    async def wait_closed(self) -> None:
        """Nothing is held: uvicorn waits for the connections itself."""

    def forget(self, number: int) -> None:
        """A connection has ended."""
        self._open.pop(number, None)
        self.slots.leave(number)
        self.resume()

    def resume(self) -> None:
        """Accept again after a pause, if there is or will be room by now."""
        if self._full and self.slots.will_have_room:
            self._full = False
            self._watch()

    def _watch(self) -> None:
        self._again = None
        if not self._closed:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        self.slots.begin_turn(self.now())
        for _ in range(self._burst):
            if not self.slots.has_room:
                self._wait_for_room()
                return
            try:
                carrier, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno == errno.ECONNABORTED:
                    continue
                self._pause(_AGAIN_SECONDS)
                _report.warning("accepting pauses for %g s: %s", _AGAIN_SECONDS, error)
                self.slots.counts["pauses"] += 1
                if error.errno in _EXHAUSTED:
                    self._drop(self.slots.evict())
                return
            self._take(carrier, str(peer[0]) if isinstance(peer, tuple) else str(peer))

    def _wait_for_room(self) -> None:
        if self.slots.will_have_room:
            self._pause(_TURN_SECONDS)
        else:
            self._pause(None)
            self._full = True
            self.slots.counts["pauses"] += 1

    def _pause(self, seconds: float | None) -> None:
        self._loop.remove_reader(self._listener.fileno())
        if seconds is not None:
            self._again = self._loop.call_later(seconds, self._watch)

    def _take(self, carrier: socket.socket, host: str) -> None:
        carrier.setblocking(False)
        grant = self.slots.admit(counted_address(host), self.now())
        self._drop(grant.evicted)
        if grant.number is None:
            with carrier, suppress(OSError):
                carrier.send(_REFUSAL)
            return
        slot = self._open[grant.number] = Slot(self, grant.number)
        task = self._loop.create_task(self._connect(carrier, slot))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, carrier: socket.socket, slot: Slot) -> None:
        try:
            await self._loop.connect_accepted_socket(partial(self._make, slot), carrier)
        except Exception as error:
            # The peer has gone already, or there is no memory: this connection alone ends.
            _report.warning("a connection could not be taken: %s", error)
            carrier.close()
            slot.gone()

    def _drop(self, number: int | None) -> None:
        slot = None if number is None else self._open.pop(number, None)
        if slot is not None:
            slot.drop()

    def _look(self) -> None:
        """Close what is overdue, again and again."""
        now = self.now()
        for number, phase in list(self.slots.overdue(now)):
            slot = self._open.get(number)
            if slot is not None and not slot.is_stuck(phase):
                self.slots.prolong(number, now)
                continue
            if phase is not ConnectionPhase.IDLE:
                self.slots.counts["timed out"] += 1
            self._drop(number)
            self.slots.leave(number)
        self.resume()
        if not self._closed:
            self._timer = self._loop.call_later(self._period, self._look)
