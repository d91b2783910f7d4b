"""Server-side WebSocket transport under a web server (Starlette on uvicorn).

An ASGI application can neither drop a socket nor see that it is gone: a peer that stops reading would keep it, with
what is buffered, for as long as it likes. `HeldProtocol`, given to uvicorn as `ws=`, lets it do both. Under another
web server a connection that overflows, or that closes, is left to that server to finish.

Each message through ASGI costs a task and a dozen calls. While the system takes what is written, `HeldProtocol` writes
a message at once instead; and what is received comes from its queue without a detour. Frames of a server are a head
of two to ten bytes and the message as it is (RFC 6455, section 5.2).

Most of what a client sends is acknowledgements: short messages, each in one frame that comes alone. Such a frame is
read here and offered at once, without a parser and a change of tasks. Everything else, and everything while a frame or
a message is incomplete, is read by the library: it is known to stand between two frames when the frames it has given
out are as long as the bytes it was given.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.protocol import OPEN

from slackwater.dissemination.transports.base import Carried
from slackwater.dissemination.transports.socket import ABNORMAL, NO_CODE, WebSocketOver

if TYPE_CHECKING:
    from websockets.http11 import Request

EXTENSION = "slackwater"
"""Name of what this project's own protocols add to the scope of a request."""
_BY_SERVER = {1002, 1003, 1007, 1009, 1011}
"""Codes with which the web server itself ends a WebSocket; a client sends none of them by itself."""


_READ_AHEAD = 8
_SMALL = 4 * 1024
"""Messages that are read ahead, and their bytes each: to pause after every message takes two calls of the system."""
_BINARY, _TEXT = 0x82, 0x81
"""First byte of a frame that is a whole message."""
_LINGER = 1.0
"""Seconds for a peer that violated the protocol to read the reason."""
_GONE = (RuntimeError, OSError, WebSocketDisconnect)
"""Exceptions of Starlette and uvicorn for a WebSocket that has ended."""


class ConnectionSlot(Protocol):
    """The slot that a server keeps for a connection."""

    def recognise(self) -> None:
        """A request over the connection was admitted."""
        ...

    def live(self) -> None:
        """The connection is an accepted WebSocket from now on."""
        ...

    def gone(self) -> None:
        """The connection has ended."""
        ...


def recognise(scope: Mapping[str, Any]) -> None:
    """Tell the slot of a request's connection that the request was admitted; other web servers have no slots."""
    slot: ConnectionSlot | None = (scope.get("extensions") or {}).get(EXTENSION, {}).get("slot")
    if slot is not None:
        slot.recognise()


_MASKED, _HEAD, _LONGEST_ALONE = 0x80, 6, 125
"""Bit of a frame with a mask, bytes of its head and mask, and the longest message with such a head."""

Take: TypeAlias = Callable[[bytes], bool]
"""Takes a message as it arrives, or leaves it to the reader."""


def alone(data: bytes) -> bytes | None:
    """The message of a client's frame, if these bytes are one short binary frame and it is the whole message.

    >>> alone(bytes.fromhex("82 83 01 02 03 04 60 60 60")), alone(bytes.fromhex("82 83 01 02 03 04 60 60"))
    (b'abc', None)
    """
    size = len(data) - _HEAD
    if not 0 < size <= _LONGEST_ALONE or data[0] != _BINARY or data[1] != _MASKED | size:
        return None
    mask = (data[2:_HEAD] * (size // 4 + 1))[:size]
    return (int.from_bytes(data[_HEAD:]) ^ int.from_bytes(mask)).to_bytes(size)


def _wire_size(frame: Frame) -> int:
    """Bytes of a client's frame; one that is written longer than need be counts as less than it is."""
    size = len(frame.data)
    return size + _HEAD + (0 if size <= _LONGEST_ALONE else 2 if size < 1 << 16 else 8)


def framed(message: Carried) -> bytes:
    """A message as a server writes it.

    >>> framed(b"abc"), framed("ü" * 100)[:4]
    (b'\\x82\\x03abc', b'\\x81~\\x00\\xc8')
    """
    kind, data = (_BINARY, message) if isinstance(message, bytes) else (_TEXT, message.encode())
    size = len(data)
    if size < 126:
        return bytes((kind, size)) + data
    if size < 1 << 16:
        return bytes((kind, 126)) + size.to_bytes(2) + data
    return bytes((kind, 127)) + size.to_bytes(8) + data


class Hold:
    """A way past ASGI: to drop a socket, to see that it is gone, to write and to be offered messages at once."""

    def __init__(self, protocol: "HeldProtocol") -> None:
        self.abort = protocol.transport.abort
        self.write = protocol.write_at_once
        self.receive = protocol.receive
        self.take: Take = lambda message: False
        self.gone = asyncio.Event()


class HeldProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, whose application may drop the socket and write to it at once."""

    slot: ConnectionSlot | None = None
    """Set by the server before the connection is handed over, if it keeps slots."""
    _hold: Hold | None = None
    _lingering: asyncio.TimerHandle | None = None
    _unparsed = 0
    """Bytes that the library was given and has not given out as frames."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send small messages at once; asyncio sees to it only where the listening socket was made for TCP by name."""
        super().connection_made(transport)
        carrier = transport.get_extra_info("socket")
        if carrier is not None and carrier.family in (socket.AF_INET, socket.AF_INET6):
            carrier.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def handle_connect(self, event: "Request") -> None:
        """Add the hold to the application's scope; its task begins after this returns."""
        super().handle_connect(event)
        if not self.close_sent:
            self._hold = Hold(self)
            self.scope["extensions"][EXTENSION] = {"hold": self._hold}
            # No client says anything before it has the answer. If one does, its frames are not counted from the first.
            self._unparsed += len(self.conn.reader.buffer)

    def write_at_once(self, message: Carried) -> bool:
        """Write a message; False, and nothing is written, while the peer is behind or where the WebSocket is ending."""
        if self.close_sent or self.conn.state is not OPEN or not self.writable.is_set() or self.transport.is_closing():
            return False
        self.transport.write(framed(message))
        return True

    def send_receive_event_to_app(self) -> None:
        """Hand a message over; reading pauses behind a large one, or where some wait already."""
        may_go_on = sum(map(len, self.frames)) <= _SMALL and self.queue.qsize() < _READ_AHEAD
        paused, self.read_paused = self.read_paused, self.read_paused or may_go_on
        super().send_receive_event_to_app()
        if may_go_on:
            self.read_paused = paused

    def data_received(self, data: bytes) -> None:
        """Hand over what came before garbage; uvicorn would let go of what arrived in the same piece."""
        if self._lingering is not None:
            return
        if self._hold is None:
            self.conn.receive_data(data)
        elif self._taken(self._hold, data):
            return
        else:
            self.conn.receive_data(data)
            self._unparsed += len(data)
            self._unparsed -= sum(_wire_size(event) for event in self.conn.events if isinstance(event, Frame))
        self.handle_events()
        if not self.handshake_initiated and self.conn.handshake_exc is not None:
            # A head that HTTP allows and WebSocket does not, as one of too many lines: uvicorn would wait for more.
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()
            return
        if self.conn.parser_exc is not None and not self.close_sent:
            self.handle_parser_exception()

    def _taken(self, hold: Hold, data: bytes) -> bool:
        """Offer what came, if it is a message alone and none waits before it; True if it was taken."""
        if self._unparsed or self.conn.current_size is not None or self.conn.state is not OPEN:
            return False
        message = alone(data) if self.queue.empty() else None
        return message is not None and hold.take(message)

    def handle_parser_exception(self) -> None:
        """Send the reason of the end, and discard input for a moment.

        uvicorn would close at once. With bytes of the peer unread that resets the connection, and the reason may be
        lost on the way.
        """
        assert self.conn.close_sent is not None
        code, reason = self.conn.close_sent.code, self.conn.close_sent.reason
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.close_sent = True
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.write_eof()
        self._lingering = self.loop.call_later(_LINGER, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Mark the hold as lost."""
        if self._lingering is not None:
            self._lingering.cancel()
        super().connection_lost(exc)
        if self._hold is not None:
            self._hold.gone.set()
        if self.slot is not None:
            self.slot.gone()

    async def send(self, message: MutableMapping[str, Any]) -> None:  # type: ignore[override]
        """Tell the slot when the WebSocket is accepted: from then on its session has the say."""
        await super().send(message)  # type: ignore[arg-type]
        if self.slot is not None and message["type"] == "websocket.accept":
            self.slot.live()


class AsgiSocket:
    """Socket adapter for Starlette: an accepted WebSocket.

    The web server's own limit on the size of a message (uvicorn's `ws_max_size`) takes the place of `Limits.message`
    for what is received, and it reads ahead by a few small messages or one large one.
    """

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        client = socket.client
        self._peer = "unknown" if client is None else f"{client.host}:{client.port}"
        self._hold: Hold | None = (socket.scope.get("extensions") or {}).get(EXTENSION, {}).get("hold")
        self._receive: Callable[[], Awaitable[Mapping[str, Any]]]
        self._receive = socket.receive if self._hold is None else self._hold.receive
        self._over: WebSocketOver | None = None

    @property
    def peer(self) -> str:
        """Name of the peer."""
        return self._peer

    def offer(self, take: Take) -> None:
        """Offer short messages to `take` as they arrive, where the web server lets us; others are read as always."""
        if self._hold is not None:
            self._hold.take = take

    async def read(self) -> Carried:
        """The next message."""
        if self._over is None:
            received = await self._receive()
            if received["type"] == "websocket.receive":
                binary: bytes | None = received.get("bytes")
                text: str = received.get("text") or ""
                return text if binary is None else binary
            code: int = received.get("code") or NO_CODE
            # uvicorn says 1005 of a connection that broke, as of one that was closed without a code.
            code = ABNORMAL if code == NO_CODE else code
            self._over = WebSocketOver(code, received.get("reason") or "", here=code in _BY_SERVER)
        raise self._over

    def write_at_once(self, message: Carried) -> bool:
        """Write one message without waiting, where the web server lets us and the system takes it."""
        return self._hold is not None and self._hold.write(message)

    async def write(self, message: Carried) -> None:
        """Write one message."""
        try:
            if isinstance(message, bytes):
                await self._socket.send_bytes(message)
            else:
                await self._socket.send_text(message)
        except _GONE as error:
            raise WebSocketOver(ABNORMAL, str(error), here=False) from None

    async def shut(self, code: int, why: str) -> None:
        """Send a close frame and see the socket go."""
        with suppress(*_GONE):  # it is closing already
            await self._socket.close(code, why)
        if self._hold is not None:
            await self._hold.gone.wait()

    def abort(self) -> None:
        """Drop the socket, where the web server lets us."""
        if self._hold is not None:
            self._hold.abort()
