"""NATS channels: multicast over a bus; one publish, and the bus copies it to all members.

    message  8  flags  generation  sequence  body
    beat     9  0      generation  sequence          nothing new; so many were published so far
    close   10  0      generation  sequence          that was all

A member subscribes first and then requests the publisher's sequence (`….join`); so nothing can fall between the two,
and NATS reports at once that there is no publisher. The *generation* is a random number of the publisher. When it is
another one than was joined, another publisher has taken the name, and the membership is over.

While nothing is published beats go out, so that a member learns of a message that was lost on its way to it, and of
a publisher that is gone. A publisher that cannot get rid of what it has, because the bus is slow or gone, lets go of
the oldest; members see the gap by the sequence.
"""

import asyncio
import random
import secrets
import struct
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from slackwater.core.bus import BusAddress, bus_address, check_name
from slackwater.dissemination.transports.base import (
    Carried,
    Ended,
    Heard,
    How,
    MessageTooLarge,
    Missed,
    TransportLimits,
    Unreachable,
    size,
    too_large,
)
from slackwater.dissemination.transports.inbox import Inbox
from slackwater.dissemination.transports.nats_bus import OPEN_SECONDS, PING_SECONDS, REJOIN, Bus, borrow, give_back
from slackwater.dissemination.transports.nats_frames import is_place

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

_HEAD: Final = struct.Struct("<BBQQ")
_MESSAGE, _BEAT, _CLOSE = 8, 9, 10
_TEXT = 1
_SILENCE = 2.5
"""Beats after which a publisher is gone."""
_LOOK_SECONDS = 0.001


def _subject(name: str) -> str:
    return f"slackwater.channel.{check_name(name)}"


class NatsPublisher:
    """The sending end of a channel; it comes back by itself when the bus does."""

    def __init__(self, name: str, limits: TransportLimits) -> None:
        self._subject = _subject(name)
        self._limits = limits
        self._generation = secrets.randbits(64)
        self._sequence = 0
        self._bus: Bus | None = None
        self._place = ""
        self._outbox: deque[bytes] = deque()
        self._unsent = 0
        self._said = time.monotonic()
        self.published = 0

    def publish(self, message: Carried) -> int:
        """Put it where the bus takes it from."""
        weight = size(message)
        if weight > self._limits.message:
            raise too_large(message, self._limits)
        if self._bus is not None and weight + _HEAD.size > self._bus.largest:
            raise MessageTooLarge(
                f"a message of {weight} bytes does not fit into one publish: the bus takes {self._bus.largest}; "
                f"send fewer rows at a time, or raise max_payload of the NATS servers"
            )
        text = isinstance(message, str)
        body = message.encode() if isinstance(message, str) else message
        self._outbox.append(self._frame(_MESSAGE, _TEXT * text) + body)
        self._unsent += len(self._outbox[-1])
        while self._unsent > self._limits.unsent and len(self._outbox) > 1:
            self._unsent -= len(self._outbox.popleft())
        self._sequence += 1
        if self._bus is not None:
            self._bus.ready(self)
        return self._sequence - 1

    def _frame(self, kind: int, flags: int = 0) -> bytes:
        return _HEAD.pack(kind, flags, self._generation, self._sequence)

    # Being on the bus.

    async def begin(self, address: BusAddress, name: str, ping: float) -> None:
        """Join the bus; raises `Unreachable`."""
        bus = await borrow(address, name, ping)

        async def answer(message: "Msg") -> None:
            if is_place(message.reply):
                # What still waits here counts as published before: who joins now receives what comes after.
                bus.post(message.reply, self._frame(_BEAT))

        try:
            await bus.subscribe(f"{self._subject}.join", answer)
        except BaseException:
            await give_back(bus)
            raise
        self._place = bus.join(self)
        self._bus = bus
        bus.ready(self)

    async def stay(self, address: BusAddress, name: str, ping: float) -> None:
        """Come back whenever the bus was lost, until cancelled."""
        failures = 0
        while True:
            if self._bus is not None:
                await self._bus.lost.wait()
                await self._leave()
            try:
                await self.begin(address, name, ping)
                failures = 0
            except Unreachable:
                failures += 1
                await asyncio.sleep(REJOIN.delay(failures, random.random))

    async def end(self) -> None:
        """Publish the close frame, and leave the bus."""
        if self._bus is not None:
            self._outbox.append(self._frame(_CLOSE))
            self._unsent += _HEAD.size
            self._bus.ready(self)
            give_up = time.monotonic() + self._limits.grace
            while self._outbox and not self._bus.lost.is_set() and time.monotonic() < give_up:
                await asyncio.sleep(_LOOK_SECONDS)
            await self._leave()

    async def _leave(self) -> None:
        if self._bus is not None:
            bus, self._bus = self._bus, None
            bus.leave(self._place)
            await give_back(bus)

    # For the bus.

    def next_frame(self) -> tuple[str, bytes, str] | None:
        """The next message; this is the one publish."""
        if not self._outbox:
            return None
        frame = self._outbox.popleft()
        self._unsent -= len(frame)
        self._said = time.monotonic()
        self.published += frame[0] == _MESSAGE
        return self._subject, frame, ""

    def tick(self, now: float) -> None:
        """Publish a beat where nothing else was published."""
        if self._bus is not None and now - self._said >= self._bus.ping * 0.7 and not self._outbox:
            self._outbox.append(self._frame(_BEAT))
            self._unsent += _HEAD.size
            self._bus.ready(self)

    def arrived(self, payload: bytes) -> None:
        """Ignore: a publisher receives join requests alone, by another subject."""

    def nobody_there(self) -> None:
        """Nothing is published with a reply address."""

    def bus_lost(self, why: str) -> None:
        """Ignore: `stay` reconnects."""


class NatsMembership:
    """A receiving end of a channel."""

    def __init__(self, bus: Bus, name: str, limits: TransportLimits) -> None:
        self._bus = bus
        self._name = name
        self._limits = limits
        self._place = bus.join(self)
        self._inbox: Inbox | None = None
        self._generation = 0
        self._early: list[bytes] = []
        self._joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._heard = time.monotonic()
        self._left = False
        self._subscription: Subscription | None = None

    @property
    def ended(self) -> Ended | None:
        """How it ended."""
        return None if self._inbox is None else self._inbox.ended

    async def begin(self) -> None:
        """Subscribe, then ask how far the publisher is."""

        async def take(message: "Msg") -> None:
            self._take(message.data)

        self._subscription = await self._bus.subscribe(_subject(self._name), take)
        self._bus.post(f"{_subject(self._name)}.join", b"", self._place)
        async with asyncio.timeout(OPEN_SECONDS):
            await self._joined

    async def receive(self) -> Heard | Missed:
        """Take the next one out of the inbox."""
        assert self._inbox is not None
        return await self._inbox.take()

    async def close(self) -> None:
        """Leave the channel."""
        if not self._left:
            self._left = True
            self._end(Ended(How.CLOSED, True, ""))
            self._bus.leave(self._place)
            self._unsubscribe()
            await give_back(self._bus)

    # For the bus.

    def arrived(self, payload: bytes) -> None:
        """How far the publisher is."""
        if self._inbox is None and len(payload) == _HEAD.size:
            _, _, self._generation, sequence = _HEAD.unpack(payload)
            self._inbox = Inbox(self._limits, sequence)
            if not self._joined.done():
                self._joined.set_result(None)
            for early in self._early:
                self._take(early)
            self._early.clear()

    def nobody_there(self) -> None:
        """There is no publisher."""
        if not self._joined.done():
            why = f"there is no publisher at {self._bus.address} under {self._name}: open the channel first"
            self._joined.set_exception(Unreachable(why))

    def bus_lost(self, why: str) -> None:
        """End the membership: losses with the bus are unknown."""
        if not self._joined.done():
            self._joined.set_exception(Unreachable(why))
        self._end(Ended(How.LOST, False, why))

    def next_frame(self) -> tuple[str, bytes, str] | None:
        """A member says nothing."""
        return None

    def tick(self, now: float) -> None:
        """Notice when the publisher is gone."""
        if now - self._heard > _SILENCE * self._bus.ping:
            self._end(Ended(How.LOST, False, "nothing was heard of the publisher for too long"))

    def _take(self, payload: bytes) -> None:
        if self._inbox is None:
            self._early.append(payload)
            if sum(map(len, self._early)) > self._limits.unsent:
                self._early.clear()  # the gap is told
        elif self._inbox.ended is None and len(payload) >= _HEAD.size:
            self._apply(self._inbox, payload)
            if self.ended is not None:
                self._unsubscribe()

    def _apply(self, inbox: Inbox, payload: bytes) -> None:
        kind, flags, generation, sequence = _HEAD.unpack_from(payload)
        if generation != self._generation:
            self._end(Ended(How.LOST, False, "another publisher took over"))
            return
        self._heard = time.monotonic()
        if kind == _MESSAGE:
            try:
                message: Carried = payload[_HEAD.size :].decode() if flags & _TEXT else payload[_HEAD.size :]
            except UnicodeDecodeError:
                self._end(Ended(How.GARBAGE, True, "text that is not text"))
                return
            if len(payload) - _HEAD.size > self._limits.message:
                why = f"a message of {len(payload) - _HEAD.size} bytes, the limit is {self._limits.message}"
                self._end(Ended(How.TOO_LARGE, True, why))
                return
            inbox.put(sequence, message)
        elif kind == _BEAT:
            inbox.reached(sequence)
        elif kind == _CLOSE:
            inbox.reached(sequence)
            self._end(Ended(How.CLOSED, False, "the channel closes"))

    def _end(self, ended: Ended) -> None:
        if self._inbox is None:
            self._inbox = Inbox(self._limits, 0)
        self._inbox.end(ended)

    def _unsubscribe(self) -> None:
        """Unsubscribe at the server; messages still on the way are dropped."""
        if self._subscription is not None:
            self._bus.unsubscribe(self._subscription)
            self._subscription = None


class NatsChannels:
    """The channels on a bus, by name."""

    def __init__(self, bus: str, *, name: str = "slackwater", ping: float = PING_SECONDS) -> None:
        self._address = bus_address(bus, named=False)
        self._name = name
        self._ping = ping

    @asynccontextmanager
    async def open(self, name: str, limits: TransportLimits | None = None) -> AsyncIterator[NatsPublisher]:
        """Publish under a name."""
        publisher = NatsPublisher(name, limits or TransportLimits())
        await publisher.begin(self._address, self._name, self._ping)
        staying = asyncio.get_running_loop().create_task(publisher.stay(self._address, self._name, self._ping))
        try:
            yield publisher
        finally:
            staying.cancel()
            await asyncio.wait([staying])
            await publisher.end()

    async def join(self, name: str, limits: TransportLimits | None = None) -> NatsMembership:
        """Receive what is published under a name."""
        membership = NatsMembership(
            await borrow(self._address, self._name, self._ping), check_name(name), limits or TransportLimits()
        )
        try:
            await membership.begin()
        except BaseException as error:
            await membership.close()
            if isinstance(error, TimeoutError):
                raise Unreachable(f"there was no answer at {self._address} under {name}") from None
            raise
        return membership
