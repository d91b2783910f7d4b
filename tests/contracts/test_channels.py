"""The promises of channels in `slackwater.dissemination.transports.base`, one by one, for every kind there is."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from slackwater.dissemination.transports.base import (
    Carried,
    Channels,
    Closed,
    Ended,
    Heard,
    How,
    Membership,
    MessageTooLarge,
    Missed,
    Publisher,
    TransportLimits,
    Unreachable,
)
from slackwater.dissemination.transports.memory_channels import MemoryChannels, MemoryPublisher
from slackwater.dissemination.transports.nats_channels import NatsChannels, NatsMembership, NatsPublisher
from tests.support.nats_server import NatsServer

LIMITS = TransportLimits(message=1 << 18, hold_back=64 << 10, unsent=1 << 20, unread=8, grace=1.0)
names = (f"channel-{number}" for number in itertools.count(1))
PING = 0.4


def nats_channels(url: str) -> Channels:
    return NatsChannels(url, name="members", ping=PING)


@pytest.fixture(params=["memory", "nats"])
def channels(request: pytest.FixtureRequest) -> Channels:
    if request.param == "memory":
        return MemoryChannels()
    return nats_channels(request.getfixturevalue("nats_server").url)


def lose(publisher: Publisher, count: int = 1) -> None:
    """What the members see when so many messages are lost on the way to them."""
    assert isinstance(publisher, MemoryPublisher | NatsPublisher)
    publisher._sequence += count


@asynccontextmanager
async def joined(channels: Channels, members: int = 1) -> AsyncIterator[tuple[Publisher, list[Membership]]]:
    name = next(names)
    async with channels.open(name, LIMITS) as publisher:
        memberships = [await channels.join(name, LIMITS) for _ in range(members)]
        try:
            yield publisher, memberships
        finally:
            for membership in memberships:
                await membership.close()


async def heard(membership: Membership, count: int) -> list[Heard | Missed]:
    async with asyncio.timeout(10):
        return [await membership.receive() for _ in range(count)]


async def ending(membership: Membership) -> Ended:
    async def rest() -> None:
        async with asyncio.timeout(10):
            while True:
                await membership.receive()

    with pytest.raises(Closed) as closed:
        await rest()
    assert membership.ended == closed.value.ended
    return closed.value.ended


async def test_every_member_hears_everything_whole_and_in_order_by_one_publish_each(channels: Channels) -> None:
    messages: list[Carried] = [b"", "", "ü", b"\x00\xff", bytes(200_000), *(str(n) for n in range(300))]
    async with joined(channels, 7) as (publisher, members):
        for message in messages:
            publisher.publish(message)
        for member in members:
            assert await heard(member, len(messages)) == [Heard(n, message) for n, message in enumerate(messages)]
        assert publisher.published == len(messages)


async def test_who_joins_hears_what_comes_after(channels: Channels) -> None:
    name = next(names)
    async with channels.open(name, LIMITS) as publisher:
        for n in range(50):
            publisher.publish(f"before {n}")
        member = await channels.join(name, LIMITS)
        assert publisher.publish("after") == 50
        assert await heard(member, 1) == [Heard(50, "after")]
        await member.close()


async def test_a_member_is_told_what_it_missed(channels: Channels) -> None:
    async with joined(channels) as (publisher, (member,)):
        publisher.publish("one")
        lose(publisher, 3)
        publisher.publish("five")
        assert await heard(member, 3) == [Heard(0, "one"), Missed(3), Heard(4, "five")]


async def test_joining_where_nobody_publishes_is_refused(channels: Channels) -> None:
    async with asyncio.timeout(5):
        with pytest.raises(Unreachable, match="there is no publisher"):
            await channels.join("deserted", LIMITS)


async def test_who_does_not_read_loses_its_membership_alone(channels: Channels) -> None:
    async with joined(channels, 2) as (publisher, (reader, sleeper)):
        for n in range(40):
            publisher.publish(bytes(100_000))
            assert await heard(reader, 1) == [Heard(n, bytes(100_000))]
        ended = await ending(sleeper)
        assert (ended.how, ended.here) == (How.OVERFLOW, True)
        assert reader.ended is None


async def test_too_large_is_refused_and_the_channel_lives_on(channels: Channels) -> None:
    async with joined(channels) as (publisher, (member,)):
        with pytest.raises(MessageTooLarge):
            publisher.publish(bytes(LIMITS.message + 1))
        publisher.publish(bytes(LIMITS.message))
        assert await heard(member, 1) == [Heard(0, bytes(LIMITS.message))]


async def test_a_publisher_that_closes_ends_the_memberships_after_what_it_said(channels: Channels) -> None:
    name = next(names)
    async with channels.open(name, LIMITS) as publisher:
        member = await channels.join(name, LIMITS)
        publisher.publish("last words")
    assert await heard(member, 1) == [Heard(0, "last words")]
    ended = await ending(member)
    assert (ended.how, ended.here, ended.why) == (How.CLOSED, False, "the channel closes")
    await member.close()


async def test_leaving_leaves_nothing_behind(channels: Channels) -> None:
    before = asyncio.all_tasks()
    async with joined(channels, 3) as (publisher, members):
        publisher.publish("one")
        await members[0].close()
        await members[0].close()
        assert (await ending(members[0])).how is How.CLOSED
        assert await heard(members[1], 1) == [Heard(0, "one")]
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == before


# What only a bus can do.


async def test_a_member_is_told_of_the_last_message_too(nats_server: NatsServer) -> None:
    async with joined(nats_channels(nats_server.url)) as (publisher, (member,)):
        publisher.publish("one")
        lose(publisher)
        assert await heard(member, 2) == [Heard(0, "one"), Missed(1)]


async def test_a_publisher_that_is_gone_is_noticed(nats_server: NatsServer) -> None:
    async with joined(nats_channels(nats_server.url)) as (publisher, (member,)):
        assert isinstance(publisher, NatsPublisher)
        publisher.tick = lambda now: None  # type: ignore[method-assign]
        assert (await ending(member)).how is How.LOST


async def test_a_publisher_comes_back_with_the_bus_and_members_join_again(own_nats_server: NatsServer) -> None:
    channels, name = nats_channels(own_nats_server.url), next(names)
    async with channels.open(name, LIMITS) as publisher:
        member = await channels.join(name, LIMITS)
        own_nats_server.kill()
        assert (await ending(member)).how is How.LOST
        await member.close()
        publisher.publish("nobody hears this")
        own_nats_server.start()
        async with asyncio.timeout(10):
            while True:
                try:
                    member = await channels.join(name, LIMITS)
                except Unreachable:
                    await asyncio.sleep(0.05)
                else:
                    break
        publisher.publish("again")
        assert await heard(member, 1) == [Heard(1, "again")]
        await member.close()


async def test_one_message_to_a_thousand_members_is_one_publish_as_the_server_counts(nats_server: NatsServer) -> None:
    # A connection to the server for each, as a thousand clients have.
    name = next(names)
    make: Callable[[int], NatsChannels] = lambda n: NatsChannels(nats_server.url, name=f"client-{n}", ping=60)  # noqa: E731
    async with NatsChannels(nats_server.url, name="node", ping=60).open(name, LIMITS) as publisher:
        members: list[NatsMembership] = []
        for start in range(0, 1000, 50):
            members += await asyncio.gather(*(make(n).join(name, LIMITS) for n in range(start, start + 50)))
        before = nats_server.figures()
        assert before["connections"] >= 1001
        publisher.publish("to all of you")
        for member in members:
            assert await heard(member, 1) == [Heard(0, "to all of you")]
        after = nats_server.figures()
        assert publisher.published == 1
        assert after["in_msgs"] - before["in_msgs"] == 1
        assert after["out_msgs"] - before["out_msgs"] == 1000
        await asyncio.gather(*(member.close() for member in members))
