"""Joins that look at very many rows and find none: counted, halted, and woken when they take less."""

from dataclasses import replace

import numpy as np
import pytest

from slackwater.core import Box, Instant, Interval, Join, Operation, Origin, Position, Region, Side, Update
from slackwater.core.arrow import to_batch
from slackwater.core.errors import AnswerTooLarge
from slackwater.processing.base import Notifications
from slackwater.processing.host import Host
from slackwater.processing.matching import (
    BAND,
    BandHotspot,
    JoinRows,
    Joins,
    JoinSide,
    Labour,
    Matcher,
    MatcherShape,
    NaiveMatcher,
    SelectRouter,
    result_limits,
)
from tests.support.join_world import EVERYTHING_JOINED, LEFT, RIGHT, filled
from tests.support.joins import families, joins

FITS_NONE = Region((Box.of(Side("big", Interval(-9, -5))),))
FITS_FEW = Region((Box.of(Side("big", Interval(3, 5))),))
EMPTY = replace(EVERYTHING_JOINED, right_region=FITS_NONE)
BESIDE = Join("unit", "target", "pos", "pos", ("unit.id",), Interval(-0.03, 0.03), right_region=FITS_FEW)


def moved(host: Host, position: int, *keys: int, to: float = 0.1) -> Notifications:
    updates = [
        Update("unit", (k, to, "a", k, f"{position}"), Instant(position), Origin("s", position), Operation.UPSERT)
        for k in keys
    ]
    return host.apply("unit", to_batch(LEFT, updates), Position(position))


def gone(host: Host, position: int, *parts: int) -> Notifications:
    updates = [
        Update("target", ("t", k, None, None, None, None), Instant(position), Origin("s", position), Operation.DELETE)
        for k in parts
    ]
    return host.apply("target", to_batch(RIGHT, updates), Position(position))


def shown(said: Notifications) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    for part in said.rows:
        assert part.slots is not None
        pairs = part.slots[part.places]
        found += zip(part.queries.tolist(), pairs.tolist(), part.kinds.tolist(), strict=True)
    return found


def test_a_join_that_looks_at_too_many_rows_is_halted_though_it_finds_none() -> None:
    host = filled(100)
    joins(host).most_steps = 1_000
    host.register(1, EMPTY, Position(3))
    # Four rows, as they were and as they are, with a hundred across.
    assert moved(host, 100, 1, 2, 3, 4).halted == ()
    assert moved(host, 101, *range(10)).halted == (1,)
    assert "at most 1,000 pairs of rows" in joins(host).halted[1]
    # It is not matched any more, and a whole answer can be asked for as before.
    [family] = families(host).values()
    assert len(family) == 1
    assert len(family.matcher) == 0
    assert moved(host, 102, *range(10)).halted == ()
    assert host.answer(1).rows is not None
    host.unregister(1, Position(103))
    assert not joins(host).halted
    assert not families(host)


def test_joins_beside_it_are_served_as_if_it_were_not_there() -> None:
    alone, host = filled(100), filled(100)
    joins(host).most_steps = 1_000
    for one in (alone, host):
        one.register(2, BESIDE, Position(3))
        one.register(3, Join("unit", "target", "product", "product", ("unit.id",), right_region=FITS_FEW), Position(3))
    host.register(1, EMPTY, Position(3))
    halted: list[int] = []
    for position in range(100, 110):
        keys = [(position * 7 + k) % 100 for k in range(9)]
        said = [moved(one, position, *keys, to=0.01 * (position % 5)) for one in (alone, host)]
        assert shown(said[0]) == shown(said[1])
        assert shown(said[0])
        halted += said[1].halted
    assert halted == [1]


def test_it_is_woken_when_there_are_fewer_rows_and_misses_nothing_after_that() -> None:
    host = filled(100)
    joins(host).most_steps = 1_000
    query = replace(EVERYTHING_JOINED, right_region=FITS_FEW)
    host.register(1, query, Position(3))
    assert moved(host, 100, *range(10)).halted == (1,)
    with pytest.raises(AnswerTooLarge, match="at most 1,000 pairs of rows"):
        host.wake(1)
    assert 1 in joins(host).halted
    for first in range(10, 100, 10):
        gone(host, 100 + first, *range(first, first + 10))
    units = [
        Update("unit", (k, None, None, None, None), Instant(300), Origin("s", 300), Operation.DELETE)
        for k in range(10, 100)
    ]
    assert not host.apply("unit", to_batch(LEFT, units), Position(300)).rows
    host.wake(1)
    host.wake(1)
    assert not joins(host).halted
    rows = host.answer(1).rows
    assert rows is not None
    assert rows.num_rows == 30
    # Two units leave the three targets that fit; then one of these goes.
    said = moved(host, 301, 1, 2, to=99.0)
    assert said.halted == ()
    assert [number for number, *_ in shown(said)] == [1] * 6
    assert len(gone(host, 302, 4)) == 8


def test_what_one_shape_does_not_need_is_for_others() -> None:
    host = filled(100)
    joins(host).most_steps = 4_000
    host.register(1, BESIDE, Position(3))
    host.register(2, EMPTY, Position(3))
    same = replace(EVERYTHING_JOINED, left_region=Region((Box.of(Side("quantity", Interval(-9, -5))),)))
    host.register(3, replace(same, right_region=FITS_NONE), Position(3))
    assert len(families(host)) == 2
    # Which of them needs little is known once rows have come.
    assert moved(host, 100, 0).halted == ()
    assert moved(host, 101, *range(15)).halted == ()
    assert moved(host, 102, *range(25)).halted == (2,)


def test_a_snapshot_keeps_the_limit_and_finds_out_again_who_is_halted() -> None:
    host = filled(100)
    joins(host).most_steps = 1_000
    host.register(1, EMPTY, Position(3))
    moved(host, 100, *range(10))
    again = Host()
    joins(again).most_steps = 1_000
    again.restore(host.snapshot())
    assert not joins(again).halted
    assert moved(again, 101, *range(10)).halted == (1,)


def some(shape: MatcherShape, matcher: Matcher, seed: int, queries: int) -> JoinRows:
    random = np.random.default_rng(seed)
    least = random.uniform(-3, 3, (3, queries))
    low, high = (least[0], least[0] + 2) if shape.band else (np.zeros(queries), np.zeros(queries))
    own, other = (np.repeat(least[k][:, None], n, axis=1) for k, n in ((1, shape.left), (2, shape.right)))
    matcher.add(Joins(np.arange(queries) * 3 + 5, low, high, own, own + 2.5, other, other + 2.5))

    def rows(count: int, side: JoinSide) -> JoinRows:
        attributes = random.uniform(-3, 3, (count, shape.attributes(side)))
        return JoinRows(np.arange(count), random.integers(-3, 4, count).astype(np.float64), attributes)

    matcher.insert(JoinSide.RIGHT, rows(40, JoinSide.RIGHT))
    return rows(60, JoinSide.LEFT)


@pytest.mark.parametrize(
    "shape", [BAND, MatcherShape(True, 1, 2), MatcherShape(False, 2, 2), MatcherShape(False, 1, 0)]
)
@pytest.mark.parametrize("most", [None, 0, 7, 300, 1_000_000])
def test_whoever_is_not_left_out_has_all_results(
    shape: MatcherShape, most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where rows are taken in very small slices."""
    monkeypatch.setattr(result_limits, "_PAIRS", 64)
    monkeypatch.setattr(result_limits, "_FEW_ROWS", 2)
    monkeypatch.setattr(result_limits, "_GATHERED", 50)
    matcher, plain = BandHotspot(shape) if shape.band else SelectRouter(shape), NaiveMatcher(shape)
    rows = some(shape, matcher, 1, 70)
    some(shape, plain, 1, 70)
    labour = Labour(most)
    found, crowded = matcher.most_results(JoinSide.LEFT, rows, None, labour)
    truth = plain.results(JoinSide.LEFT, rows)
    left_out = list(labour.left_out)
    kept = ~np.isin(truth.queries, left_out)
    for mine, own in ((found.rows, truth.rows), (found.queries, truth.queries), (found.partners, truth.partners)):
        assert mine.tolist() == own[kept].tolist()
    assert len(crowded) == 0
    assert bool(left_out) == (most is not None and most < 1_000)
    assert len(matcher) == 70 - len(left_out)
    if most is not None and not labour.given_up:
        assert labour.steps <= most
    matcher._check()


def test_steps_are_bounded_also_where_leaving_a_few_out_does_not_help() -> None:
    """Each row has a query of its own that looks at everything."""
    count, across = 200, 500
    shape = MatcherShape(True, 1, 1)
    matcher = BandHotspot(shape)
    own, none = np.arange(count, dtype=np.float64)[:, None], np.full((count, 1), 7.0)
    band = np.full(count, 1e6)
    matcher.add(Joins(np.arange(count), -band, band, own, own, none, none))
    matcher.insert(
        JoinSide.RIGHT, JoinRows(np.arange(across), np.arange(across, dtype=np.float64), np.zeros((across, 1)))
    )
    labour = Labour(2_000)
    matcher.most_results(JoinSide.LEFT, JoinRows(np.arange(count), np.zeros(count), own), None, labour)
    assert labour._taken <= 6 * 2_000
    assert labour.given_up
    assert set(labour.left_out) | set(range(20)) == set(range(count))
