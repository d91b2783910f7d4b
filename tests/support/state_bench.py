"""Test bench of a server state: events by hand, instructions inspected."""

from typing import Any

from simulation.workload import TABLE, PlainLabEngine
from slackwater.core import Instant, Operation, Origin, Update
from slackwater.core.arrow import to_batch
from slackwater.core.types import Position
from slackwater.dissemination.messages import (
    VERSION,
    Fact,
    Frame,
    FromClient,
    Open,
    Subscribe,
)
from slackwater.log import Entry, Record, TableDefined, Updates
from slackwater.sessions.events import (
    Append,
    Close,
    Connected,
    Event,
    Instruction,
    Principal,
    Received,
    Send,
    Tick,
)
from slackwater.sessions.limits import ServerLimits
from slackwater.sessions.rules import SessionRules
from slackwater.sessions.state import ServerState

RULES = SessionRules()
LIMITS = ServerLimits(
    held_facts=4, recent_keys=3, subscriptions_a_token=5, connections=3, snapshot_rows=5, query_rows=5
)


class Bench:
    """A node on a test bench: a log in a list, and the messages sent to each connection."""

    def __init__(self, limits: ServerLimits = LIMITS) -> None:
        self.now = 1_000_000
        self.engine = PlainLabEngine()
        self.engine.registrar.limits = limits
        self.end = 0
        self.log(TableDefined(TABLE), state=None)
        self.state: ServerState | None = ServerState("n", 3, RULES, self.engine)
        self.sent: dict[int, list[Any]] = {}
        self.closed: dict[int, str] = {}
        self.asked: list[Record] = []
        self.sequence = 0

    def entries(self, *records: Record) -> list[Entry]:
        entries = []
        for record in records:
            entries.append(Entry(Position(self.end), record))
            self.end = entries[-1].end
        return entries

    def log(self, *records: Record, state: ServerState | None) -> None:
        for events in self.engine.events(self.entries(*records)):
            for event in events if state is not None else []:
                self.do(event)

    def append(self, *records: Record) -> None:
        self.log(*records, state=self.state)

    def grant(self) -> None:
        """Append the records that the node asked for."""
        asked, self.asked = self.asked, []
        self.append(*asked)

    def change(self, *prices: tuple[int, float | None]) -> None:
        self.append(self.updates(*prices))

    def updates(self, *prices: tuple[int, float | None]) -> Updates:
        updates = []
        for key, price in prices:
            self.sequence += 1
            operation = Operation.DELETE if price is None else Operation.UPSERT
            row = (key, "a", price, 1, 0)
            updates.append(Update("items", row, Instant(self.sequence), Origin("t", self.sequence), operation))
        return Updates("items", to_batch(TABLE, updates))

    def do(self, event: Event) -> list[Instruction]:
        assert self.state is not None
        instructions = self.state.handle(event, self.now)
        for instruction in instructions:
            match instruction:
                case Send(connection, message):
                    self.sent.setdefault(connection, []).append(message)
                case Close(connection, why):
                    self.closed[connection] = why
                case Append(records):
                    self.asked += records
        return instructions

    def open(self, connection: int = 1, after: int = 0, **options: Any) -> None:
        self.do(Connected(connection, Principal("p"), **options))
        self.say(Open(VERSION, after, 100), connection)

    def say(self, message: FromClient, connection: int = 1) -> None:
        self.do(Received(connection, message))

    def take(self, connection: int = 1) -> list[Any]:
        return self.sent.pop(connection, [])

    def facts(self, connection: int = 1) -> list[Fact]:
        return [fact for frame in self.take(connection) if isinstance(frame, Frame) for fact in frame.facts]

    def wait(self, microseconds: int) -> None:
        self.now += microseconds
        self.do(Tick())

    def subscribed(self, sql: str, connection: int = 1, ref: int = 1) -> list[Fact]:
        self.say(Subscribe(ref, sql), connection)
        self.grant()
        return self.facts(connection)
