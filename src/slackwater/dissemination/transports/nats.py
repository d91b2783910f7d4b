"""NATS transport: connections over a bus, through firewalls that let only the bus pass.

A listener has a name on the bus. A dialler publishes to it, with a reply subject; one of
the listeners of that name takes it and answers with the subject of its own end. From then on the two publish to each
other. NATS itself reports a missing listener at once. All connections of a process share one connection to the server
(`nats_bus`), and what NATS does not promise is added at both ends (`nats_connection`).

The dialler's `words` are for the listener: a token, and the encoding of messages. Every client of the bus that may
subscribe to the listener's subject can read them, so a shared bus needs accounts, and TLS where the network is
shared.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from slackwater.core.bus import DEFAULT_NAME, BusAddress, bus_address
from slackwater.dissemination.transports.base import (
    Closed,
    Denied,
    Handler,
    TransportLimits,
    Unreachable,
)
from slackwater.dissemination.transports.nats_bus import OPEN_SECONDS, PING_SECONDS, REJOIN, Bus, borrow, give_back
from slackwater.dissemination.transports.nats_connection import NatsConnection
from slackwater.dissemination.transports.nats_frames import (
    VERSION,
    Accept,
    ConnectionRequest,
    Deny,
    Unreadable,
    read,
    write,
)

if TYPE_CHECKING:
    from nats.aio.msg import Msg

Admit: TypeAlias = Callable[[Mapping[str, str]], Handler]
"""Chooses the handler of a connection from the dialler's words; raises `Denied`."""


class NatsListener:
    """A name on a bus under which connections arrive; it comes back by itself when the bus does."""

    def __init__(
        self, address: BusAddress, admit: Admit, limits: TransportLimits, name: str, ping: float, incoming: int | None
    ) -> None:
        self._address = address
        self._admit = admit
        self._limits = limits
        self._incoming = incoming
        self._bus_name = name
        self._ping = ping
        self._bus: Bus | None = None
        self._handling: dict[asyncio.Task[None], NatsConnection] = {}

    @property
    def address(self) -> str:
        """What a peer dials."""
        return str(self._address)

    async def begin(self) -> None:
        """Join the bus; raises `Unreachable`."""
        bus = await borrow(self._address, self._bus_name, self._ping)
        try:

            async def take(message: "Msg") -> None:
                self._take(bus, message.data)

            # A queue: where several listen under one name, one of them takes each dialler.
            await bus.subscribe(dialled(self._address.name), take, queue="slackwater")
        except BaseException:
            await give_back(bus)
            raise
        self._bus = bus

    async def stay(self) -> None:
        """Come back whenever the bus was lost, until cancelled."""
        failures = 0
        while True:
            if self._bus is not None:
                await self._bus.lost.wait()
                bus, self._bus = self._bus, None
                await give_back(bus)
            try:
                await self.begin()
                failures = 0
            except Unreachable:
                failures += 1
                await asyncio.sleep(REJOIN.delay(failures, random.random))

    async def end(self) -> None:
        """Close all connections and leave the bus."""
        while self._handling:
            tasks = list(self._handling)
            await asyncio.gather(*(one.close("the listener closes") for one in list(self._handling.values())))
            await asyncio.wait(tasks)
        if self._bus is not None:
            bus, self._bus = self._bus, None
            await give_back(bus)

    def _take(self, bus: Bus, payload: bytes) -> None:
        try:
            asked = read(payload)
        except Unreadable:
            return
        if (
            not isinstance(asked, ConnectionRequest)
            or not asked.answer.startswith("slackwater.at.")
            or set(asked.answer) & set("*> ")
        ):
            return
        try:
            if asked.version != VERSION:
                raise Denied("another version", status=400, body=_version_body(asked.version))
            handler = self._admit(asked.words)
        except Denied as denial:
            bus.post(asked.answer, write(Deny(denial.status, denial.body)))
            return
        bus.users += 1
        connection = NatsConnection(bus, f"dialler of {self._address}", self._limits, self._incoming)
        bus.post(asked.answer, write(Accept(connection.subject, self._limits.unread)))
        connection.meet(asked.answer, asked.unread)
        task = asyncio.get_running_loop().create_task(_handle(handler, connection))
        self._handling[task] = connection
        task.add_done_callback(lambda done: self._handling.pop(done, None))


async def _handle(handler: Handler, connection: NatsConnection) -> None:
    try:
        await handler(connection)
    except Closed:
        pass
    finally:
        await connection.close()


def _everybody(handler: Handler | None) -> Admit:
    if handler is None:
        raise ValueError("connections need a handler, or an `admit` function that chooses one for each")
    return lambda _: handler


def _version_body(version: int) -> bytes:
    return b'{"error":"version","message":"the bus is spoken in version %d here, not %d"}' % (VERSION, version)


def dialled(name: str) -> str:
    """The subject to which diallers of a name publish."""
    return f"slackwater.dial.{name}"


class NatsTransport:
    """Dials and listens on buses. `name` is what the server's monitoring shows of this process."""

    def __init__(
        self, words: Mapping[str, str] | None = None, *, name: str = "slackwater", ping: float = PING_SECONDS
    ) -> None:
        self._words = dict(words or {})
        self._name = name
        self._ping = ping

    async def dial(self, address: str, limits: TransportLimits | None = None) -> NatsConnection:
        """Connect to nats://host:port/name."""
        limits = limits or TransportLimits()
        try:
            to = bus_address(address, named=True)
        except ValueError as error:
            raise Unreachable(str(error)) from None
        bus = await borrow(to, self._name, self._ping)
        connection = NatsConnection(bus, str(to), limits)
        ask = ConnectionRequest(VERSION, connection.subject, limits.unread, self._words)
        bus.post(dialled(to.name), write(ask), connection.subject)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await connection.opened
        except BaseException as error:
            connection.forsake()
            await connection.close()
            if isinstance(error, TimeoutError):
                why = f"{to} did not answer within {OPEN_SECONDS:g} s: check that the server works"
                raise Unreachable(why) from None
            raise
        return connection

    @asynccontextmanager
    async def listen(
        self,
        handler: Handler | None,
        limits: TransportLimits | None = None,
        address: str = f"nats://127.0.0.1:4222/{DEFAULT_NAME}",
        admit: Admit | None = None,
        incoming: int | None = None,
    ) -> AsyncIterator[NatsListener]:
        """Take connections under a name.

        `admit`, where given, says for each dialler which handler it gets. `incoming` is the limit for messages that
        arrive, where that is not the one for messages that are sent.
        """
        at = bus_address(address, named=True)
        if admit is None:
            admit = _everybody(handler)
        listener = NatsListener(at, admit, limits or TransportLimits(), self._name, self._ping, incoming)
        await listener.begin()
        staying = asyncio.get_running_loop().create_task(listener.stay())
        try:
            yield listener
        finally:
            staying.cancel()
            await asyncio.wait([staying])
            await listener.end()
