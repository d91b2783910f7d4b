"""Log address: a folder of segments, or a stream on a bus."""

from pathlib import Path

from slackwater.core.bus import bus_address
from slackwater.log.base import Log
from slackwater.log.local import LocalLog


def on_a_bus(address: str | Path) -> bool:
    """True if a log is a JetStream stream.

    >>> on_a_bus("nats://localhost:4222/desk"), on_a_bus("data/log")
    (True, False)
    """
    return isinstance(address, str) and address.startswith(("nats://", "tls://"))


def shown(address: str | Path) -> str:
    """An address for people to read: without passwords."""
    return str(bus_address(str(address))) if on_a_bus(address) else str(address)


def open_log(address: str | Path, *, read_only: bool = False) -> Log:
    """Open the log at a path, or at `nats://host:4222/name`."""
    if on_a_bus(address):
        from slackwater.log.jetstream import JetStreamLog

        return JetStreamLog(str(address), read_only=read_only)
    return LocalLog(address, read_only=read_only)
