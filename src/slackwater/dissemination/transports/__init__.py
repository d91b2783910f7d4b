"""How messages are carried: the contract (`base`), and one file for each way."""

from slackwater.dissemination.transports.base import (
    Carried,
    Closed,
    Connection,
    Denied,
    Ended,
    Handler,
    How,
    Limits,
    Listener,
    MessageTooLarge,
    Transport,
    TransportError,
    Unreachable,
)

__all__ = [
    "Carried",
    "Closed",
    "Connection",
    "Denied",
    "Ended",
    "Handler",
    "How",
    "Limits",
    "Listener",
    "MessageTooLarge",
    "Transport",
    "TransportError",
    "Unreachable",
]
