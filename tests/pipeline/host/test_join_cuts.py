"""The rule by which joins are spread by rows or by query, on tables that are cut for four shards."""

import numpy as np
import pytest

from slackwater.core import Column, DataType, Instant, Interval, Join, Origin, Position, TableSchema, Update
from slackwater.core.arrow import to_batch
from slackwater.pipeline.host.join_cuts import BY_QUERY, CutRule, recut
from slackwater.processing.host import Host
from slackwater.processing.joined import LineCuts, LineSample, ShardPart
from tests.support.joins import families, joins

RULE, SHARDS = CutRule(least_rows=100), 4
COLUMNS = (
    Column("id", DataType.BIGINT, nullable=False),
    Column("pos", DataType.DOUBLE),
    Column("product", DataType.TEXT),
)
TABLES = {name: TableSchema(name, COLUMNS, key=("id",)) for name in ("unit", "target")}


class World:
    """Two tables of 2 000 rows from 0 to 1 000, and joins."""

    def __init__(self) -> None:
        self.host, self.random, self.position = Host(), np.random.default_rng(4), 0
        for schema in TABLES.values():
            self.host.define(schema, self._next())
        self.fill("unit", self.random.uniform(0, 1000, 2000))
        self.fill("target", self.random.uniform(0, 1000, 2000))

    def _next(self) -> Position:
        self.position += 1
        return Position(self.position)

    def fill(self, table: str, places: "np.ndarray[tuple[int], np.dtype[np.float64]]", product: str = "p") -> None:
        at = self._next()
        made = [
            Update(table, (nth, float(place), f"{product}{nth}"), Instant(self.position), Origin("a", nth))
            for nth, place in enumerate(places)
        ]
        self.host.apply(table, to_batch(TABLES[table], made), at)

    def join(self, low: float | None, high: float | None) -> None:
        band = Interval(low, high)
        number = self._next()
        self.host.register(int(number), Join("unit", "target", "pos", "pos", ("unit.id",), band), number)

    def equal(self) -> None:
        number = self._next()
        query = Join("unit", "target", "product", "product", ("unit.id",))
        self.host.register(int(number), query, number)

    def survey(self) -> list[LineSample]:
        return self.host.survey(SHARDS)

    def cut(self, rule: CutRule = RULE) -> tuple[LineCuts, ...]:
        """Survey, cut, and go on like that."""
        before = joins(self.host)._part
        lines = recut(() if before is None else before.lines, self.survey(), SHARDS, rule)
        joins(self.host).spread(ShardPart(0, lines) if lines else None)
        return lines


@pytest.fixture
def world() -> World:
    return World()


def test_narrow_bands_are_spread_by_rows(world: World) -> None:
    for _ in range(10):
        world.join(-3.0, 5.0)
    [cuts] = world.cut()
    assert np.allclose(cuts.bounds, [250, 500, 750], atol=40)
    assert cuts.least < -3.0 < 5.0 < cuts.most < 7.0
    [seen] = world.survey()
    assert seen.present is not None
    assert 1 < seen.present.reach < 1.1
    assert seen.fullest < 1.1


def test_bands_that_are_open_or_wide_are_not(world: World) -> None:
    world.join(None, 5.0)
    assert world.cut() == ()
    world.join(-900.0, 900.0)
    assert world.cut() == ()


def test_a_few_wide_bands_do_not_spoil_it_for_the_others(world: World) -> None:
    for nth in range(20):
        world.join(-3.0, 5.0 + nth / 10)
    world.join(-900.0, 900.0)
    world.join(0.0, None)
    [cuts] = world.cut()
    assert cuts.holds((-3.0, 5.0))
    assert not cuts.holds((-900.0, 900.0))
    assert not cuts.holds((0.0, np.inf))


def test_few_rows_are_not_worth_it(world: World) -> None:
    world.join(-3.0, 5.0)
    assert world.cut(CutRule(least_rows=2001)) == ()
    assert world.cut(BY_QUERY) == ()
    assert len(world.cut(CutRule(least_rows=2000))) == 1


def test_what_is_cut_well_stays_as_it_is(world: World) -> None:
    world.join(-3.0, 5.0)
    first = world.cut()
    world.fill("unit", world.random.uniform(0, 1000, 2000))
    world.join(-2.0, 4.0)
    assert world.cut() == first


def test_data_that_shift_are_cut_again(world: World) -> None:
    world.join(-3.0, 5.0)
    first = world.cut()
    world.fill("unit", world.random.uniform(900, 1100, 2000))
    [seen] = world.survey()
    assert seen.fullest == pytest.approx(4.0)
    second = world.cut()
    assert first != second
    [seen] = world.survey()
    assert seen.fullest < 1.1


def test_what_cannot_be_cut_evenly_is_not_cut_again_and_again(world: World) -> None:
    """Of two frequent values each is shared by two shards, and the shard between them has a half of both."""
    rule = CutRule(least_rows=100, skew=1.3)

    def shift() -> None:
        rest = world.random.uniform(300, 1000, 520)
        world.fill("unit", np.concatenate((np.full(980, 100.0), np.full(500, 200.0), rest)))

    world.join(-3.0, 5.0)
    shift()
    first = world.cut(rule)
    shift()
    [seen] = world.survey()
    assert seen.fullest > 1.4
    assert seen.bounds != first[0].bounds
    assert world.cut(rule) == first


def test_a_wider_join_moves_the_window(world: World) -> None:
    world.join(-3.0, 5.0)
    [first] = world.cut()
    world.join(-3.0, 9.0)
    families(world.host)
    [second] = world.cut()
    assert not first.holds((-3.0, 9.0))
    assert second.holds((-3.0, 9.0))


def test_keys_are_spread_evenly_and_a_frequent_one_over_several_shards(world: World) -> None:
    world.equal()
    [cuts] = world.cut()
    assert np.allclose(cuts.bounds, [0.25, 0.5, 0.75], atol=0.05)
    [seen] = world.survey()
    assert seen.present is not None
    # The three keys that are bounds are shared by two shards each.
    assert seen.present.reach == pytest.approx(1 + 3 / 2000)
    # Two thirds of all left rows get one key.
    at = world._next()
    same = [Update("unit", (nth, 0.0, "hot"), Instant(world.position), Origin("b", nth)) for nth in range(1333)]
    world.host.apply("unit", to_batch(TABLES["unit"], same), at)
    assert world.survey()[0].fullest > 2.5
    [cuts] = world.cut()
    assert len(set(cuts.bounds)) < 3
    assert world.survey()[0].fullest < 2


def test_one_join_more_or_less_does_not_cut_a_line_again(world: World) -> None:
    for nth in range(40):
        world.join(-3.0, 5.0 + nth / 10)
    for _ in range(4):
        world.join(-900.0, 900.0)
    first = world.cut()
    assert len(first) == 1
    assert not first[0].holds((-900.0, 900.0))
    world.join(-3.0, 12.0)
    families(world.host)
    assert world.cut() == first
