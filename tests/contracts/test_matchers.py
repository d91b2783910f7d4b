"""The contract of `slackwater.processing.matching.base`, for every matcher there is, at every step of random histories.

The truth is told by three nested loops over plain tuples. Values are few, so that ends of ranges, rows and differences
coincide often.
"""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import experiments.joins.published
import slackwater.processing.matching
from slackwater.core.errors import MatchingError
from slackwater.processing.matching import JoinRows, Joins, JoinSide, Matcher, MatcherShape, change
from slackwater.processing.matching.band_costs import BandCosts
from slackwater.processing.matching.band_hotspot import BandHotspot
from slackwater.processing.matching.band_ssi import BandSSI
from slackwater.processing.matching.costs import USUAL, Constants, MatchRoute
from slackwater.processing.matching.hotspots import HotspotTracker
from slackwater.processing.matching.order import PackedOrder
from slackwater.processing.matching.partition import LazyPartition
from slackwater.processing.matching.select_hotspot import SelectHotspot
from slackwater.processing.matching.select_router import SelectRouter
from slackwater.processing.matching.shard import Cuts
from tests.support.sharded_matcher import Sharded

BANDS = [MatcherShape(band=True), MatcherShape(band=True, left=1), MatcherShape(band=True, left=2, right=2)]
SELECTS = [
    MatcherShape(band=False, left=1, right=1),
    MatcherShape(band=False, left=2, right=1),
    MatcherShape(band=False, left=2, right=3),
    MatcherShape(band=False),
    MatcherShape(band=False, right=1),
]

Make = Callable[[MatcherShape], Matcher]


def discovered() -> Iterator[tuple[type[Any], tuple[bool, ...]]]:
    """Every class of the room and its published rivals that matches, with the shapes it declares (both by default)."""
    packages = (slackwater.processing.matching, experiments.joins.published)
    for module in (
        module for package in packages for module in pkgutil.iter_modules(package.__path__, package.__name__ + ".")
    ):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if kind.__module__ == module.name and hasattr(kind, "match") and hasattr(kind, "results"):
                if kind.__name__ == "Matcher" or inspect.isabstract(kind):
                    continue
                yield kind, getattr(kind, "SHAPES", (True, False))


def only_by(only: MatchRoute) -> Constants:
    """Constants under which one route is always the cheapest."""
    return {route: tuple(0.0 if route is only else 1.0 for _ in terms) for route, terms in USUAL.items()}


def by_turns() -> Constants:
    """Constants under which what joins and what is selected decides, at the sizes of these histories."""
    return {
        MatchRoute.JOIN_FIRST: (0.0, 0.1, 0.1),
        MatchRoute.EACH_QUERY: (0.0, 0.1, 0.0),
        MatchRoute.SELECT_FIRST: (0.0, 0.0, 0.5),
        MatchRoute.HOTSPOT: (0.01, 0.3, 0.0, 0.0, 0.0, 0.0),
    }


def routed(constants: Constants, shape: MatcherShape) -> Matcher:
    return SelectRouter(shape, 0.3, constants)


ALWAYS_CELLS = BandCosts(block=0.0, look=0.0, enter=0.0, cell=0.0)
"""Constants under which a table of the rows is made for the first row that asks."""

VARIANTS: dict[str, tuple[Make, tuple[bool, ...]]] = {
    "BandSSI lazy": (lambda shape: BandSSI(shape, LazyPartition()), (True,)),
    "BandSSI strict": (lambda shape: BandSSI(shape, LazyPartition(0.2, strict=True)), (True,)),
    "BandHotspot half": (lambda shape: BandHotspot(shape, HotspotTracker(0.3)), (True,)),
    "BandHotspot one by one": (lambda shape: BandHotspot(shape, HotspotTracker(0.3), BandCosts(cell=1e9)), (True,)),
    "BandHotspot by cells": (lambda shape: BandHotspot(shape, HotspotTracker(0.3), ALWAYS_CELLS), (True,)),
    "BandHotspot scattered": (lambda shape: BandHotspot(shape, HotspotTracker(2.0), ALWAYS_CELLS), (True,)),
    "SelectHotspot half": (lambda shape: SelectHotspot(shape, 0.3), (False,)),
    **{f"SelectRouter {route.name}": (partial(routed, only_by(route)), (False,)) for route in MatchRoute},
    "Sharded": (Sharded, (True, False)),
    "Sharded in five": (lambda shape: Sharded(shape, Cuts(np.array([-3.0, 0.0, 0.0, 2.5]))), (True, False)),
    "SelectRouter by turns": (partial(routed, by_turns()), (False,)),
}
"""Settings under which the same classes take other ways: small histories have no scattered queries otherwise."""

CASES = [
    pytest.param(make, shape, id=f"{name}-{'band' if shape.band else 'select'}-{shape.left}-{shape.right}")
    for name, (make, bands) in {**{kind.__name__: (kind, bands) for kind, bands in discovered()}, **VARIANTS}.items()
    for shape in (*BANDS, *SELECTS)
    if shape.band in bands and (name not in VARIANTS or shape in (BANDS[0], BANDS[2], SELECTS[0], SELECTS[2]))
]


class Truth:
    """What there is, as plain tuples, and what follows from it."""

    def __init__(self, shape: MatcherShape) -> None:
        self.shape = shape
        self.queries: dict[int, tuple[float, ...]] = {}
        self.rows: dict[JoinSide, dict[int, tuple[float, ...]]] = {JoinSide.LEFT: {}, JoinSide.RIGHT: {}}

    def results(self, side: JoinSide, rows: list[tuple[float, ...]]) -> list[tuple[int, int, int]]:
        found = []
        for k, row in enumerate(rows):
            for partner, other in self.rows[side.other].items():
                left, right = (row, other) if side is JoinSide.LEFT else (other, row)
                values = (right[0] - left[0], *left[1:], *right[1:])
                for number, ends in self.queries.items():
                    if all(ends[2 * i] <= value <= ends[2 * i + 1] for i, value in enumerate(values)):
                        found.append((k, number, partner))
        return sorted(found)


def as_rows(shape: MatcherShape, side: JoinSide, ids: list[int], rows: list[tuple[float, ...]]) -> JoinRows:
    table = np.array(rows, float).reshape(len(rows), 1 + shape.attributes(side))
    return JoinRows(np.array(ids, np.int64), table[:, 0].copy(), table[:, 1:].copy())


def as_joins(shape: MatcherShape, queries: dict[int, tuple[float, ...]]) -> Joins:
    table = np.array(list(queries.values()), float).reshape(len(queries), 2 * (1 + shape.left + shape.right))
    left, right = table[:, 2 : 2 + 2 * shape.left], table[:, 2 + 2 * shape.left :]
    return Joins(
        np.array(list(queries), np.int64), table[:, 0].copy(), table[:, 1].copy(), left[:, ::2].copy(),
        left[:, 1::2].copy(), right[:, ::2].copy(), right[:, 1::2].copy(),
    )  # fmt: skip


def compare(matcher: Matcher, truth: Truth, side: JoinSide, rows: list[tuple[float, ...]]) -> None:
    """All three outputs, for the batch and for its rows one at a time."""
    expected = truth.results(side, rows)
    batch = as_rows(truth.shape, side, list(range(len(rows))), rows)
    results = matcher.results(side, batch)
    assert (
        list(zip(results.rows.tolist(), results.queries.tolist(), results.partners.tolist(), strict=True)) == expected
    )
    affected, counts = matcher.match(side, batch), matcher.count(side, batch)
    assert len(affected.starts) == len(rows) + 1
    assert affected.starts[-1] == len(affected.queries)
    for k, row in enumerate(rows):
        queries = sorted({query for at, query, _ in expected if at == k})
        assert affected.of(k).tolist() == queries
        assert counts[k] == len(queries)
        assert matcher.match(side, as_rows(truth.shape, side, [0], [row])).queries.tolist() == queries


class World:
    """Random histories of rows and queries; a matcher goes along with the truth."""

    def __init__(self, make: Make, shape: MatcherShape, seed: int, grid: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.matcher, self.truth, self.shape = make(shape), Truth(shape), shape
        self.grid, self.next = grid, 0

    def value(self) -> float:
        if self.grid:
            return float(self.rng.integers(-6, 7)) * self.grid
        return float(self.rng.normal(0, 3))

    def row(self, side: JoinSide) -> tuple[float, ...]:
        # Few keys, so that a row of a select-join has partners on both sides of most points.
        join = self.value() if self.shape.band else float(self.rng.integers(-1, 2))
        return (join, *(self.value() for _ in range(self.shape.attributes(side))))

    def ends(self) -> tuple[float, float]:
        low, high = sorted((self.value(), self.value()))
        pick = self.rng.random()
        return (-math.inf if pick < 0.05 else low, math.inf if pick > 0.95 else high)

    def query(self) -> tuple[float, ...]:
        ranges = [self.ends() if self.shape.band else (0.0, 0.0)]
        ranges += [self.ends() for _ in range(self.shape.left + self.shape.right)]
        return tuple(end for pair in ranges for end in pair)

    def numbers(self, count: int) -> list[int]:
        # Numbers in no particular order, some negative.
        self.next += count
        return [(k * 7919) % 1_000_003 - 500 for k in range(self.next - count, self.next)]

    def add_queries(self, count: int) -> None:
        new = {number: self.query() for number in self.numbers(count)}
        self.matcher.add(as_joins(self.shape, new))
        self.truth.queries.update(new)

    def some(self, of: dict[int, Any], count: int) -> list[int]:
        return [int(key) for key in self.rng.permutation(list(of))[:count]] if of else []

    def remove_queries(self, count: int) -> None:
        gone = self.some(self.truth.queries, count)
        self.matcher.remove(np.array(gone, np.int64))
        for number in gone:
            del self.truth.queries[number]

    def change_rows(self, side: JoinSide, go: int, update: int, come: int) -> None:
        """Deletes, updates and inserts as one batch; what they affect is compared with the truth before and after."""
        present = self.truth.rows[side]
        touched = self.some(present, go + update)
        updated = touched[go:]
        new = {row: self.row(side) for row in [*updated, *self.numbers(come)]}
        old = [present[row] for row in touched]
        lost, gained = change(
            self.matcher, side, np.array(touched, np.int64), as_rows(self.shape, side, list(new), list(new.values()))
        )
        for affected, rows in ((lost, old), (gained, list(new.values()))):
            expected = {(k, query) for k, query, _ in self.truth.results(side, rows)}
            assert {(k, int(q)) for k in range(len(rows)) for q in affected.of(k)} == expected
        for row in touched:
            del present[row]
        present.update(new)

    def ask(self, count: int) -> None:
        for side in JoinSide:
            compare(self.matcher, self.truth, side, [self.row(side) for _ in range(count)])

    def step(self) -> None:
        side = JoinSide(int(self.rng.integers(2)))
        pick = self.rng.random()
        if pick < 0.3:
            self.add_queries(int(self.rng.integers(1, 12)))
        elif pick < 0.5:
            self.remove_queries(int(self.rng.integers(1, 10)))
        else:
            self.change_rows(side, *(int(k) for k in self.rng.integers(0, [4, 3, 7])))
        self.matcher._check()
        self.ask(2)


@pytest.mark.parametrize(("kind", "shape"), CASES)
@pytest.mark.parametrize("grid", [1.0, 0.0])
def test_history(kind: Make, shape: MatcherShape, grid: float) -> None:
    world = World(kind, shape, seed=5, grid=grid)
    for _ in range(20):
        world.step()


@pytest.mark.parametrize(("kind", "shape"), [case for case in CASES if case.values[1] in (BANDS[0], SELECTS[0])])
def test_lists_of_many_blocks(kind: Make, shape: MatcherShape, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small histories fit into a block or two; with blocks of three entries searches go through a directory."""
    made = PackedOrder.__init__
    monkeypatch.setattr(PackedOrder, "__init__", lambda self, width=0, room=256: made(self, width, 3))
    world = World(kind, shape, seed=6, grid=0.5)
    world.add_queries(60)
    for side in JoinSide:
        world.change_rows(side, 0, 0, 40)
    for _ in range(4):
        world.step()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "shape"), CASES)
def test_many_histories(kind: Make, shape: MatcherShape) -> None:
    for seed in range(6):
        world = World(kind, shape, seed, grid=[0.0, 1.0, 0.1][seed % 3])
        for _ in range(60):
            world.step()


@pytest.mark.parametrize(("kind", "shape"), [case for case in CASES if case.values[1] in (BANDS[0], SELECTS[0])])
def test_state_machine(kind: Make, shape: MatcherShape) -> None:
    """Hypothesis chooses what happens; a failure is shrunk to a short story."""

    class Story(RuleBasedStateMachine):
        @initialize(seed=st.integers(0, 1000))
        def begin(self, seed: int) -> None:
            self.world = World(kind, shape, seed, grid=1.0)

        @rule(count=st.integers(1, 6))
        def queries_come(self, count: int) -> None:
            self.world.add_queries(count)

        @rule(count=st.integers(1, 6))
        def queries_go(self, count: int) -> None:
            self.world.remove_queries(count)

        @rule(side=st.sampled_from(JoinSide), go=st.integers(0, 3), update=st.integers(0, 3), come=st.integers(0, 5))
        def rows_change(self, side: JoinSide, go: int, update: int, come: int) -> None:
            self.world.change_rows(side, go, update, come)

        @rule()
        def ask(self) -> None:
            self.world.ask(1)
            self.world.matcher._check()

    quick = settings(
        max_examples=8, stateful_step_count=12, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(Story, settings=quick)


@pytest.mark.parametrize(("kind", "shape"), CASES)
def test_refusals_change_nothing(kind: Make, shape: MatcherShape) -> None:
    world = World(kind, shape, seed=2, grid=1.0)
    world.add_queries(5)
    world.change_rows(JoinSide.LEFT, 0, 0, 5)
    world.change_rows(JoinSide.RIGHT, 0, 0, 5)
    matcher, truth = world.matcher, world.truth
    query, row = next(iter(truth.queries)), next(iter(truth.rows[JoinSide.LEFT]))
    fresh = world.query()
    empty = (1.0, 0.0) if shape.band else (3.0, 3.0)
    nan = as_rows(shape, JoinSide.LEFT, [901, 902], [world.row(JoinSide.LEFT), (math.nan, *[0.0] * shape.left)])
    wrong: list[Callable[[], object]] = [
        lambda: matcher.add(as_joins(shape, {900: fresh, query: fresh})),
        lambda: matcher.add(as_joins(shape, {900: (*empty, *fresh[2:])})),
        lambda: matcher.remove(np.array([query, 12345678])),
        lambda: matcher.remove(np.array([query, query])),
        lambda: matcher.insert(
            JoinSide.LEFT, as_rows(shape, JoinSide.LEFT, [903, row], [world.row(JoinSide.LEFT)] * 2)
        ),
        lambda: matcher.insert(
            JoinSide.LEFT, as_rows(shape, JoinSide.LEFT, [904, 904], [world.row(JoinSide.LEFT)] * 2)
        ),
        lambda: matcher.insert(JoinSide.LEFT, nan),
        lambda: matcher.match(JoinSide.LEFT, nan),
        lambda: matcher.delete(JoinSide.LEFT, np.array([row, 12345678])),
        lambda: matcher.delete(JoinSide.LEFT, np.array([row, row])),
        lambda: matcher.rows(JoinSide.LEFT, np.array([12345678])),
    ]
    for attempt in wrong:
        with pytest.raises(MatchingError):
            attempt()
        matcher._check()
        world.ask(2)


@pytest.mark.parametrize(("kind", "shape"), CASES)
def test_nothing_there(kind: Make, shape: MatcherShape) -> None:
    world = World(kind, shape, seed=3, grid=1.0)
    world.ask(2)
    world.add_queries(4)
    world.ask(2)
    world.remove_queries(4)
    world.change_rows(JoinSide.RIGHT, 0, 0, 4)
    world.ask(2)
    none = as_rows(shape, JoinSide.LEFT, [], [])
    assert len(world.matcher.match(JoinSide.LEFT, none).queries) == 0
    assert len(world.matcher.results(JoinSide.LEFT, none)) == 0
