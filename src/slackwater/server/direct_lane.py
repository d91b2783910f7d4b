"""Direct lane of a connection: whole requests for rows, answered without the layers of a web framework.

    bytes ─▶ plain, small, between two requests? ─▶ gathered until whole ─▶ the operation ─▶ one write
                     │ no, or not whole in a moment
                     ▼
             the general protocol, from the first byte on

The lane takes over between two requests only and gives back all that it does not take: to the general protocol a
direct request never was. At most one request of a connection is under way: what comes meanwhile waits, and reading
pauses. Of a stranger no more is gathered than the general protocol would read ahead.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias

from starlette.responses import Response

from slackwater.dissemination.transports.asgi import EXTENSION
from slackwater.server.acceptor import STRANGER_BYTES
from slackwater.server.connections import ConnectionPhase
from slackwater.server.whole_request import HeadReader, WholeRequest

if TYPE_CHECKING:
    from slackwater.server.http_protocol import SlotProtocol

Endpoint: TypeAlias = Callable[[WholeRequest], Awaitable[Response]]

LARGEST = 1 << 20
"""Bytes of the largest request that is gathered; a larger one is read by the general protocol."""
GATHER_SECONDS = 0.25
"""For which a request is gathered. What takes longer is under the time-outs of the general protocol."""
_LINES = {int(status): b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}


class DirectLane:
    """The lane of one connection."""

    def __init__(self, protocol: "SlotProtocol", endpoint: Endpoint, heads: HeadReader) -> None:
        self._protocol = protocol
        self._endpoint = endpoint
        self._heads = heads
        self._pieces: list[bytes] = []
        self._missing = 0
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[bytes] = []
        self._ends = False
        self.is_answering = False
        """True while a direct request is under way."""

    def take(self, data: bytes) -> bytes | None:
        """Take what came; returns what the general protocol is to be given, None for nothing."""
        if self.is_answering:
            self._wait(data)
            return None
        if self._pieces:
            self._pieces.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return None
            data = self._gathered()
        elif not self._protocol.is_between_requests:
            return data
        head = self._heads.read(data)
        if head is None:
            return data
        if head.end > len(data):
            if head.end > (LARGEST if self._protocol.slot.is_recognised else STRANGER_BYTES):
                return data
            self._gather(data, head.end - len(data))
            return None
        if len(data) > head.end:
            self._wait(data[head.end :])
        scope = {"extensions": {EXTENSION: {"slot": self._protocol.slot}}}
        self._begin(WholeRequest.of(head, data[head.body_at : head.end], scope))
        return None

    def end(self) -> bool:
        """The server shuts down; True if the connection is closed once its request is answered."""
        if self._pieces:
            self._give_back()
        self._ends = self.is_answering
        return self.is_answering

    def forget(self) -> None:
        """The connection has ended."""
        self._waiting.clear()
        if self._pieces:
            self._gathered()

    def _gather(self, data: bytes, missing: int) -> None:
        self._pieces, self._missing = [data], missing
        self._protocol.begin_direct(ConnectionPhase.BODY)
        self._timer = self._protocol.loop.call_later(GATHER_SECONDS, self._give_back)

    def _gathered(self) -> bytes:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        data, self._pieces = b"".join(self._pieces), []
        return data

    def _give_back(self) -> None:
        self._protocol.receive_generally(self._gathered())

    def _wait(self, data: bytes) -> None:
        """Keep what comes after the request under way; no more is read until it is taken."""
        self._waiting.append(data)
        self._protocol.flow.pause_reading()

    def _begin(self, request: WholeRequest) -> None:
        self.is_answering = True
        self._protocol.begin_direct(ConnectionPhase.ANSWER)
        task = self._protocol.loop.create_task(self._answer(request))
        self._protocol.tasks.add(task)
        task.add_done_callback(self._protocol.tasks.discard)

    async def _answer(self, request: WholeRequest) -> None:
        transport = self._protocol.transport
        try:
            response = await self._endpoint(request)
        except BaseException:
            transport.abort()
            raise
        if transport.is_closing():
            return
        pieces = [_LINES[response.status_code]]
        for name, value in (*self._protocol.server_state.default_headers, *response.raw_headers):
            pieces += (name, b": ", value, b"\r\n")
        transport.write(b"".join((*pieces, b"\r\n", bytes(response.body))))
        if transport.is_closing():
            # The peer has gone: what it sent behind this request is not begun.
            return
        self.is_answering = False
        if self._ends or response.headers.get("connection") == "close":
            transport.close()
            return
        self._protocol.end_direct()
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting.clear()
            # Before what is read next: reading pauses while something waits, and so stands behind this in the loop.
            self._protocol.loop.call_soon(self._protocol.data_received, data)
        self._protocol.flow.resume_reading()
