"""A serving node without its sockets: events in, instructions out."""

from slackwater.core.types import Position
from slackwater.server.events import Engine, Event, Instruction
from slackwater.server.rules import Rules


class ServerState:
    """All sessions and registrations of a node; see `server.events` for what may happen and what is answered."""

    def __init__(self, node: str, generation: int, rules: Rules, engine: Engine) -> None:
        self.node = node
        self.generation = generation
        self.rules = rules

    @property
    def position(self) -> Position:
        """The position up to which everything has been told to the sessions or is held for them."""
        raise NotImplementedError

    def handle(self, event: Event, now: int) -> list[Instruction]:
        """Take one event in."""
        raise NotImplementedError

    def next_tick(self) -> int | None:
        """When a `Tick` is due; None where nothing waits for one."""
        raise NotImplementedError
