"""Workload of the simulation: the table, the subscriptions and the changes."""

from functools import lru_cache
from random import Random

from simulation.host import PlainHost
from slackwater.core.query import StandingQuery
from slackwater.core.schema import Column, TableSchema
from slackwater.core.statement import Subscribe
from slackwater.core.types import DataType, Instant
from slackwater.core.update import Operation, Origin, Update
from slackwater.hosting.binder import Binder
from slackwater.sessions.engine import NodeEngine
from slackwater.sql import Catalog, to_sql

TABLE = TableSchema(
    "items",
    (
        Column("id", DataType.BIGINT, nullable=False),
        Column("grade", DataType.TEXT),
        Column("price", DataType.DOUBLE),
        Column("stock", DataType.BIGINT),
        Column("seen", DataType.TIMESTAMP),
    ),
    key=("id",),
)
KEYS = 12

AGGREGATES = (
    "SUBSCRIBE SELECT SUM(price) FROM items",
    "SUBSCRIBE SELECT AVG(price) FROM items WHERE grade IN ('a', 'b')",
    "SUBSCRIBE SELECT COUNT(*) FROM items WHERE price > 50",
    "SUBSCRIBE SELECT MIN(price) FROM items WHERE stock > 2",
    "SUBSCRIBE SELECT MAX(price) FROM items",
    "SUBSCRIBE SELECT SUM(w * price) FROM items JOIN (VALUES (1, 2.5), (4, -1), (7, 4)) AS p(id, w) USING (id)",
)
BOUNDS = ("WITHIN 2", "WITHIN 8", "WITHIN 25", "")
SELECTIONS = (
    "SUBSCRIBE SELECT * FROM items WHERE price BETWEEN 20 AND 60",
    "SUBSCRIBE SELECT stock, seen FROM items WHERE grade = 'a' OR stock > 5",
    "SUBSCRIBE SELECT id, price FROM items",
)
NAME = "watched"
NAMED = f"SUBSCRIBE {NAME} AS SELECT SUM(price) FROM items WHERE stock < 6 WITHIN 5"

_binder = Binder()
_written: dict[str, StandingQuery] = {}
"""Queries that were written as texts: reading them again gives them back, so it is not done here."""
_MOST_WRITTEN = 20_000


@lru_cache(maxsize=10_000)
def _read(sql: str) -> tuple[StandingQuery, str, str | None]:
    return _binder.bind(sql, {TABLE.name: TABLE})


def bound(sql: str) -> tuple[StandingQuery, str, str | None]:
    """A subscription's query, normal form and name. Every run has the same table: no need to parse in each."""
    query = _written.get(sql)
    return _read(sql) if query is None else (query, sql, None)


@lru_cache(maxsize=10_000)
def written(query: StandingQuery) -> str:
    """A query as a text in normal form."""
    if len(_written) > _MOST_WRITTEN:
        _written.clear()
        written.cache_clear()
    text = to_sql(Subscribe(query), Catalog((TABLE,)))
    _written[text] = query
    return text


class LabEngine(NodeEngine):
    """The engine of a real node, but for the parsing."""

    def bind(self, sql: str) -> tuple[StandingQuery, str, str | None]:
        """What the engine would find by parsing."""
        return bound(sql)


def engine(seed: int) -> type[LabEngine]:
    """The engine of all nodes of a world: the real host in every tenth, the plain one in the others."""
    return LabEngine if seed % 10 == 0 else PlainLabEngine


class PlainLabEngine(LabEngine):
    """The same with a host that is quick where there is little to do."""

    def __init__(self) -> None:
        super().__init__()
        self.host = PlainHost()


def subscription(random: Random) -> str:
    """What a program may subscribe to."""
    kind = random.random()
    if kind < 0.1:
        return NAMED
    if kind < 0.45:
        return random.choice(SELECTIONS)
    return f"{random.choice(AGGREGATES)} {random.choice(BOUNDS)}".rstrip()


def with_another_bound(text: str, random: Random) -> str:
    """The same question with another bound; of rows, the same question."""
    head = text.split(" WITHIN ")[0]
    if any(bound(selection)[1] == head for selection in SELECTIONS):
        return text
    return bound(f"{head} {random.choice(BOUNDS)}".rstrip())[1]


def updates(random: Random, sequence: int, many: int) -> list[Update]:
    """Changes of random rows: small steps and jumps, deletes, nulls, and now and then one that comes too late."""
    made = []
    for nth in range(sequence, sequence + many):
        key = random.randrange(KEYS)
        time = nth - (random.randrange(40) if random.random() < 0.1 else 0)
        row = (
            key,
            random.choice(("a", "b", "c", None)),
            None if random.random() < 0.05 else round(random.gauss(40, 20), 3),
            random.randrange(9),
            nth * 1_000,
        )
        operation = Operation.DELETE if random.random() < 0.1 else Operation.UPSERT
        made.append(Update(TABLE.name, row, Instant(time), Origin("lab", nth), operation))
    return made
