"""Channel host: I/O around shared channels; opens, publishes and closes as the sessions decide.

A channel is opened in a task. A message before it is open reaches no member, as none can have joined; members
notice by the sequence. So it is with a message that is too large for the channel.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

from slackwater.core.bus import DEFAULT_NAME, bus_address
from slackwater.core.errors import SlackwaterError
from slackwater.dissemination.delivery.base import (
    ChannelAction,
    ChannelPlace,
    CloseChannel,
    OpenChannel,
    PublishMessage,
)
from slackwater.dissemination.encoding import encode
from slackwater.dissemination.transports import Channels, MessageTooLarge, Publisher, TransportLimits
from slackwater.dissemination.transports.open_channels import MEMORY, open_channels

_report = logging.getLogger("slackwater.server")

AGAIN_SECONDS = 1.0
LONGEST_NAME = 24


class ChannelHost:
    """All channels of one server process, at `nats://host:4222/name` or in `memory`."""

    def __init__(self, address: str, limits: TransportLimits) -> None:
        servers, name = split_address(address)
        self._channels: Channels = open_channels(servers)
        self._limits = limits
        self._publishers: dict[str, Publisher] = {}
        self._closing: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.place = ChannelPlace(_for_members(servers), _names(f"{name}-{secrets.token_hex(8)}"))
        self.published = 0
        """Messages published, each by one publish of the transport."""
        self.published_bytes = 0
        self.left_out = 0
        """Messages that were not published; members get the state instead."""

    def do(self, action: ChannelAction) -> None:
        """Carry out an action, at once.

        After `close` there is none: clients on a bus may come back while the node goes down.
        """
        match action:
            case _ if self._closed:
                pass
            case OpenChannel(name):
                closing = self._closing[name] = asyncio.Event()
                task = asyncio.get_running_loop().create_task(self._keep_open(name, closing))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case PublishMessage(name):
                self._publish(name, action)
            case CloseChannel(name):
                self._closing.pop(name).set()

    async def close(self) -> None:
        """Close all channels, for good."""
        self._closed = True
        for closing in self._closing.values():
            closing.set()
        self._closing.clear()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _publish(self, name: str, action: PublishMessage) -> None:
        publisher = self._publishers.get(name)
        if publisher is None:
            return
        data = encode(action.message)
        try:
            publisher.publish(data)
        except MessageTooLarge as error:
            self.left_out += 1
            _report.info("query %d: %s; its members get the state", action.message.query, error)
            return
        self.published += 1
        self.published_bytes += len(data)

    async def _keep_open(self, name: str, closing: asyncio.Event) -> None:
        while not closing.is_set():
            try:
                async with self._channels.open(name, self._limits) as publisher:
                    self._publishers[name] = publisher
                    try:
                        await closing.wait()
                    finally:
                        del self._publishers[name]
            except SlackwaterError as error:
                _report.warning("a channel cannot be opened, its members get their facts by unicast: %s", error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_SECONDS):
                        await closing.wait()


def split_address(address: str) -> tuple[str, str]:
    """Where channels are, and the name that theirs begin with; a `SlackwaterError` says what is wrong.

    >>> split_address("nats://localhost:4222/desk")
    ('nats://localhost:4222', 'desk')
    """
    if address == MEMORY:
        return MEMORY, DEFAULT_NAME
    try:
        read = bus_address(address)
    except ValueError as error:
        raise SlackwaterError(str(error)) from None
    name = read.name or DEFAULT_NAME
    if len(name) > LONGEST_NAME:
        raise SlackwaterError(f"the name of channels has up to {LONGEST_NAME} characters, {name!r} has {len(name)}")
    return read.at("").rstrip("/"), name


def _for_members(servers: str) -> str:
    """Address for members: without the server's own user and password."""
    return servers if servers == MEMORY else str(bus_address(servers))


def _names(prefix: str) -> Iterator[str]:
    return (f"{prefix}-{number}" for number in count(1))
