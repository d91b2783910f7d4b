"""NATS connection end: flow control, sequence checks and liveness on top of NATS.

NATS knows neither connections nor slow readers: it takes what is published and drops it where a receiver does not
keep up. So the receiving end reports how much it has taken, and the sending end has no more on the way
than `unread` messages of the peer, nor more than a window of bytes. What does not fit waits here, is counted, and is
what a slow reader looks like. Of a message in many pieces the part that has come counts as taken; what waits unread
is then one message, within the limit for messages.
"""

import asyncio
import time
from collections import deque

from slackwater.dissemination.transports.base import (
    Carried,
    Closed,
    Denied,
    Ended,
    How,
    TransportLimits,
    Unreachable,
    shortened,
    size,
    too_large,
)
from slackwater.dissemination.transports.nats_bus import Bus, give_back
from slackwater.dissemination.transports.nats_frames import (
    HEAD,
    Accept,
    ConnectionRequest,
    Deny,
    End,
    EndReceived,
    Frame,
    MessagePiece,
    Status,
    Unreadable,
    read,
    write,
)

WINDOW = 1 << 20
"""Bytes that may be on the way and not taken."""
LARGEST_PIECE = 256 << 10
"""Bytes of a piece, even where the server takes more, so that connections share the bus fairly."""
_SEEN = write(EndReceived())
_SILENCE = 2.0
"""Times the ping interval after which a peer is lost."""


class _Outgoing:
    """A message on its way out."""

    __slots__ = ("at", "body", "text", "total")

    def __init__(self, message: Carried) -> None:
        self.text = isinstance(message, str)
        self.body = memoryview(message.encode() if isinstance(message, str) else message)
        self.total = len(self.body)
        self.at = 0


class NatsConnection:
    """One end of a pair over a bus."""

    def __init__(self, bus: Bus, peer: str, limits: TransportLimits, incoming: int | None = None) -> None:
        self._bus = bus
        self._peer = peer
        self._limits = limits
        self._incoming = incoming or limits.message
        self.subject = bus.join(self)
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._there = ""
        self._ended: Ended | None = None
        self._closer: asyncio.Task[None] | None = None
        self._reason: str | None = None
        self._over = asyncio.Event()
        # Outgoing.
        self._outbox: deque[_Outgoing] = deque()
        self._unsent = 0
        self._room = asyncio.Event()
        self._room.set()
        self._sequence = 0
        self._sent_messages = self._sent_bytes = 0
        self._allowed = 0
        self._their_messages = self._their_bytes = 0
        self._end_sent = False
        # Incoming.
        self._inbox: deque[tuple[Carried, int]] = deque()
        self._arrived = asyncio.Event()
        self._expected = 0
        self._parts: list[bytes] = []
        self._part_bytes = 0
        self._taken_messages = self._taken_bytes = 0
        self._told_messages = self._told_bytes = 0
        self._status_due = False
        self._heard = self._said = time.monotonic()

    @property
    def peer(self) -> str:
        """Name of the peer."""
        return self._peer

    @property
    def ended(self) -> Ended | None:
        """How it ended."""
        return self._ended

    @property
    def unsent(self) -> int:
        """Bytes that wait for the peer to take what came before."""
        return self._unsent

    def meet(self, there: str, unread: int) -> None:
        """The other end is at this subject and takes so many messages unread."""
        self._there, self._allowed = there, max(1, unread)
        self._bus.ready(self)
        if not self.opened.done():
            self.opened.set_result(None)

    # For programs.

    def send(self, message: Carried) -> bool:
        """Put it into the outbox."""
        weight = size(message)
        if weight > self._limits.message:
            raise too_large(message, self._limits)
        if self._ended is not None or self._closer is not None:
            return False
        if self._unsent + weight > self._limits.unsent:
            why = f"the peer does not read: {self._unsent} bytes wait, the limit is {self._limits.unsent}"
            self._break(Ended(How.OVERFLOW, True, why), "the peer is gone")
            return False
        self._outbox.append(_Outgoing(message))
        self._unsent += weight
        if self._unsent > self._limits.hold_back:
            self._room.clear()
        self._bus.ready(self)
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
        message, weight = self._inbox.popleft()
        self._taken_messages += 1
        self._took(weight)
        return message

    async def close(self, why: str = "") -> None:
        """Deliver, say goodbye, and leave the bus where the peer does not take part in time."""
        if self._closer is None:
            # A task of its own, so that a caller who is cancelled leaves nothing behind.
            self._closer = asyncio.get_running_loop().create_task(self._close(shortened(why)))
        await asyncio.shield(self._closer)

    async def _close(self, why: str) -> None:
        if self._ended is None:
            self._reason = why
            self._bus.ready(self)
            try:
                async with asyncio.timeout(self._limits.grace):
                    await self._over.wait()
            except TimeoutError:
                self._break(Ended(How.CLOSED, True, why), "the peer did not wait any longer")
        self._bus.leave(self.subject)
        await give_back(self._bus)

    # For the bus.

    def next_frame(self) -> tuple[str, bytes, str] | None:
        """A status that is due, the next piece that the peer has room for, or the end."""
        if self._ended is not None or not self._there:
            return None
        if self._status_due:
            self._status_due = False
            self._said = time.monotonic()
            self._told_messages, self._told_bytes = self._taken_messages, self._taken_bytes
            return self._frame(Status(self._sequence, self._taken_messages, self._taken_bytes), answer=True)
        if self._outbox:
            return self._frame(self._next_piece()) if self._may_send(self._outbox[0]) else None
        if self._reason is not None and not self._end_sent:
            self._end_sent = True
            return self._frame(End(How.CLOSED, self._sequence, self._reason), answer=True)
        return None

    def _may_send(self, first: _Outgoing) -> bool:
        if first.at == 0 and self._sent_messages - self._their_messages >= self._allowed:
            return False
        return self._sent_bytes - self._their_bytes < WINDOW

    def _next_piece(self) -> MessagePiece:
        message = self._outbox[0]
        body = message.body[message.at : message.at + min(LARGEST_PIECE, self._bus.largest - HEAD)]
        begins, ends = message.at == 0, message.at + len(body) == message.total
        piece = MessagePiece(self._sequence, message.total, message.text, begins, ends, bytes(body))
        self._sequence += 1
        message.at += len(body)
        self._sent_messages += begins
        self._sent_bytes += len(body)
        self._unsent -= len(body)
        if ends:
            self._outbox.popleft()
        if self._unsent < self._limits.hold_back / 2:
            self._room.set()
        return piece

    def _frame(self, frame: Frame, answer: bool = False) -> tuple[str, bytes, str]:
        return self._there, write(frame), self.subject if answer else ""

    def arrived(self, payload: bytes) -> None:
        """Do what a frame says."""
        if self._ended is not None:
            if self._there and payload != _SEEN:
                self._bus.post(self._there, _SEEN)
            return
        self._heard = time.monotonic()
        try:
            match read(payload):
                case MessagePiece() as piece:
                    self._take_piece(piece)
                case Status(sequence, messages, taken):
                    if self._in_order(sequence):
                        self._their_messages = max(self._their_messages, messages)
                        self._their_bytes = max(self._their_bytes, taken)
                        self._bus.ready(self)
                case End(how, sequence, why):
                    if how is not How.CLOSED or self._in_order(sequence):
                        self._bus.post(self._there, _SEEN)
                        self._end(Ended(how, False, why))
                case EndReceived():
                    if self._end_sent and self._reason is not None:
                        self._end(Ended(How.CLOSED, True, self._reason))
                case Accept(there, unread):
                    self.meet(there, unread)
                case Deny(status, body):
                    denied = Denied(f"{self._peer} answered with status {status}", status=status, body=body)
                    self._refused(denied)
                case ConnectionRequest():
                    raise Unreadable("an open where a connection is open")
        except Unreadable as error:
            self._garbage(str(error))

    def nobody_there(self) -> None:
        """The peer, or the listener that was dialled, is gone."""
        if self.opened.done():
            self._end(Ended(How.LOST, False, "the peer is gone"))
        else:
            self._refused(
                Unreachable(f"there is no listener at {self._peer}: check the name, and that the server is running")
            )

    def bus_lost(self, why: str) -> None:
        """End the connection: losses with the bus are unknown."""
        self._refused(Unreachable(why))
        self._end(Ended(How.LOST, False, why))

    def tick(self, now: float) -> None:
        """Send a liveness status, and detect that the peer sends none."""
        if self._ended is not None or not self._there:
            return
        if now - self._heard > _SILENCE * self._bus.ping:
            self._break(Ended(How.LOST, False, "nothing was heard of the peer for too long"), "the peer gave up")
        elif now - self._said >= self._bus.ping * 0.7:
            self._status_due = True
            self._bus.ready(self)

    def _take_piece(self, piece: MessagePiece) -> None:
        if not self._in_order(piece.sequence):
            return
        self._expected += 1
        if piece.first is bool(self._parts) or len(self._inbox) > self._limits.unread:
            self._garbage("pieces that belong to no message, or more than were asked for")
            return
        if piece.total > self._incoming:
            why = f"a message of {piece.total} bytes, the limit is {self._incoming}"
            self._break(Ended(How.TOO_LARGE, True, why), why, How.TOO_LARGE)
            return
        self._parts.append(piece.body)
        self._part_bytes += len(piece.body)
        if self._part_bytes > piece.total or (piece.last and self._part_bytes < piece.total):
            self._garbage("pieces that are not as long as their message")
        elif not piece.last:
            self._took(len(piece.body))
        else:
            whole = b"".join(self._parts) if len(self._parts) > 1 else piece.body
            self._parts.clear()
            self._part_bytes = 0
            try:
                message: Carried = whole.decode() if piece.text else whole
            except UnicodeDecodeError:
                self._garbage("text that is not text")
                return
            self._inbox.append((message, len(piece.body)))
            self._arrived.set()

    def _in_order(self, sequence: int) -> bool:
        if sequence != self._expected:
            why = f"frame {sequence} came where {self._expected} was expected: the bus lost some"
            self._break(Ended(How.LOST, False, why), why)
            return False
        return True

    def _took(self, weight: int) -> None:
        """Acknowledge before the peer has to wait."""
        self._taken_bytes += weight
        messages, taken = self._taken_messages - self._told_messages, self._taken_bytes - self._told_bytes
        if 2 * messages >= self._limits.unread or 2 * taken >= WINDOW:
            self._status_due = True
            self._bus.ready(self)

    # The end.

    def _garbage(self, why: str) -> None:
        self._break(Ended(How.GARBAGE, True, why), why, How.GARBAGE)

    def _break(self, ended: Ended, told: str, how: How = How.LOST) -> None:
        """End it here, and send the reason to the peer."""
        if self._there and self._ended is None:
            self._bus.post(self._there, write(End(how, self._sequence, told)))
        self._end(ended)

    def _refused(self, error: Exception) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
            self.forsake()

    def forsake(self) -> None:
        """End: the dial failed."""
        self._end(Ended(How.LOST, True, "it was never open"))

    def _end(self, ended: Ended) -> None:
        if self._ended is None:
            self._ended = ended
        self._outbox.clear()
        self._parts.clear()
        self._unsent = 0
        self._room.set()
        self._over.set()
        self._arrived.set()
