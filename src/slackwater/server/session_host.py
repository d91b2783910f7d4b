"""Session host: I/O around the pure session state; delivers events with the time, executes instructions.

Everything happens on the event loop, one event after the other, so nothing is locked. A connection is a number here
and a `Port`: something that takes bytes at once and reports back-pressure. While one does not keep up, and only then,
a task waits for it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from slackwater.dissemination.delivery.base import CloseChannel, OpenChannel, PublishMessage
from slackwater.dissemination.encoding import Encoding, encode
from slackwater.dissemination.messages import FromClient, FromNode, Goodbye
from slackwater.dissemination.transports import MessageTooLarge
from slackwater.server.channel_host import ChannelHost
from slackwater.server.store import Token
from slackwater.sessions.events import (
    Append,
    Blocked,
    Close,
    Connected,
    Disconnected,
    Event,
    Principal,
    Received,
    Send,
    Writable,
)
from slackwater.sessions.state import ServerState

SHORTEST_WAIT = 0.005
LONGEST_WAIT = 1.0
"""Seconds between two looks at whether a tick is due; an event that makes one due earlier wakes up by itself."""


def microseconds() -> int:
    """The clock that sessions are measured by; it never goes back."""
    return time.monotonic_ns() // 1000


class Port(Protocol):
    """One end of a connection, as far as sending goes."""

    def send(self, message: bytes | str) -> bool:
        """Take a message at once; False if the peer does not keep up."""
        ...

    async def drained(self) -> None:
        """Return when there is room again, or when the connection has ended."""
        ...

    def end(self, why: str) -> None:
        """Close it once what was sent is written."""
        ...


@dataclass(slots=True, eq=False)
class _Connection:
    port: Port
    encoding: Encoding
    token: Token | None
    waiting: "asyncio.Task[None] | None" = None


class Sessions:
    """All connections of a node and the state behind them."""

    def __init__(
        self, state: ServerState, append: Callable[[Append], None], channels: ChannelHost | None = None
    ) -> None:
        self.state = state
        self._append = append
        self._channels = channels
        self._connections: dict[int, _Connection] = {}
        self._next = 0
        self._woken: asyncio.Future[None] | None = None
        self._wakes_at = 0
        self.messages: Counter[str] = Counter()
        self.sent_bytes = 0
        self.held_back = 0

    def __len__(self) -> int:
        return len(self._connections)

    def of_token(self, token: Token | None) -> int:
        """How many connections a token has."""
        wanted = None if token is None else token.id
        return sum(1 for one in self._connections.values() if (one.token.id if one.token else None) == wanted)

    def subscribers(self, query: int) -> int:
        """How many sessions listen to a query."""
        kept = self.state.subscriptions.queries.get(query)
        return 0 if kept is None else len(kept.sessions)

    @property
    def channel_members(self) -> int:
        """How many subscriptions of sessions are delivered by channels."""
        return sum(delivery.members for delivery in self.state.subscriptions.deliveries)

    def tokens(self) -> set[str]:
        """Tokens of the present connections."""
        return {one.token.id for one in self._connections.values() if one.token is not None}

    # ---- what happens

    def connected(self, port: Port, principal: Principal, encoding: Encoding, token: Token | None) -> int:
        """Add a connection; returns its number."""
        self._next += 1
        self._connections[self._next] = _Connection(port, encoding, token)
        self.handle(Connected(self._next, principal, encoding))
        return self._next

    def received(self, number: int, message: FromClient) -> None:
        """A message came."""
        if number in self._connections:
            self.messages["received"] += 1
            self.handle(Received(number, message))

    def is_open(self, number: int) -> bool:
        """True until the session has ended; its connection may still have something to read."""
        return number in self._connections

    def send(self, number: int, message: FromNode) -> None:
        """Write a message that is no business of the state."""
        self._send(number, message)

    def lost(self, number: int) -> None:
        """A connection is gone."""
        if self._forget(number) is not None:
            self.handle(Disconnected(number))

    def farewell(self, number: int, why: str, *, again: bool) -> None:
        """End a connection for a reason that its state does not know."""
        if number in self._connections:
            self._send(number, Goodbye(why, again))
            self._end(number, why)
            self.handle(Disconnected(number))

    def farewell_to_token(self, token_id: str, why: str) -> None:
        """The same for all connections of a token."""
        for number, one in list(self._connections.items()):
            if one.token is not None and one.token.id == token_id:
                self.farewell(number, why, again=False)

    def farewell_to_strangers(self, why: str) -> None:
        """The same for all connections without a token."""
        for number, one in list(self._connections.items()):
            if one.token is None:
                self.farewell(number, why, again=False)

    def farewell_to_all(self, why: str) -> None:
        """End all connections of a node that shuts down; clients may reconnect."""
        for number in list(self._connections):
            self.farewell(number, why, again=True)

    def handle(self, event: Event) -> None:
        """Hand an event to the state and execute its instructions."""
        for instruction in self.state.handle(event, microseconds()):
            match instruction:
                case Send(number, message):
                    self._send(number, message)
                case Close(number, why):
                    self._end(number, why)
                case Append():
                    self._append(instruction)
                case OpenChannel() | PublishMessage() | CloseChannel():
                    assert self._channels is not None
                    self._channels.do(instruction)
        if self._woken is not None:
            due = self.state.next_tick()
            if due is not None and due < self._wakes_at:
                _wake(self._woken)

    async def run(self, tick: Event) -> None:
        """Let time pass for the state, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due, now = self.state.next_tick(), microseconds()
            wait = LONGEST_WAIT if due is None else min(max((due - now) / 1_000_000, SHORTEST_WAIT), LONGEST_WAIT)
            woken = self._woken = loop.create_future()
            self._wakes_at = now + round(1_000_000 * wait)
            timer = loop.call_later(wait, _wake, woken)
            try:
                await woken
            finally:
                self._woken = None
                timer.cancel()
            due = self.state.next_tick()
            if due is not None and due <= microseconds():
                self.handle(tick)

    # ---- what is done about it

    def _send(self, number: int, message: FromNode) -> None:
        one = self._connections.get(number)
        if one is None:
            return
        data = encode(message, one.encoding)
        self.messages["sent"] += 1
        self.sent_bytes += len(data)
        try:
            keeps_up = one.port.send(data if one.encoding is Encoding.MESSAGEPACK else data.decode())
        except MessageTooLarge as error:
            self._end(number, str(error))
            self.handle(Disconnected(number))
            return
        if not keeps_up and one.waiting is None and not isinstance(message, Goodbye):
            self.held_back += 1
            one.waiting = asyncio.get_running_loop().create_task(self._wait_for(number, one))
            self.handle(Blocked(number))

    async def _wait_for(self, number: int, one: _Connection) -> None:
        await one.port.drained()
        one.waiting = None
        if self._connections.get(number) is one:
            self.handle(Writable(number))

    def _end(self, number: int, why: str) -> None:
        one = self._forget(number)
        if one is not None:
            one.port.end(why)

    def _forget(self, number: int) -> _Connection | None:
        one = self._connections.pop(number, None)
        if one is not None and one.waiting is not None:
            one.waiting.cancel()
        return one


def _wake(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
