"""A client without its sockets: events in, instructions out."""

from collections.abc import Callable

from slackwater.client.events import Event, Instruction, Shown
from slackwater.dissemination.encoding import Encoding


class ClientState:
    """All subscriptions of a client, over one connection at a time.

    `jitter` gives numbers from 0 to below 1, by which waiting before a new connection is spread.
    """

    def __init__(self, jitter: Callable[[], float], encoding: Encoding = Encoding.MESSAGEPACK) -> None:
        raise NotImplementedError

    def handle(self, event: Event, now: int) -> list[Instruction]:
        """Take one event in. The first is a `Lost` or a `Tick`: it asks for a connection."""
        raise NotImplementedError

    def shown(self, ref: int, now: int) -> Shown:
        """What is known of a subscription that was wanted."""
        raise NotImplementedError

    def next_tick(self, now: int) -> int | None:
        """When a `Tick` is due; None where nothing waits for one."""
        raise NotImplementedError
