"""Random histories of a log: rows, queries registered and removed, plans, and schema changes."""

from random import Random

from slackwater.core import (
    Aggregate,
    AggregateFunction,
    Bound,
    Box,
    Categories,
    Column,
    DataType,
    HostKind,
    Instant,
    Interval,
    Operation,
    Origin,
    Region,
    Selection,
    Side,
    StandingQuery,
    TableSchema,
    Update,
    Weight,
)
from slackwater.core.arrow import to_batch
from slackwater.kinds.registry import plain_query
from slackwater.log import Record, Registered, TableDefined, TableDropped, TimePassed, Unregistered, Updates

QUOTES = TableSchema(
    "quotes",
    (Column("symbol", DataType.TEXT, nullable=False), Column("price", DataType.DOUBLE), Column("lot", DataType.BIGINT)),
    key=("symbol",),
)
ROOMS = TableSchema(
    "rooms",
    (
        Column("floor", DataType.BIGINT, nullable=False),
        Column("door", DataType.TEXT, nullable=False),
        Column("celsius", DataType.DOUBLE),
        Column("at", DataType.TIMESTAMP),
    ),
    key=("floor", "door"),
)
KEYS = 12


class History:
    """Makes records one after the other; what it makes follows from the seed."""

    def __init__(self, seed: int, host: HostKind = HostKind.SPARK) -> None:
        self.random = Random(seed)
        self.host = host
        self.tables = {"quotes": QUOTES, "rooms": ROOMS}
        self.end = 0
        self.sequence = 0
        self.standing: dict[int, tuple[str, str | None, int]] = {}

    def beginning(self) -> list[Record]:
        return self._placed([TableDefined(QUOTES), TableDefined(ROOMS)])

    def more(self, count: int) -> list[Record]:
        """So many records."""
        made: list[Record] = []
        for _ in range(count):
            made += self._placed([self._record()])
        return made

    def _placed(self, records: list[Record]) -> list[Record]:
        for record in records:
            match record:
                case Registered(table, _, _, name, None):
                    if name is None or all(known != name for _, known, _ in self.standing.values()):
                        self.standing[self.end] = (table, name, 0)
                case Registered(number=int() as number, epoch=epoch):
                    table, name, _ = self.standing[number]
                    self.standing[number] = (table, name, epoch)
                case Unregistered(number=number):
                    self.standing.pop(number, None)
                case TableDropped(table):
                    self.standing = {n: one for n, one in self.standing.items() if one[0] != table}
                case _:
                    pass
            self.end += record.batch.num_rows if isinstance(record, Updates) else 1
        return records

    def _record(self) -> Record:
        random, kind = self.random, self.random.random()
        if kind < 0.62:
            return self._updates(random.randint(1, 25))
        if kind < 0.86 or not self.standing:
            name = random.choice([None, None, None, "tech", "all"])
            query = self._query()
            return Registered(query.table, "", "ann", name, query=plain_query(query), host=self.host.value)
        number = random.choice(sorted(self.standing))
        table, name, epoch = self.standing[number]
        if kind < 0.91:
            late = random.random() < 0.3
            query = self._query(table)
            plain = plain_query(query)
            return Registered(table, "", "ann", name, number, epoch + (not late), query=plain, host=self.host.value)
        if kind < 0.96:
            return Unregistered(table, number)
        if kind < 0.98:
            return TimePassed(Instant(self.sequence))
        return self._table_changes()

    def _table_changes(self) -> Record:
        rooms = self.tables.get("rooms")
        if rooms is None:
            self.tables["rooms"] = ROOMS
            return TableDefined(ROOMS)
        if self.random.random() < 0.4:
            del self.tables["rooms"]
            return TableDropped("rooms")
        wider = rooms.with_column(Column(f"more{len(rooms.columns)}", DataType.TEXT))
        self.tables["rooms"] = wider
        return TableDefined(wider)

    def _updates(self, rows: int) -> Updates:
        table = self.random.choice(list(self.tables.values()))
        made = []
        for _ in range(rows):
            self.sequence += 1
            late = self.random.randrange(50) if self.random.random() < 0.1 else 0
            operation = Operation.DELETE if self.random.random() < 0.1 else Operation.UPSERT
            origin = Origin(self.random.choice(["a", "b"]), self.sequence)
            made.append(Update(table.name, self._row(table), Instant(self.sequence - late), origin, operation))
        return Updates(table.name, to_batch(table, made))

    def _row(self, table: TableSchema) -> tuple[bool | int | float | str | None, ...]:
        random = self.random
        number = None if random.random() < 0.1 else round(random.gauss(40, 20), random.choice([1, 3, 12]))
        if table.name == "quotes":
            return (f"S{random.randrange(KEYS)}", number, random.choice([None, 1, 2, 10**15]))
        more = [random.choice([None, "x", "ä"]) for _ in table.columns[4:]]
        return (random.randrange(3), random.choice("ab"), number, random.choice([None, self.sequence]), *more)

    def _query(self, table: str | None = None) -> StandingQuery:
        random = self.random
        name = table or random.choice(sorted(self.tables))
        column = "price" if name == "quotes" else "celsius"
        if random.random() < 0.35:
            shown = [("symbol", "price"), ("price", "lot")] if name == "quotes" else [("door", "celsius")]
            return Selection(name, random.choice(shown), self._region(name, column))
        function = random.choice(list(AggregateFunction))
        bound = Bound(random.choice([0.0, 1.0, 5.0, 40.0]))
        if name == "quotes" and random.random() < 0.6:
            # Also of keys that there is no row of yet.
            keys = random.sample(range(KEYS + 4), random.randint(1, 6))
            if random.random() < 0.3:
                region = Region((Box.of(Side("symbol", Categories(frozenset(f"S{key}" for key in keys)))),))
                return Aggregate(name, function, column, bound, region)
            weights = tuple(Weight((f"S{key}",), random.choice([1.0, -2.5, 0.1])) for key in keys)
            region = self._region(name, column) if random.random() < 0.3 else Region((Box(()),))
            return Aggregate(name, function, column, bound, region, weights)
        return Aggregate(name, function, column, bound, self._region(name, column))

    def _region(self, table: str, column: str) -> Region:
        low = self.random.uniform(-10, 60)
        if self.random.random() < 0.2:
            return Region((Box(()),))
        return Region((Box.of(Side(column, Interval(low, low + self.random.uniform(1, 60)))),))
