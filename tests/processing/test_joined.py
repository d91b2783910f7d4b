"""Standing joins as an operator: at every step of random histories what was said is the join, made from scratch."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import numpy as np
import pytest

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
from slackwater.core.errors import AnswerTooLarge, SchemaError
from slackwater.core.joined import joined_name, joined_schema
from slackwater.hosting.publication import as_bytes
from slackwater.processing.base import Notifications, RowKind
from slackwater.processing.columns import python_rows
from slackwater.processing.host import Host
from slackwater.processing.joined import family as joined_family
from slackwater.processing.joined.partners import KeyNumbers

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
    """Two tables as dictionaries, a host, and a subscriber that hears what it says."""

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

    # ---- what happens

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
        said = self.host.apply_all(batches, Position(self.position))
        if self.random.random() < 0.3:
            twin = Host()
            twin.restore(before)
            assert twin.snapshot() == before
            again = twin.apply_all(batches, Position(self.position))
            assert _bytes(again) == _bytes(said)
            assert twin.snapshot() == self.host.snapshot()
            self.host = twin
        self.hear(said)

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
        for family in self.host.families().values():
            if self.random.random() < 0.1:
                family.settle()
                family.matcher._check()

    # ---- what is heard, and what is true

    def hear(self, said: Notifications) -> None:
        assert said.values is None
        assert len(said.rows) <= 1
        for part in said.rows:
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


def _bytes(said: Notifications) -> list[tuple[object, ...]]:
    return [
        (one.table, one.queries.tobytes(), one.places.tobytes(), one.kinds.tobytes(), as_bytes(one.rows))
        for one in said.rows
    ]


@pytest.mark.parametrize("seed", range(12))
def test_what_is_said_is_the_join(seed: int) -> None:
    world = World(seed)
    for _ in range(60):
        world.step()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_300))
def test_what_is_said_is_the_join_often(seed: int) -> None:
    world = World(seed)
    for _ in range(150):
        world.step()


def test_joins_of_one_shape_are_one_family() -> None:
    world = World(1)
    for number in range(40):
        band = Interval(float(number), float(number + 3))
        world.host.register(number, Join("unit", "target", "pos", "pos", ("unit.id",), band), Position(3))
    ranged = Region((Box.of(Side("quantity", Interval(1, 9))),))
    world.host.register(40, Join("unit", "target", "pos", "pos", ("unit.id",), Interval(0.0, 1.0), ranged), Position(3))
    assert sorted(len(family) for family in world.host.families().values()) == [1, 40]
    for number in range(40):
        world.host.unregister(number, Position(4))
    assert [len(family) for family in world.host.families().values()] == [1]


def test_a_column_may_be_added_to_either_table() -> None:
    world = World(2)
    world.position += 1
    query = Join("unit", "target", "pos", "pos", ("unit.id", "target.seen"), Interval(-1.0, 1.0))
    world.queries[1] = query
    world.heard[1] = {}
    world.host.register(1, query, Position(world.position))
    for _ in range(10):
        world.rows()
    wider = LEFT.with_column(Column("more", DataType.TEXT))
    world.host.define(wider, Position(world.position))
    updates = [
        Update("unit", (1, 0.0, "a", 1, "x", "new"), Instant(10**6), Origin("s", 10**6), Operation.UPSERT),
    ]
    said = world.host.apply("unit", to_batch(wider, updates), Position(world.position + 1))
    for part in said.rows:
        assert "unit.more" in part.rows.schema.names
        assert part.rows.num_columns == len(JOINED.columns) + 1


def test_a_table_with_a_join_on_it_stays() -> None:
    world = World(3)
    world.host.register(1, Join("unit", "target", "pos", "pos", ("unit.id",), Interval(0.0, 1.0)), Position(3))
    for table in ("unit", "target"):
        with pytest.raises(SchemaError, match="drop them first"):
            world.host.drop(table, Position(4))


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (Join("unit", "target", "pos", "pos", ("unit.nothing",), Interval(0.0, 1.0)), "no column"),
        (Join("unit", "target", "product", "pos", ("unit.id",)), "never equal"),
        (Join("unit", "target", "product", "product", ("unit.id",), Interval(0.0, 1.0)), "difference is of numbers"),
        (Join("unit", "unit", "pos", "pos", ("unit.id", "target.id")), "no column"),
    ],
)
def test_what_does_not_fit_the_tables_is_refused(query: Join, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        World(4).host.register(1, query, Position(3))


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


def test_a_join_of_too_many_pairs_is_refused_before_any_is_made() -> None:
    host = filled(1_001)
    for query in (EVERYTHING_JOINED, Join("unit", "target", "product", "product", ("unit.id",))):
        with pytest.raises(AnswerTooLarge, match=r"1,002,001 pairs"):
            host.check_size(query)
    narrower = Region((Box.of(Side("quantity", Interval(0, 998, high_open=True))),))
    host.check_size(Join("unit", "target", "pos", "pos", ("unit.id",), Interval(-9.0, 9.0), narrower))
    host.check_size(Join("unit", "target", "pos", "pos", ("unit.id",), Interval(-0.001, 0.001)))
    with pytest.raises(SchemaError, match="no table"):
        host.check_size(Join("unit", "nothing", "pos", "pos", ("unit.id",), Interval(0.0, 1.0)))


def test_answers_follow_the_tables_though_they_remember_them() -> None:
    host, query = filled(30), EVERYTHING_JOINED
    for number in range(6):
        # More shapes than are remembered, each asked twice around a change.
        ranged = Region((Box.of(Side(["pos", "quantity"][number % 2], Interval(0.0, 1e9))),)) if number < 4 else None
        on = ["pos", "product"][number // 2 % 2]
        query = Join("unit", "target", on, on, ("unit.id",), Interval(-9.0, 9.0) if on == "pos" else None)
        query = query if ranged is None else replace(query, left_region=ranged)
        before = host.register(number, query, Position(3)).rows
        assert before is not None
        assert before.num_rows == 900
    gone = [Update("unit", (7, None, None, None, None), Instant(99), Origin("s", 99), Operation.DELETE)]
    host.apply("unit", to_batch(LEFT, gone), Position(4))
    for number in range(6):
        after = host.answer(number).rows
        assert after is not None
        assert after.num_rows == 870


def test_a_step_of_too_many_results_says_whose_answers_are_to_be_told_anew() -> None:
    host, wide, narrow = filled(40), 5, 6
    host.joins.most_results = 50
    host.register(wide, EVERYTHING_JOINED, Position(3))
    host.register(narrow, Join("unit", "target", "pos", "pos", ("unit.id",), Interval(-0.001, 0.001)), Position(3))
    host.register(7, Join("unit", "target", "product", "product", ("unit.id",)), Position(3))

    def moved(position: int, *keys: int) -> Notifications:
        updates = [
            Update("unit", (k, (k + 1) / 40, "b", k, "x"), Instant(position), Origin("s", position), Operation.UPSERT)
            for k in keys
        ]
        return host.apply("unit", to_batch(LEFT, updates), Position(position))

    said = moved(100, 3)
    assert said.anew == ()
    assert {number for part in said.rows for number in part.queries.tolist()} == {narrow, 7}
    said = moved(101, 10, 11)
    assert said.anew == (wide, 7)
    assert {number for part in said.rows for number in part.queries.tolist()} == {narrow}
    assert host.answer(wide).changed == Position(101)
    # It is matched on as before.
    assert moved(102, 20).anew == ()
    rows = host.answer(wide).rows
    assert rows is not None
    assert rows.num_rows == 1600


def test_a_row_alone_may_have_too_many_results() -> None:
    host = filled(60)
    host.joins.most_results = 10
    host.register(5, EVERYTHING_JOINED, Position(3))
    updates = [Update("unit", (3, 0.5, "a", 1, "y"), Instant(100), Origin("s", 100), Operation.UPSERT)]
    assert host.apply("unit", to_batch(LEFT, updates), Position(100)).anew == (5,)


def test_keys_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table whose rows have other keys all the time must not fill the memory."""
    monkeypatch.setattr(joined_family, "_SPARE_KEYS", 10)
    host = filled(8)
    host.register(1, Join("unit", "target", "product", "product", ("unit.id",)), Position(3))
    known = []
    for step in range(100, 160):
        key, about = f"key {step}", (Instant(step), Origin("s", step), Operation.UPSERT)
        unit = to_batch(LEFT, [Update("unit", (3, 0.0, key, 1, "x"), *about)])
        target = to_batch(RIGHT, [Update("target", ("t", 5, key, 0.0, 1, None), *about)])
        said = host.apply_all({"unit": unit, "target": target}, Position(step))
        [family] = host.families().values()
        known.append(len(family._keys))
        family.matcher._check()
        # The two rows had partners at first; since then they have each other.
        gone = [kind == RowKind.DELETE for part in said.rows for kind in part.kinds.tolist()]
        assert gone.count(True) == (14 if step == 100 else 0)
    assert max(known) <= 16
    rows = host.answer(1).rows
    assert rows is not None
    assert rows.num_rows == 49 + 1


def test_keys_have_their_places_after_all_were_forgotten() -> None:
    keys, there = KeyNumbers(numbered=True), np.ones(2, np.bool_)
    first = keys.places(keys(np.array(["a", "b"], object), there)).tolist()
    keys.forget()
    assert keys.places(keys(np.array(["b", "c"], object), there)).tolist()[0] == first[1]


def test_nothing_is_left_of_a_join_that_went() -> None:
    host = filled(5)
    for number in range(3):
        host.register(number, EVERYTHING_JOINED, Position(3))
    assert host.joins._answers._seen
    for number in range(3):
        assert host.families()
        host.unregister(number, Position(4))
    assert not host.families()
    assert not host.joins._answers._seen
    assert host.joins.snapshot() == Host().joins.snapshot()
