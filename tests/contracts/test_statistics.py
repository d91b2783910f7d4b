"""The laws of `slackwater.statistics.base`, one by one, for every summary there is.

A new summary joins by a world of its own in `WORLDS`; one without is reported.
"""

import dataclasses
import importlib.util
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import StatisticsError
from slackwater.statistics import (
    SUMMARIES,
    Coverage,
    Fidelity,
    Histogram,
    Markov,
    Moments,
    Movement,
    Ranges,
    Rules,
    Similarity,
    Statistics,
    Summary,
    Ticks,
    combine,
)


def _references() -> Any:
    """The figures from scratch, which stand beside the tests of the room."""
    path = Path(__file__).parents[1] / "support" / "statistics_references.py"
    name = path.stem
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


references = _references()
PERIOD = 20
SPACING = {"a": 0.5, "b": 2.0, "c": 100.0}


def ticks(rows: Sequence[Any]) -> Ticks:
    return Ticks.of([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])


def flags(rows: Sequence[Any]) -> list[Any]:
    """Observations of fidelity from any rows."""
    return [(item, time, float(value >= 0)) for item, time, value in rows]


def spans(rows: Sequence[Any]) -> list[Any]:
    """Ranges from any rows, some without ends."""
    inf = float("inf")
    return [
        (item, time, -inf if value == 0 else value - time % 7, inf if time % 11 == 0 else value + time % 5)
        for item, time, value in rows
    ]


def ranges(rows: Sequence[Any]) -> Ranges:
    return Ranges.of(*([row[column] for row in rows] for column in range(4)))


@dataclass(frozen=True)
class World:
    """How to make a summary, what its batches are, and what its figures must be."""

    make: Callable[[Rules], Any]
    expected: Callable[[Sequence[Any], Rules], dict[str, Any]]
    rows: Callable[[Sequence[Any]], Sequence[Any]] = field(default=list)
    batch: Callable[[Sequence[Any]], Any] = field(default=ticks)
    ordered: bool = True


def everything(rows: Sequence[Any], rules: Rules) -> dict[str, Any]:
    return {
        "items": tuple(references.histories(rows)),
        "movement": references.movement(rows, rules),
        "moments": references.moments(rows, rules, 2),
        "markov": references.markov(rows, rules, 0, 8),
        "histogram": references.histogram(rows, rules, 8),
        "similarity": references.similarity(rows, rules, PERIOD),
    }


WORLDS: dict[str, World] = {
    "movement": World(Movement, references.movement),
    "moments": World(lambda rules: Moments(rules, 3), lambda rows, rules: references.moments(rows, rules, 3)),
    "markov": World(lambda rules: Markov(rules, cells=6), lambda rows, rules: references.markov(rows, rules, 0, 6)),
    "markov by tick": World(
        lambda rules: Markov(rules, tick=3, cells=9), lambda rows, rules: references.markov(rows, rules, 3, 9)
    ),
    "markov fixed": World(
        lambda rules: Markov(rules, spacing=SPACING, widest=4),
        lambda rows, rules: references.markov_fixed(rows, rules, SPACING, 4),
    ),
    "similarity": World(
        lambda rules: Similarity(rules, period=PERIOD),
        lambda rows, rules: references.similarity(rows, rules, PERIOD),
    ),
    "histogram": World(
        lambda rules: Histogram(rules, cells=5), lambda rows, rules: references.histogram(rows, rules, 5), ordered=False
    ),
    "coverage": World(
        lambda rules: Coverage(rules, cells=5),
        lambda rows, rules: references.coverage(rows, rules, 5),
        rows=spans,
        batch=ranges,
        ordered=False,
    ),
    "fidelity": World(Fidelity, references.fidelity, rows=flags),
    "statistics": World(lambda rules: Statistics("t", "v", rules, period=PERIOD, lags=2, cells=8), everything),
}
every = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
in_order = pytest.mark.parametrize(
    "world", [world for world in WORLDS.values() if world.ordered], ids=[n for n, w in WORLDS.items() if w.ordered]
)

steps = st.sampled_from([0, 0, 1, 2, 3, 8, 30, 41, 500])
values = st.one_of(
    st.integers(-4, 4).map(float), st.integers(-4000, 4000).map(lambda n: n / 4), st.just(3.0), st.just(0.1)
)
draws = st.lists(st.tuples(st.sampled_from("abc"), steps, values), min_size=1, max_size=40)
rules = st.builds(Rules, st.sampled_from([None, 40]), st.sampled_from([None, 100]))
cuts = st.lists(st.floats(0, 1), max_size=6)


def history(drawn: Sequence[tuple[str, int, float]]) -> list[Any]:
    """Rows in order of time; time starts before 1970 now and then."""
    time, rows = -50, []
    for item, step, value in drawn:
        time += step
        rows.append((item, time, value))
    return rows


def pieces(rows: Sequence[Any], places: Sequence[float]) -> list[Sequence[Any]]:
    """Rows cut into stretches, empty ones among them."""
    ends = [0, *sorted(int(place * len(rows)) for place in places), len(rows)]
    return [rows[start:end] for start, end in pairwise(ends)]


def mixed(rows: Sequence[Any], seed: int) -> list[Any]:
    """The rows in another order; those of an item at one time stay in theirs."""
    keys = {row[:2]: zlib.crc32(repr((seed, *row[:2])).encode()) for row in rows}
    return sorted(rows, key=lambda row: keys[row[:2]])


def plain(value: Any) -> Any:
    """Figures as dictionaries and arrays."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, list | tuple) and value and not isinstance(value[0], str | int | float):
        return [plain(each) for each in value]
    return value


def assert_same(found: Any, expected: Any, where: str = "value") -> None:
    """Whole numbers and text exactly, other numbers to 1e-9 of the largest in their column."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for name in expected:
            assert_same(found[name], expected[name], f"{where}.{name}")
        return
    if isinstance(expected, list | tuple) and expected and isinstance(expected[0], dict):
        assert len(found) == len(expected), where
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, f"{where}[{place}]")
        return
    if expected is None or isinstance(expected, str) or (len(np.atleast_1d(expected)) and _text(expected)):
        assert found == expected, where
        return
    one, other = np.atleast_1d(np.asarray(found)), np.atleast_1d(np.asarray(expected))
    assert one.shape == other.shape, where
    if one.dtype.kind in "iu":
        assert one.tolist() == other.tolist(), where
    else:
        # Sums of terms that cancel are compared with the size of the terms: up to 2000 here, squared for products.
        slack = 1e-9 * max(1.0, float(np.max(np.abs(other), initial=0.0)))
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=slack, err_msg=where)


def _text(value: Any) -> bool:
    return isinstance(value, list | tuple) and isinstance(value[0], str)


def counted(world: World, made_with: Rules, batches: Sequence[Sequence[Any]]) -> Any:
    summary = world.make(made_with)
    for batch in batches:
        summary.update(world.batch(world.rows(batch)))
    return summary


def test_every_summary_has_a_world() -> None:
    made = {type(world.make(Rules())) for world in WORLDS.values()}
    assert made == set(SUMMARIES)
    assert len({summary.kind for summary in SUMMARIES}) == len(SUMMARIES)


@every
@settings(max_examples=40, deadline=None)
@given(drawn=draws, places=cuts, made_with=rules, seed=st.integers(0, 9))
def test_cuts_do_not_matter(
    world: World, drawn: list[tuple[str, int, float]], places: list[float], made_with: Rules, seed: int
) -> None:
    """Law 1, and the reference after every batch."""
    rows = history(drawn)
    summary = world.make(made_with)
    seen: list[Any] = []
    for batch in pieces(rows, places):
        summary.update(world.batch(world.rows(mixed(batch, seed))))
        seen += batch
        if seen:
            assert_same(plain(summary.value()), world.expected(world.rows(seen), made_with))
            assert summary.span() == (seen[0][1], seen[-1][1])


@every
@settings(max_examples=40, deadline=None)
@given(drawn=draws, places=cuts, made_with=rules, grouping=st.randoms(use_true_random=False))
def test_merging_pieces_is_counting_the_whole(
    world: World, drawn: list[tuple[str, int, float]], places: list[float], made_with: Rules, grouping: Any
) -> None:
    """Laws 2, 4 and 6: any bracketing of the pieces, each sent as bytes, equals the whole."""
    rows = history(drawn)
    parts = [counted(world, made_with, [part]) for part in pieces(rows, places)]
    while len(parts) > 1:
        left = grouping.randrange(len(parts) - 1)
        later = parts.pop(left + 1)
        sent = later.to_bytes()
        parts[left].merge(type(later).from_bytes(sent))
        assert later.to_bytes() == sent
    assert_same(plain(parts[0].value()), world.expected(world.rows(rows), made_with))
    again = type(parts[0]).from_bytes(parts[0].to_bytes())
    assert again.parameters() == parts[0].parameters()
    assert_same(plain(again.value()), plain(parts[0].value()))


@every
@settings(max_examples=40, deadline=None)
@given(
    drawn=st.lists(st.tuples(st.just("a"), st.sampled_from([1, 41]), values), min_size=4, max_size=12),
    made_with=st.sampled_from([Rules(40), Rules(40, 100)]),
    grouping=st.randoms(use_true_random=False),
)
def test_a_piece_for_every_row(
    world: World, drawn: list[tuple[str, int, float]], made_with: Rules, grouping: Any
) -> None:
    """Law 2 where it is hardest: nothing but seams and gaps, put together in any bracketing."""
    rows = history(drawn)
    parts = [counted(world, made_with, [[row]]) for row in rows]
    while len(parts) > 1:
        left = grouping.randrange(len(parts) - 1)
        parts[left].merge(parts.pop(left + 1))
    assert_same(plain(parts[0].value()), world.expected(world.rows(rows), made_with))


@pytest.mark.parametrize("name", [name for name, world in WORLDS.items() if not world.ordered])
@settings(max_examples=30, deadline=None)
@given(drawn=draws, places=cuts, made_with=rules, order=st.randoms(use_true_random=False))
def test_where_order_does_not_matter(
    name: str, drawn: list[tuple[str, int, float]], places: list[float], made_with: Rules, order: Any
) -> None:
    """Law 3, for the summaries that do not look at neighbours."""
    world, rows = WORLDS[name], history(drawn)
    parts = [counted(world, made_with, [part]) for part in pieces(rows, places)]
    order.shuffle(parts)
    for part in parts[1:]:
        parts[0].merge(part)
    assert parts[0].span() == (rows[0][1], rows[-1][1])
    assert_same(plain(parts[0].value()), world.expected(world.rows(rows), made_with))


@every
@settings(max_examples=15, deadline=None)
@given(drawn=draws, made_with=rules)
def test_empty_is_neutral(world: World, drawn: list[tuple[str, int, float]], made_with: Rules) -> None:
    """Law 4."""
    whole = counted(world, made_with, [history(drawn)])
    expected = plain(whole.value())
    whole.merge(world.make(made_with))
    assert_same(plain(whole.value()), expected)
    empty = world.make(made_with)
    assert empty.span() is None
    assert empty.value().items == ()
    empty = type(empty).from_bytes(empty.to_bytes())
    empty.merge(whole)
    assert_same(plain(empty.value()), expected)
    empty.update(world.batch([]))
    assert_same(plain(empty.value()), expected)


@every
@settings(max_examples=10, deadline=None)
@given(drawn=draws, places=cuts, made_with=rules)
def test_combine_finds_the_order(
    world: World, drawn: list[tuple[str, int, float]], places: list[float], made_with: Rules
) -> None:
    rows = history([(item, step + 1, value) for item, step, value in drawn])
    parts = [counted(world, made_with, [part]) for part in pieces(rows, places)]
    assert_same(plain(combine(reversed(parts)).value()), world.expected(world.rows(rows), made_with))


@in_order
def test_what_overlaps_is_refused_and_leaves_no_trace(world: World) -> None:
    """Law 3."""
    early, late = [("a", 100, 1.0), ("b", 300, 2.0)], [("c", 310, 1.0), ("b", 290, 5.0), ("b", 320, 1.0)]
    summary = counted(world, Rules(), [early])
    before = summary.to_bytes()
    with pytest.raises(StatisticsError, match="in order of time"):
        summary.update(world.batch(world.rows(late)))
    with pytest.raises(StatisticsError, match="in order of time"):
        summary.merge(counted(world, Rules(), [late]))
    assert summary.to_bytes() == before


@every
def test_other_parameters_are_refused(world: World) -> None:
    """Law 5."""
    one, other = world.make(Rules(half_life=5)), world.make(Rules(half_life=6))
    with pytest.raises(StatisticsError, match="half_life"):
        one.merge(other)


@every
def test_bytes_of_another_kind_version_or_damaged_are_refused(world: World) -> None:
    """Law 6."""
    summary = counted(world, Rules(), [[("a", 1, 1.0), ("a", 2, 2.0)]])
    data, kind = summary.to_bytes(), type(summary)
    other = Fidelity if kind is not Fidelity else Movement
    with pytest.raises(StatisticsError, match="expected"):
        other.from_bytes(data)
    with pytest.raises(StatisticsError, match="newer"):
        kind.from_bytes(data.replace(b'"version":1', b'"version":9'))
    for damaged in (b"", b"rubbish", data[: len(data) // 2]):
        with pytest.raises(StatisticsError):
            kind.from_bytes(damaged)


@every
def test_value_changes_nothing(world: World) -> None:
    """Law 8."""
    summary: Summary = counted(world, Rules(half_life=50), [[("b", 1, 1.0), ("a", 2, 2.0), ("b", 30, 3.0)]])
    before = summary.to_bytes()
    assert summary.value().items == ("a", "b")
    assert summary.to_bytes() == before


def test_there_is_nothing_to_combine() -> None:
    with pytest.raises(StatisticsError, match="nothing to combine"):
        combine([])


@pytest.mark.slow
@every
@settings(max_examples=1500, deadline=None)
@given(
    drawn=st.lists(draws, max_size=4).map(lambda parts: list(chain.from_iterable(parts))), places=cuts, made_with=rules
)
def test_thousands_of_histories(
    world: World, drawn: list[tuple[str, int, float]], places: list[float], made_with: Rules
) -> None:
    rows = history(drawn)
    if not rows:
        return
    parts = [counted(world, made_with, [part]) for part in pieces(rows, places)]
    assert_same(plain(combine(parts[:1]).value()), plain(parts[0].value()))
    for part in parts[1:]:
        parts[0].merge(part)
    assert_same(plain(parts[0].value()), world.expected(world.rows(rows), made_with))
