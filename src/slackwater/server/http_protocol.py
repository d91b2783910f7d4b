"""HTTP protocol: uvicorn's, which tells the slot of its connection what the connection is at.

uvicorn has one time-out, for a connection that is idle after an answer, and a single byte ends it. A head or a body
that never becomes complete, and an answer that the peer does not read, would be waited for as long as the peer likes.

Whole requests for rows take a lane of their own (`server.direct_lane`).

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
from slackwater.server.direct_lane import DirectLane, Endpoint
from slackwater.server.whole_request import HeadReader

HEAD_BYTES = 16 * 1024
"""Bytes of the head of a request that are kept until it is complete."""
_PIECE = 16 * 1024
"""Bytes of an answer that are written at a time."""


class SlotProtocol(H11Protocol):
    """HTTP/1.1 over a connection with a slot."""

    def __init__(self, slot: Slot, direct: tuple[Endpoint, HeadReader] | None = None, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.slot = slot
        self._lane = None if direct is None else DirectLane(self, *direct)
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
        self.slot.begin(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the slot back."""
        super().connection_lost(exc)
        if self._lane is not None:
            self._lane.forget()
        self.slot.gone()

    def data_received(self, data: bytes) -> None:
        """Hand what came to the lane of direct requests, and what that one leaves to the general protocol."""
        rest = data if self._lane is None else self._lane.take(data)
        if rest is not None:
            self.receive_generally(rest)

    def receive_generally(self, data: bytes) -> None:
        """Take what came as any HTTP, and tell what the connection is at now."""
        super().data_received(data)
        self._tell()

    def shutdown(self) -> None:
        """End the connection, after the answer that is under way."""
        if self._lane is None or not self._lane.end():
            super().shutdown()

    # ---- direct requests

    @property
    def is_between_requests(self) -> bool:
        """True if nothing is under way and nothing waits to be sent."""
        cycle: RequestResponseCycle | None = self.cycle
        return (
            not self._upgraded
            and (cycle is None or cycle.response_complete)
            and self.conn.their_state is h11.IDLE
            and self.conn.our_state is h11.IDLE
            and not self.conn.trailing_data[0]
            and not self.flow.write_paused
        )

    def begin_direct(self, phase: ConnectionPhase) -> None:
        """A direct request has begun."""
        self._unset_keepalive_if_required()
        self.slot.enter(phase)

    def end_direct(self) -> None:
        """A direct request was answered."""
        self.server_state.total_requests += 1
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        self.slot.enter(ConnectionPhase.IDLE)

    def handle_events(self) -> None:
        """Add the slot to the scope of a request; its task begins after this returns."""
        super().handle_events()
        # uvicorn has no scope and no cycle before the first request, though it does not say so.
        scope: HTTPScope | None = self.scope
        if scope is not None and not self._upgraded:
            scope.setdefault("extensions", {})[EXTENSION] = {"slot": self.slot}

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
            self.slot.enter(ConnectionPhase.HEAD if began else ConnectionPhase.IDLE)
        elif theirs is h11.SEND_BODY:
            self.slot.enter(ConnectionPhase.REST if answered else ConnectionPhase.BODY)
        else:
            self.slot.enter(ConnectionPhase.IDLE if answered else ConnectionPhase.ANSWER)


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
