"""In-process channels: the plain twin of those over a bus."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from slackwater.dissemination.transports.base import (
    Carried,
    Ended,
    Heard,
    How,
    Missed,
    TransportLimits,
    Unreachable,
    shortened,
    size,
    too_large,
)
from slackwater.dissemination.transports.inbox import Inbox


class MemoryPublisher:
    """The sending end of a channel in memory."""

    def __init__(self, limits: TransportLimits) -> None:
        self._limits = limits
        self._sequence = 0
        self.published = 0
        self.members: set[MemoryMembership] = set()

    @property
    def sequence(self) -> int:
        """The place of the next message."""
        return self._sequence

    def publish(self, message: Carried) -> int:
        """Put it into every inbox."""
        if size(message) > self._limits.message:
            raise too_large(message, self._limits)
        sequence = self._sequence
        self._sequence += 1
        self.published += 1
        for member in self.members:
            member.inbox.put(sequence, message)
        return sequence

    def end(self, ended: Ended) -> None:
        """End all memberships."""
        for member in self.members:
            member.inbox.end(ended)


class MemoryMembership:
    """A receiving end of a channel in memory."""

    def __init__(self, publisher: MemoryPublisher, limits: TransportLimits) -> None:
        self._publisher = publisher
        self.inbox = Inbox(limits, publisher.sequence)
        publisher.members.add(self)

    @property
    def ended(self) -> Ended | None:
        """How it ended."""
        return self.inbox.ended

    async def receive(self) -> Heard | Missed:
        """Take the next one out of the inbox."""
        return await self.inbox.take()

    async def close(self) -> None:
        """Leave."""
        self._publisher.members.discard(self)
        self.inbox.end(Ended(How.CLOSED, True, ""))


class MemoryChannels:
    """The channels of one process, by name."""

    def __init__(self) -> None:
        self._publishers: dict[str, MemoryPublisher] = {}

    @asynccontextmanager
    async def open(self, name: str, limits: TransportLimits | None = None) -> AsyncIterator[MemoryPublisher]:
        """Publish under a name."""
        publisher = self._publishers[name] = MemoryPublisher(limits or TransportLimits())
        try:
            yield publisher
        finally:
            del self._publishers[name]
            publisher.end(Ended(How.CLOSED, False, shortened("the channel closes")))

    async def join(self, name: str, limits: TransportLimits | None = None) -> MemoryMembership:
        """Receive what is published under a name."""
        await asyncio.sleep(0)
        publisher = self._publishers.get(name)
        if publisher is None:
            raise Unreachable(f"there is no publisher in memory under {name}: open the channel first")
        return MemoryMembership(publisher, limits or TransportLimits())
