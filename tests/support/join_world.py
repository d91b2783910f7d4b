"""Join oracle: two tables with standing joins, beside a recomputation from scratch."""

from collections.abc import Mapping
from random import Random

from slackwater.core import (
    EVERYTHING,
    NOTHING,
    Box,
    Column,
    DataType,
    Instant,
    Interval,
    Join,
    Operation,
    Origin,
    Position,
    Region,
    Row,
    Side,
    TableSchema,
    Update,
)
from slackwater.core.arrow import to_batch
from slackwater.hosting.publication import as_bytes
from slackwater.kinds.join.schema import joined_name, joined_schema
from slackwater.processing.base import Notifications, RowKind
from slackwater.processing.columns import python_rows
from slackwater.processing.host import Host
from tests.support.joins import families

LEFT = TableSchema(
    "unit",
    (
        Column("id", DataType.BIGINT, nullable=False),
        Column("pos", DataType.DOUBLE),
        Column("product", DataType.TEXT),
        Column("quantity", DataType.BIGINT),
        Column("note", DataType.TEXT),
    ),
    key=("id",),
)


RIGHT = TableSchema(
    "target",
    (
        Column("name", DataType.TEXT, nullable=False),
        Column("part", DataType.BIGINT, nullable=False),
        Column("product", DataType.TEXT),
        Column("pos", DataType.DOUBLE),
        Column("big", DataType.BIGINT),
        Column("seen", DataType.TIMESTAMP),
    ),
    key=("name", "part"),
)


JOINED = joined_schema(LEFT, RIGHT)


NUMBERS = [-3.0, -1.0, -0.0, 0.0, 0.1, 0.3, 1.0, 2.5, 1e300, -1e300]


class World:
    """Two tables as dictionaries, a host, and a subscriber of its notifications."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.host = Host()
        self.host.define(LEFT, Position(1))
        self.host.define(RIGHT, Position(2))
        self.position = 2
        self.tables: dict[str, dict[tuple[object, ...], Row]] = {"unit": {}, "target": {}}
        self.queries: dict[int, Join] = {}
        self.heard: dict[int, dict[tuple[object, ...], tuple[object, ...]]] = {}
        self.schemas = {"unit": LEFT, "target": RIGHT}

    # ---- events

    def rows(self) -> None:
        batches = {}
        for table in self.random.sample(["unit", "target"], self.random.randint(1, 2)):
            updates = []
            for _ in range(self.random.randint(1, 6)):
                self.position += 1
                row = self.unit() if table == "unit" else self.target()
                key = self.schemas[table].key_of(row)
                gone = self.random.random() < 0.25
                kind = Operation.DELETE if gone else Operation.UPSERT
                updates.append(Update(table, row, Instant(self.position), Origin("s", self.position), kind))
                if gone:
                    self.tables[table].pop(key, None)
                else:
                    self.tables[table][key] = row
            batches[table] = to_batch(self.schemas[table], updates)
        before = self.host.snapshot()
        output = self.host.apply_all(batches, Position(self.position))
        if self.random.random() < 0.3:
            twin = Host()
            twin.restore(before)
            assert twin.snapshot() == before
            again = twin.apply_all(batches, Position(self.position))
            assert _bytes(again) == _bytes(output)
            assert twin.snapshot() == self.host.snapshot()
            self.host = twin
        self.hear(output)

    def register(self) -> None:
        number = self.random.randrange(30)
        self.position += 1
        query = self.queries[number] = self.query()
        answer = self.host.register(number, query, Position(self.position))
        assert answer.rows is not None
        rows = python_rows(answer.rows)
        self.heard[number] = {JOINED.key_of(row): self.shown(query, row) for row in rows}
        assert len(self.heard[number]) == len(rows)

    def unregister(self) -> None:
        if self.queries:
            number = self.random.choice(sorted(self.queries))
            self.position += 1
            self.host.unregister(number, Position(self.position))
            del self.queries[number], self.heard[number]

    def step(self) -> None:
        kind = self.random.random()
        if kind < 0.7:
            self.rows()
        elif kind < 0.9:
            self.register()
        else:
            self.unregister()
        for number in self.queries:
            assert self.heard[number] == self.truth(number), self.queries[number]
            answer = self.host.answer(number).rows
            assert answer is not None
            assert {JOINED.key_of(row): self.shown(self.queries[number], row) for row in python_rows(answer)} == (
                self.heard[number]
            )
        for family in families(self.host).values():
            if self.random.random() < 0.1:
                family.settle()
                family.matcher._check()

    # ---- published answers and the truth

    def hear(self, output: Notifications) -> None:
        assert output.values is None
        assert len(output.rows) <= 1
        for part in output.rows:
            assert part.table == joined_name("unit", "target")
            assert part.slots is not None
            assert sorted(set(part.slots.tolist())) == part.slots.tolist()
            rows = python_rows(part.rows)
            facts = list(zip(part.queries.tolist(), part.places.tolist(), part.kinds.tolist(), strict=True))
            assert facts == sorted(facts)
            assert len({fact[:2] for fact in facts}) == len(facts)
            assert {fact[1] for fact in facts} == set(range(len(rows)))
            for number, place, kind in facts:
                key = JOINED.key_of(rows[place])
                if kind == RowKind.DELETE:
                    del self.heard[number][key]
                else:
                    shown = self.shown(self.queries[number], rows[place])
                    assert self.heard[number].get(key) != shown, "said in vain"
                    self.heard[number][key] = shown

    def shown(self, query: Join, row: Row) -> tuple[object, ...]:
        return tuple(row[JOINED.index(name)] for name in query.columns)

    def truth(self, number: int) -> Mapping[tuple[object, ...], tuple[object, ...]]:
        query = self.queries[number]
        found: dict[tuple[object, ...], tuple[object, ...]] = {}
        for left in self.tables["unit"].values():
            for right in self.tables["target"].values():
                a, b = left[LEFT.index(query.left_column)], right[RIGHT.index(query.right_column)]
                if a is None or b is None:
                    continue
                if query.band is None:
                    fits = a == b
                else:
                    assert not isinstance(a, str)
                    assert not isinstance(b, str)
                    fits = query.band.contains(float(b) - float(a))
                fits = fits and query.left_region.contains(_cells(LEFT, left).get)
                fits = fits and query.right_region.contains(_cells(RIGHT, right).get)
                if fits:
                    row = (*left, *right)
                    found[JOINED.key_of(row)] = self.shown(query, row)
        return found

    # ---- random things

    def number(self) -> float | None:
        return None if self.random.random() < 0.1 else self.random.choice(NUMBERS)

    def unit(self) -> Row:
        random = self.random
        product, quantity = random.choice(["a", "b", "ä", None]), random.choice([None, 1, 2, 3, 2**62, 2**62 + 1])
        return (random.randrange(8), self.number(), product, quantity, random.choice("xy"))

    def target(self) -> Row:
        random = self.random
        product, big = random.choice(["a", "b", "c", None]), random.choice([None, 1, 2, 2**62, 2**62 + 1])
        return (random.choice("pqr"), random.randrange(3), product, self.number(), big, random.choice([None, 5, 9]))

    def interval(self) -> Interval:
        random = self.random
        low, high = sorted(random.choice(NUMBERS) + 0.0 for _ in range(2))
        return Interval(
            None if random.random() < 0.15 else low,
            None if random.random() < 0.15 else high,
            random.random() < 0.3,
            random.random() < 0.3,
        )

    def region(self, *columns: str) -> Region:
        if self.random.random() < 0.03:
            return NOTHING
        chosen = [column for column in columns if self.random.random() < 0.4]
        if not chosen:
            return EVERYTHING
        sides = [Side(column, self.interval()) for column in chosen]
        return NOTHING if any(side.extent.empty for side in sides) else Region((Box.of(*sides),))

    def query(self) -> Join:
        random = self.random
        on = random.choice([("pos", "pos"), ("product", "product"), ("quantity", "big"), ("pos", "big")])
        band = self.interval() if on == ("pos", "pos") and random.random() < 0.8 else None
        names = [column.name for column in JOINED.columns]
        columns = tuple(random.sample(names, random.randint(1, len(names))))
        left, right = self.region("quantity", "pos"), self.region("pos", "seen")
        return Join("unit", "target", *on, columns, band, left, right)


def _cells(table: TableSchema, row: Row) -> dict[str, bool | int | float | str | None]:
    return dict(zip((column.name for column in table.columns), row, strict=True))


def _bytes(output: Notifications) -> list[tuple[object, ...]]:
    return [
        (one.table, one.queries.tobytes(), one.places.tobytes(), one.kinds.tobytes(), as_bytes(one.rows))
        for one in output.rows
    ]


def filled(rows: int) -> Host:
    """Two tables of so many rows, all within reach of each other."""
    host = Host()
    host.define(LEFT, Position(1))
    host.define(RIGHT, Position(2))
    units = [
        Update("unit", (k, k / rows, "a", k, "x"), Instant(k + 1), Origin("s", k + 1), Operation.UPSERT)
        for k in range(rows)
    ]
    targets = [
        Update("target", ("t", k, "a", k / rows, k, None), Instant(k + 1), Origin("s", k + 1), Operation.UPSERT)
        for k in range(rows)
    ]
    host.apply_all({"unit": to_batch(LEFT, units), "target": to_batch(RIGHT, targets)}, Position(3))
    return host


EVERYTHING_JOINED = Join("unit", "target", "pos", "pos", ("unit.id",), Interval(-9.0, 9.0))
