"""HTTP protocol: uvicorn's, which tells the slot of its connection what the connection is at.

uvicorn has one time-out, for a connection that is idle after an answer, and a single byte ends it. A head or a body
that never becomes complete, and an answer that the peer does not read, would be waited for as long as the peer likes.

An answer is written piece by piece: the next one when the peer has taken most of those before. Otherwise all of it
would wait in memory for each peer that asks for it and reads nothing.
"""

import asyncio
from typing import Any

import h11
from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, HTTPScope, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from slackwater.dissemination.transports.asgi import EXTENSION, HeldProtocol
from slackwater.server.acceptor import Slot
from slackwater.server.connections import ConnectionPhase

HEAD_BYTES = 16 * 1024
"""Bytes of the head of a request that are kept until it is complete."""
_PIECE = 16 * 1024
"""Bytes of an answer that are written at a time."""


class SlotProtocol(H11Protocol):
    """HTTP/1.1 over a connection with a slot."""

    def __init__(self, slot: Slot, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._slot = slot
        self.app = _in_pieces(self.app, slot)
        self._upgraded = False
        made_for = self.ws_protocol_class

        def web_socket(**given: Any) -> asyncio.Protocol:
            assert made_for is not None
            protocol = made_for(**given)
            if isinstance(protocol, HeldProtocol):
                protocol.slot = slot
            self._upgraded = True
            return protocol

        self.ws_protocol_class = None if made_for is None else web_socket  # type: ignore[assignment]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin with the head of a request."""
        super().connection_made(transport)
        self._slot.begin(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the slot back."""
        super().connection_lost(exc)
        self._slot.gone()

    def data_received(self, data: bytes) -> None:
        """Tell what the connection is at now."""
        super().data_received(data)
        self._tell()

    def handle_events(self) -> None:
        """Add the slot to the scope of a request; its task begins after this returns."""
        super().handle_events()
        # uvicorn has no scope and no cycle before the first request, though it does not say so.
        scope: HTTPScope | None = self.scope
        if scope is not None and not self._upgraded:
            scope.setdefault("extensions", {})[EXTENSION] = {"slot": self._slot}

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request. Where another one has begun no answer fits in: the connection ends."""
        if self.conn.our_state is h11.IDLE:
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def on_response_complete(self) -> None:
        """Tell what the connection is at after an answer; what came meanwhile may be the next request."""
        # What of a body came before a refusal is not read any more.
        self.cycle.body.clear()
        super().on_response_complete()
        self._tell()

    def _tell(self) -> None:
        if self._upgraded or self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle
        answered = cycle is None or cycle.response_complete
        theirs = self.conn.their_state
        if theirs is h11.IDLE:
            # Before the first request the time runs from the beginning. What came may be the late end of a body.
            began = cycle is None or bool(self.conn.trailing_data[0])
            self._slot.enter(ConnectionPhase.HEAD if began else ConnectionPhase.IDLE)
        elif theirs is h11.SEND_BODY:
            self._slot.enter(ConnectionPhase.REST if answered else ConnectionPhase.BODY)
        else:
            self._slot.enter(ConnectionPhase.IDLE if answered else ConnectionPhase.ANSWER)


def _in_pieces(app: ASGI3Application, slot: Slot) -> ASGI3Application:
    """The application, with bodies of answers cut: the protocol waits for the peer before each piece."""

    async def call(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        async def cut(message: ASGISendEvent) -> None:
            if message["type"] != "http.response.body" or len(message.get("body", b"")) <= _PIECE:
                await send(message)
                return
            body, more = message["body"], message.get("more_body", False)
            for start in range(0, len(body), _PIECE):
                last = start + _PIECE >= len(body)
                piece = body[start : start + _PIECE]
                await send({"type": "http.response.body", "body": piece, "more_body": more or not last})
                slot.note_progress()

        await app(scope, receive, cut)

    return call
