"""Short lists: a walk and a sweep publish the same bits, those of recomputing every query after every batch."""

import math
from dataclasses import dataclass, field
from itertools import cycle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import AggregateFunction, Position
from slackwater.kernels import list_passes
from slackwater.kernels.aggregate_tree import AVG, COUNT, MAX, MIN, SUM
from slackwater.processing.base import Values
from slackwater.processing.bounded.column_aggregates import FUNCTIONS, ListedAggregates

ITEMS = 40
ODD = [math.nan, 0.0, -0.0, 1e308, -1e308, 1e16, 1.0, 5e-324]
numbers = st.sampled_from(ODD) | st.floats(-100, 100, allow_subnormal=False)


def aggregated(function: int, parts: list[float]) -> float | None:
    """The value of parts in order of their slots, rounded as the kernel does."""
    if function == COUNT:
        return float(len(parts))
    if not parts:
        return None
    if function in (MIN, MAX):
        value = min(parts) if function == MIN else max(parts)
    else:
        value = 0.0
        for part in parts:
            value += part
        value = value / len(parts) if function == AVG else value
    return value if math.isfinite(value) else None


@dataclass
class Oracle:
    """Every query from its definition."""

    values: list[float] = field(default_factory=lambda: [math.nan] * ITEMS)
    queries: dict[int, tuple[int, list[tuple[int, float]], float]] = field(default_factory=dict)
    published: dict[int, float | None] = field(default_factory=dict)

    def value(self, number: int) -> float | None:
        function, members, _ = self.queries[number]
        products = [(factor, self.values[slot]) for slot, factor in sorted(members)]
        with np.errstate(over="ignore"):
            return aggregated(function, [factor * value + 0.0 for factor, value in products if value == value])

    def apply(self, slots: list[int], fresh: list[float]) -> list[tuple[int, float | None]]:
        for slot, value in zip(slots, fresh, strict=True):
            self.values[slot] = value
        said = []
        for number in sorted(self.queries):
            new, old = self.value(number), self.published[number]
            if (new is None) != (old is None) or (
                new is not None and old is not None and not abs(new - old) <= self.queries[number][2]
            ):
                self.published[number] = new
                said.append((number, new))
        return said


def plain(values: Values | None) -> list[tuple[int, float | None]]:
    if values is None:
        return []
    triples = zip(values.queries.tolist(), values.values.tolist(), values.there.tolist(), strict=True)
    return [(number, value if there else None) for number, value, there in triples]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_walks_and_sweeps_publish_the_same_bits(data: st.DataObject) -> None:
    stores = [ListedAggregates(np.zeros(0, np.int64), np.zeros(0)) for _ in range(4)]
    oracle = Oracle()
    for at in range(data.draw(st.integers(1, 12))):
        for number in data.draw(st.lists(st.integers(0, 9), max_size=4)):
            if number in oracle.queries:
                del oracle.queries[number], oracle.published[number]
                for store in stores:
                    store.remove(number)
                continue
            function = data.draw(st.sampled_from(AggregateFunction))
            longest = data.draw(st.sampled_from([5, 12, 40]))
            chosen = data.draw(st.lists(st.integers(0, ITEMS - 1), unique=True, max_size=longest))
            factors = data.draw(st.lists(numbers.filter(math.isfinite), min_size=len(chosen), max_size=len(chosen)))
            within = data.draw(st.sampled_from([0.0, 1.0, 50.0, 1e-300, 1e308]))
            oracle.queries[number] = FUNCTIONS[function], list(zip(chosen, factors, strict=True)), within
            expected = oracle.published[number] = oracle.value(number) if len(chosen) <= 32 else None
            for store in stores:
                value = store.add(number, function, np.array(chosen, np.int64), np.array(factors), within, at)
                if len(chosen) <= 32:
                    assert value == expected
            if len(chosen) > 32:  # their order of adding is another one
                del oracle.queries[number], oracle.published[number]
                for store in stores:
                    store.remove(number)
        batch = data.draw(st.dictionaries(st.integers(0, ITEMS - 1), numbers, min_size=1, max_size=12))
        slots = sorted(batch)
        fresh = [batch[slot] for slot in slots]
        expected_values = oracle.apply(slots, fresh)
        states = []
        # The first walks, the second sweeps, the others do what is drawn; the last is restored after each batch.
        is_swept = data.draw(st.booleans())
        for number, (store, choice) in enumerate(zip(stores, (False, True, is_swept, is_swept), strict=True)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(list_passes, "is_sweep_cheaper", lambda *_, choice=choice: choice)
                said = store.apply(np.array(slots, np.int64), np.array(fresh), Position(at))
            assert plain(said) == expected_values
            store._check()
            if number == 3:
                stores[3] = store = ListedAggregates.of(store.parts())
                store._check()
            states.append({name: part.tobytes() for name, part in store.parts().items()})
        assert all(state == states[0] for state in states)


@pytest.mark.parametrize("swept", [(False,), (True,), (True, False, False), (True, True, False)])
def test_no_step_of_a_random_walk_is_missed(swept: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    turns = cycle(swept)
    monkeypatch.setattr(list_passes, "is_sweep_cheaper", lambda touches, members: next(turns))
    random = np.random.default_rng(7)
    oracle, store = Oracle(), ListedAggregates(np.zeros(0, np.int64), np.zeros(0))
    values = random.uniform(-1, 1, ITEMS)
    oracle.apply(list(range(ITEMS)), values.tolist())
    store.apply(np.arange(ITEMS), values, Position(0))
    for number in range(60):
        function = list(AggregateFunction)[number % 5]
        chosen = random.choice(ITEMS, int(random.integers(1, 20)), replace=False)
        factors, within = random.uniform(-2, 2, len(chosen)), float(random.uniform(0, 1))
        oracle.queries[number] = FUNCTIONS[function], list(zip(chosen.tolist(), factors.tolist(), strict=True)), within
        oracle.published[number] = oracle.value(number)
        assert store.add(number, function, chosen, factors, within, 0) == oracle.published[number]
    count = 0
    for at in range(400):
        slots = np.sort(random.choice(ITEMS, 4, replace=False))
        values[slots] = np.where(
            random.random(4) < 0.01, np.nan, np.nan_to_num(values[slots]) + random.normal(0, 0.1, 4)
        )
        expected = oracle.apply(slots.tolist(), values[slots].tolist())
        assert plain(store.apply(slots, values[slots], Position(at))) == expected
        count += len(expected)
    assert count > 500


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize(
    ("function", "values", "factors", "within", "steps"),
    [
        pytest.param(
            SUM,
            [4e307, 3e307, -2e307],
            [1.0, 1.0, 1.0],
            1.7e308,
            [{0: 1e308}, {1: 8.5e307}],
            id="on the way to a sum",
        ),
        pytest.param(SUM, [5e-324], [0.4], 0.0, [{0: 1e-323}], id="a product of a few digits"),
        pytest.param(
            AVG,
            [1.7e308, math.nan],
            [1.0, 1.0],
            1.7e308,
            [{1: 0.0}, {0: -1e308, 1: -7e307}],
            id="a bound times a count",
        ),
        pytest.param(
            AVG,
            [1.7e308, math.nan, math.nan],
            [1.0, 1.0, 1.0],
            1.5e308,
            [{1: -1.6e308, 2: -1.6e308}, {0: 1.6e308}, {0: 1e308}],
            id="a value times a count",
        ),
    ],
)
def test_at_the_ends_of_double_a_walk_and_a_sweep_publish_the_same(
    swept: bool,
    function: int,
    values: list[float],
    factors: list[float],
    within: float,
    steps: list[dict[int, float]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(list_passes, "is_sweep_cheaper", lambda touches, members: swept)
    oracle, store, slots = Oracle(), ListedAggregates(np.zeros(0, np.int64), np.zeros(0)), list(range(len(values)))
    oracle.apply(slots, values)
    store.apply(np.array(slots), np.array(values), Position(0))
    oracle.queries[1] = function, list(zip(slots, factors, strict=True)), within
    oracle.published[1] = oracle.value(1)
    kind = next(kind for kind, code in FUNCTIONS.items() if code == function)
    assert store.add(1, kind, np.array(slots), np.array(factors), within, 0) == oracle.published[1]
    for at, step in enumerate(steps):
        expected = oracle.apply(list(step), list(step.values()))
        said = store.apply(np.array(list(step)), np.array(list(step.values())), Position(at + 1))
        assert plain(said) == expected


def test_a_large_batch_sweeps_and_a_small_one_walks() -> None:
    store = ListedAggregates(np.arange(100), np.zeros(100))
    for number in range(100):
        store.add(number, AggregateFunction.SUM, (number + np.arange(5)) % 100, np.ones(5), 2.0, 0)
    for count, swept in ((1, False), (100, True), (90, True), (2, False)):
        store.apply(np.arange(count), np.full(count, 0.5 * count), Position(count))
        assert store._short._swept == swept
        store._check()


def test_lanes_are_used_again() -> None:
    store = ListedAggregates(np.arange(4), np.arange(4.0))
    for turn in range(50):
        for number in range(9):
            store.add(number, AggregateFunction.SUM, np.arange(number % 3 + 1), np.ones(number % 3 + 1), 0.0, turn)
        store._check()
        for number in range(9):
            store.remove(number)
    assert store._short._blocks == 3
    assert len(store) == 0


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("function", [AggregateFunction.SUM, AggregateFunction.AVG])
def test_a_total_beyond_the_end_of_double_is_published(
    function: AggregateFunction, swept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the bound times the count is beyond it: the value is gone, however wide the bound is."""
    monkeypatch.setattr(list_passes, "is_sweep_cheaper", lambda touches, members: swept)
    store = ListedAggregates(np.arange(8), np.zeros(8))
    store.add(1, function, np.arange(8), np.array([0.0] * 7 + [1e308]), 1e308, 0)
    assert plain(store.apply(np.array([7]), np.array([100.0]), Position(1))) == [(1, None)]
    assert plain(store.apply(np.array([7]), np.array([0.0]), Position(2))) == [(1, 0.0)]
