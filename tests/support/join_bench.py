"""Test bench of a server state with standing joins."""

from simulation.workload import TABLE
from slackwater.core import Instant, Operation, Origin, Update
from slackwater.core.arrow import to_batch
from slackwater.dissemination.messages import (
    Fact,
)
from slackwater.log import Record, TableDefined, Updates
from slackwater.sessions.engine import NodeEngine
from slackwater.sessions.limits import ServerLimits
from slackwater.sessions.rules import SessionRules
from slackwater.sessions.state import ServerState
from tests.support.state_bench import Bench

OTHER = type(TABLE)("others", TABLE.columns, TABLE.key)


ALL = "SUBSCRIBE SELECT items.id, others.id FROM items JOIN others ON others.price - items.price < 1000"


class Joined(Bench):
    """Two tables and the real operators."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = NodeEngine()  # type: ignore[assignment]
        self.engine.registrar.limits = ServerLimits(held_facts=1000)
        self.end = 0
        self.log(TableDefined(TABLE), TableDefined(OTHER), state=None)
        self.state = ServerState("n", 3, SessionRules(), self.engine)
        self.open(1)

    def put(self, table: str, *keys: int, price: float = 1.0) -> None:
        self.append(self.rows(table, *keys, price=price))

    def rows(self, table: str, *keys: int, price: float = 1.0, gone: bool = False) -> Record:
        updates, kind = [], Operation.DELETE if gone else Operation.UPSERT
        for key in keys:
            self.sequence += 1
            row = (key, "a", price, 1, 0)
            updates.append(Update(table, row, Instant(self.sequence), Origin("t", self.sequence), kind))
        return Updates(table, to_batch(TABLE if table == "items" else OTHER, updates))


def kinds(facts: list[Fact]) -> list[type[Fact]]:
    return [type(fact) for fact in facts]
