"""Channel factory: by address, `nats://host:4222`, or `memory` within one process."""

from slackwater.core.bus import need_bus
from slackwater.dissemination.transports.base import Channels
from slackwater.dissemination.transports.memory_channels import MemoryChannels

MEMORY = "memory"
_OF_THIS_PROCESS = MemoryChannels()


def open_channels(address: str) -> Channels:
    """The channels that publishers and members of an address share."""
    if address == MEMORY:
        return _OF_THIS_PROCESS
    need_bus()
    from slackwater.dissemination.transports.nats_channels import NatsChannels

    return NatsChannels(address)
