"""Shared NATS client: one connection of this process to a server, multiplexed for all its users.

Design
    Thousands of connections of ours share one of NATS's, so nothing here may be made for each of them: one
    subscription receives for all (`BASE.*`, the last part names the member), one task publishes their frames,
    one from each in turn, and one task drives their timers. `Member` is the interface to them.

    When the connection to the server breaks, losses are unknown. So it is not mended: all members are
    notified and end, and the next user gets a new bus. That is also why the client's own reconnecting is off.

    Buses are kept by event loop, servers and name, and closed with their last user.
"""

import asyncio
import secrets
import time
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from slackwater.core.backoff import Backoff
from slackwater.core.bus import BusAddress, need_bus
from slackwater.dissemination.transports.base import Unreachable
from slackwater.dissemination.transports.nats_frames import GONE, is_place

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

OPEN_SECONDS = 10.0
PING_SECONDS = 10.0
"""Interval of liveness messages of a member; after twice as long without one it is lost."""
REJOIN = Backoff(first=0.2, most=1.0)
"""Between two attempts to get back on a bus that is gone."""
_TICKS_A_PING = 4
_FRAMES_A_TURN = 64
"""Frames published before others on the event loop get a turn."""
_FLUSH_SECONDS = 0.001
NO_RESPONDERS = "503"


class Member(Protocol):
    """User of the bus: one connection end, publisher or membership."""

    def arrived(self, payload: bytes) -> None:
        """A payload came."""
        ...

    def nobody_there(self) -> None:
        """A frame with a reply address had no receiver."""
        ...

    def bus_lost(self, why: str) -> None:
        """The bus is gone."""
        ...

    def next_frame(self) -> tuple[str, bytes, str] | None:
        """Next frame to publish: subject, payload, reply address; None where nothing may be sent now."""
        ...

    def tick(self, now: float) -> None:
        """Time passes."""
        ...


class Bus:
    """A connection to a server, and its members."""

    def __init__(self, address: BusAddress, name: str, ping: float) -> None:
        self.address = address
        self.ping = ping
        self.base = f"slackwater.at.{secrets.token_hex(12)}"
        self.members: dict[str, Member] = {}
        self.published = 0
        self.lost = asyncio.Event()
        self.users = 0
        self._name = name
        self._client: Client | None = None
        self._posts: deque[tuple[str, bytes, str]] = deque()
        self._ready: deque[Member] = deque()
        self._queued: set[Member] = set()
        self._awake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._parting: set[asyncio.Task[None]] = set()
        self.connecting = asyncio.get_running_loop().create_task(self._connect())

    @property
    def largest(self) -> int:
        """Bytes of the largest payload that the server takes."""
        assert self._client is not None
        return self._client.max_payload

    def join(self, member: Member) -> str:
        """Add a member; returns the subject that reaches it."""
        name = secrets.token_hex(8)
        self.members[name] = member
        return f"{self.base}.{name}"

    def leave(self, subject: str) -> None:
        """Remove a member."""
        self.members.pop(subject.rpartition(".")[2], None)

    def post(self, subject: str, payload: bytes, reply: str = "") -> None:
        """Publish one payload soon."""
        self._posts.append((subject, payload, reply))
        self._awake.set()

    def ready(self, member: Member) -> None:
        """Ask the member for frames until it has none."""
        if member not in self._queued:
            self._queued.add(member)
            self._ready.append(member)
            self._awake.set()

    async def subscribe(
        self, subject: str, received: "Callable[[Msg], Awaitable[None]]", queue: str = ""
    ) -> "Subscription":
        """Receive what is published to a subject; returns when the server knows."""
        from nats import errors

        assert self._client is not None
        try:
            subscription = await self._client.subscribe(subject, queue=queue, cb=received)
            # Twice: the first question of a flush may overtake what still waits in the client to be written.
            await self._client.flush()
            await self._client.flush()
        except (errors.Error, OSError, TimeoutError) as error:
            raise Unreachable(f"the bus at {self.address} does not answer: {error}") from None
        return subscription

    def unsubscribe(self, subscription: "Subscription") -> None:
        """Receive no more of it, soon."""
        if not self.lost.is_set():
            task = asyncio.get_running_loop().create_task(self._unsubscribed(subscription))
            self._parting.add(task)
            task.add_done_callback(self._parting.discard)

    async def _unsubscribed(self, subscription: "Subscription") -> None:
        from nats import errors

        with suppress(errors.Error, OSError):
            await subscription.unsubscribe()

    async def _connect(self) -> None:
        need_bus()
        from nats import errors
        from nats.aio.client import Client

        async def noted(_: Exception) -> None:
            """Ignore: a broken connection ends the bus, a lost piece is a gap."""

        self._client = client = Client()
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await client.connect(
                    list(self.address.servers),
                    name=self._name,
                    error_cb=noted,
                    closed_cb=self._broken,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    connect_timeout=2,
                    ping_interval=max(1, round(self.ping)),
                )
                await self.subscribe(f"{self.base}.*", self._take)
        except (errors.Error, OSError, TimeoutError) as error:
            self.lost.set()
            raise Unreachable(
                f"the bus at {self.address} cannot be reached ({str(error) or type(error).__name__}): "
                f"check the address, and that the NATS server is running"
            ) from None
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._publish()), loop.create_task(self._pass_time())]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """The end of one task ends the bus, so that no member waits for a frame that is never carried."""
        if not task.cancelled() and task.exception() is not None:
            asyncio.get_running_loop().create_task(self._broken())

    async def _take(self, message: "Msg") -> None:
        member = self.members.get(message.subject.rpartition(".")[2])
        if member is None:
            if is_place(message.reply):
                # A peer of a member that left would otherwise wait until its liveness times out.
                self.post(message.reply, GONE)
        elif message.headers and message.headers.get("Status") == NO_RESPONDERS:
            member.nobody_there()
        else:
            member.arrived(message.data)

    async def _publish(self) -> None:
        from nats import errors

        assert self._client is not None
        turn = 0
        while True:
            await self._awake.wait()
            self._awake.clear()
            while self._posts or self._ready:
                if self._posts:
                    frame = self._posts.popleft()
                else:
                    member = self._ready.popleft()
                    asked = member.next_frame()
                    if asked is None:
                        self._queued.discard(member)
                        continue
                    self._ready.append(member)
                    frame = asked
                try:
                    await self._client.publish(*frame)
                except (errors.Error, OSError):
                    await self._broken()
                    return
                self.published += 1
                turn += 1
                if turn % _FRAMES_A_TURN == 0:
                    await asyncio.sleep(0)

    async def _pass_time(self) -> None:
        while True:
            await asyncio.sleep(self.ping / _TICKS_A_PING)
            now = time.monotonic()
            for member in list(self.members.values()):
                member.tick(now)

    async def _broken(self) -> None:
        if not self.lost.is_set():
            self.lost.set()
            for member in list(self.members.values()):
                member.bus_lost(f"the connection to the bus at {self.address} broke")

    async def flushed(self) -> None:
        """Return when what was posted so far is with the server, or the bus is gone."""
        while self._posts and not self.lost.is_set():
            await asyncio.sleep(_FLUSH_SECONDS)

    async def close(self) -> None:
        """Publish what is posted, then drop the connection."""
        await self.flushed()
        await asyncio.gather(*self._parting)
        self.lost.set()
        tasks = [self.connecting, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
            # The client's own tasks were cancelled and end in the next turn.
            await asyncio.sleep(0)


_buses: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[tuple[str, ...], str], Bus]]" = (
    weakref.WeakKeyDictionary()
)


async def borrow(address: BusAddress, name: str, ping: float = PING_SECONDS) -> Bus:
    """The bus that this process has to these servers under this name, made where there is none; give it back."""
    kept = _buses.setdefault(asyncio.get_running_loop(), {})
    key = (address.servers, name)
    bus = kept.get(key)
    if bus is None or bus.lost.is_set():
        bus = kept[key] = Bus(BusAddress(address.servers), name, ping)
    bus.users += 1
    try:
        await asyncio.shield(bus.connecting)
    except BaseException:
        await give_back(bus)
        raise
    return bus


async def give_back(bus: Bus) -> None:
    """One user fewer; the last one closes the bus."""
    bus.users -= 1
    if bus.users == 0:
        kept = _buses.get(asyncio.get_running_loop(), {})
        for key in [key for key, one in kept.items() if one is bus]:
            del kept[key]
        # A task of its own, so that a caller who is cancelled leaves no socket behind.
        await asyncio.shield(asyncio.get_running_loop().create_task(bus.close()))
