"""The compiled loops against their plain twins."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import AggregateFunction, Position
from slackwater.kernels.adjacency import Adjacency, linked_plainly
from slackwater.kernels.aggregate_tree import aggregated_plainly
from slackwater.kernels.ranks import settle, settled_plainly
from slackwater.kernels.stabbing import RANGE, count_nodes, file_boxes, holds, stab, stabbed_plainly
from slackwater.processing.bounded.column_aggregates import FUNCTIONS, ListedAggregates
from slackwater.processing.bounded.ranges import RangeAllocator


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 9), max_size=5), st.integers(0, 40)), max_size=120))
def test_lists_hold_what_was_added_and_not_removed(steps: list[tuple[bool, set[int], int]]) -> None:
    lists = Adjacency()
    lists.arena, lists.factors = np.zeros(8, np.int32), np.zeros(8)  # little, so that it has to grow
    lists.reach(10)
    made: list[tuple[bool, list[int], int]] = []
    held: dict[int, set[int]] = {}
    for adding, items, entry in steps:
        chosen = sorted(item for item in items if (entry in held.get(item, set())) != adding)
        made.append((adding, chosen, entry))
        array = np.array(chosen, np.int64)
        if adding:
            lists.add(array, (array + entry / 100).astype(np.float64), np.full(len(array), entry, np.int32))
        else:
            lists.remove(array, entry)
        held = linked_plainly(made)
    for item in range(10):
        part = slice(lists.starts[item], lists.starts[item] + lists.lengths[item])
        entries = lists.arena[part].tolist()
        assert len(entries) == len(set(entries))
        assert set(entries) == held.get(item, set())
        assert lists.factors[part].tolist() == [item + entry / 100 for entry in entries]


rank = st.tuples(st.integers(-2, 2), st.integers(0, 2), st.integers(0, 2))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 4), rank), max_size=12), max_size=4))
def test_the_greatest_rank_wins(batches: list[list[tuple[int, tuple[int, int, int]]]]) -> None:
    last_times, last_sources, last_sequences = (np.zeros(5, np.int64) for _ in range(3))
    ranked, winners = np.zeros(5, np.bool_), np.full(5, -1)
    ranks: dict[int, tuple[int, int, int]] = {}
    for batch in batches:
        slots = np.array([slot for slot, _ in batch], np.int64)
        times, sources, sequences = (np.array([one[k] for _, one in batch], np.int64) for k in range(3))
        won = np.empty(len(batch), np.int64)
        kept = (ranked, last_times, last_sources, last_sequences)
        count = settle(slots, times, sources, sequences, np.arange(3), *kept, winners, won)
        found = {int(slot): int(winners[slot]) for slot in won[:count]}
        assert found == settled_plainly(ranks, batch)
        winners[:] = -1


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_points_are_found_in_their_boxes(data: st.DataObject) -> None:
    nulls = np.array([7, 5])
    spans = [st.tuples(st.integers(0, int(n)), st.integers(0, int(n))).map(sorted) for n in nulls]
    boxes = data.draw(st.lists(st.tuples(*spans), min_size=1, max_size=8))
    points = data.draw(st.lists(st.tuples(*(st.integers(0, int(n)) for n in nulls)), min_size=1, max_size=8))
    filed = np.arange(len(boxes)) % 2  # under either side
    lows = np.array([[side[0] for side in box] for box in boxes])
    highs = np.array([[side[1] for side in box] for box in boxes])
    every = np.arange(len(boxes))
    sizes, bases = np.array([8, 8]), np.array([0, 16, 32])
    ranges = (filed, lows[every, filed], highs[every, filed])
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(count_nodes(bases, sizes, *ranges))])
    entries = np.zeros(int(starts[-1]), np.int64)
    file_boxes(bases, sizes, *ranges, every, starts.copy(), entries)
    nothing = np.zeros(0, np.int64)
    sides = (np.tile([0, 1], len(boxes)), np.full(2 * len(boxes), RANGE), lows.reshape(-1), highs.reshape(-1), nothing)
    codes = np.array(points).T.reshape(-1).copy()
    rows, found = np.empty(200, np.int64), np.empty(200, np.int64)
    count = stab(
        codes,
        nulls,
        np.ones(len(points), np.bool_),
        bases,
        sizes,
        starts,
        entries,
        nothing,
        np.ones(len(boxes), np.bool_),
        2 * np.arange(len(boxes) + 1),
        *sides,
        rows,
        found,
    )
    expected = stabbed_plainly(points, [[set(range(low, high + 1)) for low, high in box] for box in boxes])
    assert set(zip(rows[:count].tolist(), found[:count].tolist(), strict=True)) == expected
    assert count == len(expected)
    assert holds(codes, nulls, 0, 0, 2, *sides) == ((0, 0) in expected)


numbers = st.sampled_from([float("nan"), -1.0, 0.0, 0.5, 2.0])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(AggregateFunction), st.sets(st.integers(0, 79), max_size=60)), max_size=4),
    st.lists(st.dictionaries(st.integers(0, 79), numbers, min_size=1, max_size=9), max_size=6),
    st.sampled_from([0.0, 1.0, 2.5]),
)
def test_a_forest_knows_every_aggregate(
    queries: list[tuple[AggregateFunction, set[int]]], batches: list[dict[int, float]], within: float
) -> None:
    values = np.full(80, np.nan)
    forest = ListedAggregates(np.zeros(0, np.int64), np.zeros(0))
    for number, (function, chosen) in enumerate(queries):
        slots = np.array(sorted(chosen), np.int64)
        forest.add(number, function, slots, np.full(len(slots), 2.0), within, 0)
    for at, batch in enumerate(batches):
        slots = np.array(sorted(batch), np.int64)
        values[slots] = [batch[int(slot)] for slot in slots]
        forest.apply(slots, values[slots], Position(at))
        forest._check()
        for number, (function, chosen) in enumerate(queries):
            parts = [2.0 * values[slot] for slot in sorted(chosen) if values[slot] == values[slot]]
            truth, published = aggregated_plainly(FUNCTIONS[function], parts), forest.published(number)[0]
            assert (truth is None) == (published is None)
            assert truth is None or published is None or abs(truth - published) <= within + 1e-12


def test_ranges_are_used_again() -> None:
    ranges = RangeAllocator()
    first = ranges.take(5)
    second = ranges.take(20)
    ranges.give_back(second, 20)
    assert ranges.take(31) == second
    assert ranges.take(5) != first
    assert ranges.top == 42
