"""A table joined with itself: what is said is the join, made from scratch, at every step; also to a replica."""

from random import Random

import pytest

from slackwater.core import (
    EVERYTHING,
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
from slackwater.hosting.publication import PublishedStep
from slackwater.hosting.replica import Replica
from slackwater.hosting.step import Registration, Step
from slackwater.kinds.join.schema import joined_schema
from slackwater.processing.base import Notifications, RowKind
from slackwater.processing.columns import python_rows
from slackwater.processing.host import Host

UNIT = TableSchema(
    "unit",
    (
        Column("id", DataType.BIGINT, nullable=False),
        Column("pos", DataType.DOUBLE),
        Column("team", DataType.TEXT),
        Column("speed", DataType.BIGINT),
        Column("best", DataType.DOUBLE),
    ),
    key=("id",),
)
Pair = tuple[object, object]


class World:
    """One table, a host, and what a subscriber and a replica have heard."""

    def __init__(self, seed: int) -> None:
        self.random, self.host, self.replica, self.position = Random(seed), Host(), Replica(), 1
        self.schema, self.joined = UNIT, joined_schema(UNIT, UNIT)
        self.rows: dict[int, Row] = {}
        self.queries: dict[int, Join] = {}
        self.heard: dict[int, dict[Pair, Row]] = {}
        self.host.define(UNIT, Position(1))
        self.replica.step(PublishedStep(Step(Notifications(Position(1)), (UNIT,))))

    def step(self) -> None:
        pick = self.random.random()
        self.position += 1
        if pick < 0.65:
            self.change()
        elif pick < 0.9:
            self.register()
        elif pick < 0.93 and len(self.schema.columns) < 7:
            self.widen()
        elif self.queries:
            self.unregister(self.random.choice(sorted(self.queries)))
        for number in self.queries:
            truth = self.truth(number)
            assert self.heard[number] == truth
            for answer in (self.host.answer(number), self.replica.answer(number)):
                assert answer.rows is not None
                assert {self.key(row): row for row in python_rows(answer.rows)} == truth

    def change(self) -> None:
        random, updates = self.random, []
        for _ in range(random.randint(1, 5)):
            self.position += 1
            number = random.randrange(7)
            row: Row = (
                number,
                random.choice([None, 0.0, 0.5, 1.0, 2.0]),
                random.choice(["red", "blue", None]),
                random.choice([None, 1, 2, 3]),
                random.choice([None, 0.0, 1.0, 1.5]),
                *([random.choice("xy")] * (len(self.schema.columns) - 5)),
            )
            gone = random.random() < 0.3
            kind = Operation.DELETE if gone else Operation.UPSERT
            updates.append(Update("unit", row, Instant(self.position), Origin("s", self.position), kind))
            if gone:
                self.rows.pop(number, None)
            else:
                self.rows[number] = row
        if random.random() < 0.3:
            twin = Host()
            twin.restore(self.host.snapshot())
            self.host = twin
        said = self.host.apply("unit", to_batch(self.schema, updates), Position(self.position))
        self.replica.step(PublishedStep(Step(said)))
        for part in said.rows:
            rows = python_rows(part.rows)
            facts = list(zip(part.queries.tolist(), part.places.tolist(), part.kinds.tolist(), strict=True))
            assert len({fact[:2] for fact in facts}) == len(facts), "a pair is said twice"
            for query, place, deleted in facts:
                pair = self.key(rows[place])
                if deleted == RowKind.DELETE:
                    del self.heard[query][pair]
                else:
                    assert self.heard[query].get(pair) != rows[place], "said in vain"
                    self.heard[query][pair] = rows[place]

    def register(self) -> None:
        number, random = self.random.randrange(12), self.random
        columns = tuple(column.name for column in self.joined.columns)
        on = random.choice([("pos", "pos"), ("pos", "best"), ("team", "team"), ("speed", "speed"), ("speed", "best")])
        low = random.choice([-1.0, -0.5, 0.0, 0.5])
        band = Interval(low, low + random.choice([0.0, 0.5, 2.0]), high_open=random.random() < 0.2)
        equal = on[0] == "team" or band.empty or random.random() < 0.4
        query = Join("unit", "unit", *on, columns, None if equal else band, self.region(), self.region())
        self.unregister(number)
        answer = self.host.register(number, query, Position(self.position))
        assert answer.rows is not None
        self.queries[number] = query
        self.heard[number] = {self.key(row): row for row in python_rows(answer.rows)}
        one = Registration(number, "p", None, str(number), Position(self.position))
        step = Step(Notifications(Position(self.position)), registered=((one, query),))
        self.replica.step(PublishedStep(step, (answer,)))

    def unregister(self, number: int) -> None:
        if self.queries.pop(number, None) is not None:
            self.host.unregister(number, Position(self.position))
            one = Registration(number, "p", None, str(number), Position(self.position))
            self.replica.step(PublishedStep(Step(Notifications(Position(self.position)), unregistered=(one,))))
            del self.heard[number]

    def widen(self) -> None:
        """The table gets another column; queries go on with those they show."""
        self.schema = self.schema.with_column(Column(f"more{len(self.schema.columns)}", DataType.TEXT))
        self.joined = joined_schema(self.schema, self.schema)
        self.host.define(self.schema, Position(self.position))
        self.replica.step(PublishedStep(Step(Notifications(Position(self.position)), (self.schema,))))
        self.rows = {number: (*row, None) for number, row in self.rows.items()}
        # All columns are to be compared: whoever does not show the new one would not be told of it.
        for number in list(self.queries):
            self.unregister(number)

    def region(self) -> Region:
        if self.random.random() < 0.5:
            return EVERYTHING
        return Region((Box.of(Side("speed", Interval(1, self.random.choice([1, 2, 3])))),))

    def key(self, row: Row) -> Pair:
        first, second = self.joined.key_of(row)
        return first, second

    def truth(self, number: int) -> dict[Pair, Row]:
        query, found = self.queries[number], dict[Pair, Row]()
        for left in self.rows.values():
            for right in self.rows.values():
                a, b = left[UNIT.index(query.left_column)], right[UNIT.index(query.right_column)]
                if a is None or b is None:
                    continue
                if query.band is None:
                    fits = a == b
                else:
                    assert not isinstance(a, str)
                    assert not isinstance(b, str)
                    fits = query.band.contains(float(b) - float(a))
                cells = [dict(zip((c.name for c in self.schema.columns), row, strict=True)) for row in (left, right)]
                if fits and query.left_region.contains(cells[0].get) and query.right_region.contains(cells[1].get):
                    found[left[0], right[0]] = (*left, *right)
        return found


@pytest.mark.parametrize("seed", range(8))
def test_what_is_said_is_the_join(seed: int) -> None:
    world = World(seed)
    for _ in range(60):
        world.step()
    assert world.rows


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_200))
def test_what_is_said_is_the_join_often(seed: int) -> None:
    world = World(seed)
    for _ in range(150):
        world.step()


def test_a_replica_widens_both_halves() -> None:
    world = World(1)
    while not any(world.heard.values()):
        world.step()
    wider = world.schema.with_column(Column("last", DataType.TEXT))
    world.host.define(wider, Position(world.position + 1))
    world.replica.step(PublishedStep(Step(Notifications(Position(world.position + 1)), (wider,))))
    for number in world.queries:
        ours, theirs = world.host.answer(number).rows, world.replica.answer(number).rows
        assert ours is not None
        assert theirs is not None
        assert ours.schema.names == theirs.schema.names
        assert sorted(map(repr, python_rows(ours))) == sorted(map(repr, python_rows(theirs)))
