"""What `live_subscriptions --nats` needs: clients over a bus that do the least, and what a bus carries by itself."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from slackwater.dissemination.encoding import encode
from slackwater.dissemination.messages import FromClient
from slackwater.dissemination.transports.base import Closed, Connection, Heard, TransportLimits
from slackwater.dissemination.transports.nats import NatsTransport
from slackwater.dissemination.transports.nats_channels import NatsChannels, NatsMembership
from tests.support.nats_server import NatsServer

MEMBERS = 1_000
MESSAGES, MESSAGES_A_SECOND = 100, 5
PAIRS, CARRIED = 200, 200_000
_LIMITS = TransportLimits(message=64 << 20, unsent=64 << 20, grace=0.0)


class BusSocket:
    """A connection over the bus; `received` gets each binary message."""

    def __init__(
        self, connection: Connection, received: Callable[["BusSocket", bytes], None], failures: list[str]
    ) -> None:
        self._connection = connection
        self._received = received
        self._failures = failures
        self._reading = asyncio.get_running_loop().create_task(self._read())
        self._leaving: asyncio.Task[None] | None = None

    async def _read(self) -> None:
        try:
            while True:
                message = await self._connection.receive()
                assert isinstance(message, bytes)
                self._received(self, message)
        except Closed as closed:
            if self._leaving is None:
                self._failures.append(str(closed))

    def say(self, message: FromClient) -> None:
        """Send a message."""
        self._connection.send(encode(message))

    def leave(self) -> None:
        """Close the connection, soon."""
        self._leaving = asyncio.get_running_loop().create_task(self._connection.close())


async def dial_bus(address: str, received: Callable[[BusSocket, bytes], None], failures: list[str]) -> BusSocket:
    """A client; all of them share one connection to the NATS server, as those of one process do."""
    return BusSocket(await NatsTransport(name="generator").dial(address, _LIMITS), received, failures)


async def carried(bus: NatsServer) -> dict[str, Any]:
    """As many messages as go through connections, both ends of which are in this process and share its time."""
    address, over = f"{bus.url}/carried", asyncio.Event()

    async def send(connection: Connection) -> None:
        for _ in range(CARRIED // PAIRS):
            if not connection.send(b"x" * 100):
                await connection.drained()
        await over.wait()

    async def receive(connection: Connection) -> int:
        return sum([len(await connection.receive()) == 100 for _ in range(CARRIED // PAIRS)])

    async with NatsTransport(name="sending").listen(send, _LIMITS, address):
        began = time.perf_counter()
        ends = await asyncio.gather(*(NatsTransport(name="receiving").dial(address, _LIMITS) for _ in range(PAIRS)))
        arrived = sum(await asyncio.gather(*map(receive, ends)))
        took = time.perf_counter() - began
        over.set()
        await asyncio.gather(*(end.close() for end in ends))
    return {"connections": PAIRS, "messages": arrived, "bytes": 100, "messages_a_second": round(arrived / took)}


async def multicast(bus: NatsServer) -> dict[str, Any]:
    """One message to a thousand members, each with a connection to the NATS server of its own."""
    limits, delays, wrong = TransportLimits(), [], 0
    async with NatsChannels(bus.url, name="publisher").open("prices", limits) as publisher:
        members: list[NatsMembership] = []
        for start in range(0, MEMBERS, 50):
            some = (NatsChannels(bus.url, name=f"member {n}").join("prices", limits) for n in range(start, start + 50))
            members += await asyncio.gather(*some)
        before = bus.figures()
        for number in range(MESSAGES):
            sent = time.perf_counter()
            publisher.publish(b"x" * 200)

            async def hears(member: NatsMembership, number: int = number, sent: float = sent) -> bool:
                heard = await member.receive()
                delays.append(time.perf_counter() - sent)
                return heard == Heard(number, b"x" * 200)

            wrong += sum(not right for right in await asyncio.gather(*map(hears, members)))
            await asyncio.sleep(max(0.0, 1 / MESSAGES_A_SECOND - (time.perf_counter() - sent)))
        after = bus.figures()
        published = publisher.published
        await asyncio.gather(*(member.close() for member in members))
    ordered = sorted(delays)
    beats = after["in_msgs"] - before["in_msgs"] - published
    return {
        "members": MEMBERS,
        "messages": MESSAGES,
        "published_by_our_count": published,
        "received_by_the_server": after["in_msgs"] - before["in_msgs"],
        "of_these_heartbeats": beats,
        "sent_by_the_server": after["out_msgs"] - before["out_msgs"],
        "wrong_or_missing": wrong,
        "publish_to_member_ms": {
            name: round(1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))], 1)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("most", 1.0))
        },
    }
