"""Client-side WebSocket transport by the library `websockets`, with a listener for tests and tools.

A node listens through its web server instead (`asgi.py`); both ends keep the same contract. Messages are not
compressed: they are small or, where large, encoded once for many peers, and a compressor for each connection costs
more memory than the session itself.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.connection import Connection as LibraryConnection
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import (
    ConcurrencyError,
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
)

from slackwater.dissemination.transports.base import (
    Carried,
    Closed,
    Denied,
    Handler,
    TransportLimits,
    Unreachable,
)
from slackwater.dissemination.transports.socket import ABNORMAL, NO_CODE, WebSocketConnection, WebSocketOver

OPEN_SECONDS = 10.0
PING_SECONDS = 10.0
"""A peer that vanished without a word is noticed after at most twice this time."""


class _Prompt(LibraryConnection):
    """Drops a misbehaving peer after the same grace as one that gets a close frame."""

    _deadline: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._deadline is None and self.protocol.close_expected():
            self._deadline = self.loop.call_later(self.close_timeout or 0, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()


class _Dialled(_Prompt, ClientConnection):
    pass


class _Taken(_Prompt, ServerConnection):
    pass


class LibrarySocket:
    """Socket adapter for `websockets`."""

    def __init__(self, socket: LibraryConnection, peer: str) -> None:
        self._socket = socket
        self._peer = peer

    @property
    def peer(self) -> str:
        """Name of the peer."""
        return self._peer

    async def read(self) -> Carried:
        """The next message."""
        try:
            return await self._socket.recv()
        except ConnectionClosed as closed:
            raise _over(closed) from None

    def write_at_once(self, message: Carried) -> bool:
        """The library writes in a coroutine alone."""
        return False

    async def write(self, message: Carried) -> None:
        """Write one message."""
        try:
            await self._socket.send(message)
        except ConnectionClosed as closed:
            raise _over(closed) from None

    async def shut(self, code: int, why: str) -> None:
        """Exchange close frames. What the peer still sends is read and let go: its close frame may be behind it."""
        letting_go = asyncio.get_running_loop().create_task(self._let_go())
        try:
            await self._socket.close(code, why)
        finally:
            letting_go.cancel()
            await asyncio.wait([letting_go])

    async def _let_go(self) -> None:
        while True:
            try:
                await self._socket.recv()
            except ConcurrencyError:
                await asyncio.sleep(0.01)  # a task still receives
            except ConnectionClosed:
                return

    def abort(self) -> None:
        """Drop the socket."""
        self._socket.transport.abort()


def _over(closed: ConnectionClosed) -> WebSocketOver:
    if closed.rcvd is None and closed.sent is None:
        return WebSocketOver(ABNORMAL, "", here=False)
    here = closed.rcvd is None or closed.rcvd_then_sent is False
    frame = closed.sent if here else closed.rcvd
    assert frame is not None
    return WebSocketOver(frame.code or NO_CODE, frame.reason, here=here)


class WebSocketListener:
    """A port on which WebSockets arrive."""

    def __init__(self, address: str) -> None:
        self._address = address

    @property
    def address(self) -> str:
        """What a peer dials."""
        return self._address


class WebSocketTransport:
    """Dials nodes, with a token where one is needed."""

    def __init__(self, token: str | None = None, *, open_seconds: float = OPEN_SECONDS) -> None:
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._open_seconds = open_seconds

    async def dial(self, address: str, limits: TransportLimits | None = None) -> WebSocketConnection:
        """Connect to ws://… or wss://…."""
        limits = limits or TransportLimits()
        advice = "check the address, and that the server is running"
        try:
            socket = await connect(
                address,
                additional_headers=self._headers,
                compression=None,
                open_timeout=self._open_seconds,
                ping_interval=PING_SECONDS,
                ping_timeout=PING_SECONDS,
                close_timeout=limits.grace,
                max_size=limits.message,
                max_queue=limits.unread,
                create_connection=_Dialled,
            )
        except InvalidStatus as refusal:
            status, body = refusal.response.status_code, refusal.response.body or b""
            raise Denied(f"{address} answered with status {status}", status=status, body=bytes(body)) from None
        except (InvalidURI, InvalidProxy, ValueError) as error:
            raise Unreachable(f"{address} cannot be dialled: {error}") from None
        except InvalidMessage:
            raise Unreachable(f"{address} does not speak WebSocket: {advice}") from None
        except TimeoutError:
            raise Unreachable(f"{address} did not answer within {self._open_seconds:g} s: {advice}") from None
        except (OSError, InvalidHandshake, EOFError) as error:
            raise Unreachable(f"{address} cannot be reached ({_told(error)}): {advice}") from None
        return WebSocketConnection(LibrarySocket(socket, address), limits)

    @asynccontextmanager
    async def listen(
        self, handler: Handler, limits: TransportLimits | None = None, host: str = "127.0.0.1", port: int = 0
    ) -> AsyncIterator[WebSocketListener]:
        """Take WebSockets on a port; 0 lets the system choose one."""
        limits = limits or TransportLimits()
        open_ones: dict[WebSocketConnection, asyncio.Task[None] | None] = {}

        async def take(socket: ServerConnection) -> None:
            connection = WebSocketConnection(LibrarySocket(socket, str(socket.remote_address)), limits)
            open_ones[connection] = asyncio.current_task()
            try:
                await handler(connection)
            except Closed:
                pass
            finally:
                await connection.close()
                del open_ones[connection]

        async with serve(
            take,
            host,
            port,
            compression=None,
            ping_interval=PING_SECONDS,
            ping_timeout=PING_SECONDS,
            close_timeout=limits.grace,
            max_size=limits.message,
            max_queue=limits.unread,
            create_connection=_Taken,
            backlog=4096,
        ) as server:
            taken = next(iter(server.sockets)).getsockname()[1]
            try:
                yield WebSocketListener(f"ws://{host}:{taken}")
            finally:
                tasks = [task for task in open_ones.values() if task is not None]
                await asyncio.gather(*(one.close("the listener closes") for one in list(open_ones)))
                if tasks:
                    await asyncio.wait(tasks)


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
