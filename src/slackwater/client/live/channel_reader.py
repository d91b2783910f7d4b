"""The channels of a client, connected to the world: joins those that its state asks for, and reads them."""

import asyncio
from collections.abc import Callable

from slackwater.client.live.events import ChannelHeard, ChannelLost, ChannelMissed, Event, JoinChannel, LeaveChannel
from slackwater.core.errors import ProtocolError, SlackwaterError
from slackwater.dissemination.encoding import decode_published
from slackwater.dissemination.transports.base import Channels, Heard, TransportLimits

LIMITS = TransportLimits(message=64 << 20, unsent=64 << 20)


class ChannelReader:
    """One task for each channel that is joined. `find` gives the channels at an address."""

    def __init__(self, find: Callable[[str], Channels], happened: Callable[[Event], None]) -> None:
        self._find = find
        self._happened = happened
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def do(self, instruction: JoinChannel | LeaveChannel) -> None:
        """Join a channel, or leave it."""
        former = self._reading.pop(instruction.name, None)
        if former is not None:
            former.cancel()
            self._ending.add(former)
            former.add_done_callback(self._ending.discard)
        if isinstance(instruction, JoinChannel):
            reading = asyncio.get_running_loop().create_task(self._read(instruction))
            self._reading[instruction.name] = reading

    async def close(self) -> None:
        """Leave all."""
        for name in list(self._reading):
            self.do(LeaveChannel(name))
        if self._ending:
            await asyncio.wait(self._ending)

    async def _read(self, wanted: JoinChannel) -> None:
        await asyncio.sleep(wanted.after / 1_000_000)
        try:
            membership = await self._find(wanted.address).join(wanted.name, LIMITS)
            try:
                while True:
                    what = await membership.receive()
                    if isinstance(what, Heard):
                        self._tell(wanted, ChannelHeard(wanted.name, decode_published(what.message)))
                    else:
                        self._tell(wanted, ChannelMissed(wanted.name))
            finally:
                await membership.close()
        except (SlackwaterError, ProtocolError, ValueError) as error:
            self._tell(wanted, ChannelLost(wanted.name, str(error)))

    def _tell(self, wanted: JoinChannel, event: Event) -> None:
        # Handling an event may end this very task's turn: what it would read then counts no more.
        if self._reading.get(wanted.name) is asyncio.current_task():
            self._happened(event)
