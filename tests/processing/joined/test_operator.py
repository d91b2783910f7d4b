"""Standing joins as an operator: at every step of random histories what was said is the join, made from scratch."""

from dataclasses import replace

import numpy as np
import pytest

from slackwater.core import (
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
    Side,
    Update,
)
from slackwater.core.arrow import to_batch
from slackwater.core.errors import AnswerTooLarge, SchemaError
from slackwater.processing.base import Notifications, RowKind
from slackwater.processing.host import Host
from slackwater.processing.joined import family as joined_family
from slackwater.processing.joined.partners import KeyNumbers
from tests.support.join_world import EVERYTHING_JOINED, JOINED, LEFT, RIGHT, World, filled
from tests.support.joins import families, joins


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
    assert sorted(len(family) for family in families(world.host).values()) == [1, 40]
    for number in range(40):
        world.host.unregister(number, Position(4))
    assert [len(family) for family in families(world.host).values()] == [1]


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
    joins(host).most_results = 50
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
    joins(host).most_results = 10
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
        [family] = families(host).values()
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
    assert joins(host)._answers._seen
    for number in range(3):
        assert families(host)
        host.unregister(number, Position(4))
    assert not families(host)
    assert not joins(host)._answers._seen
    assert joins(host).snapshot() == joins(Host()).snapshot()
