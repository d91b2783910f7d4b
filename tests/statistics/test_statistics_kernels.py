"""The compiled loops of the statistics against their plain twins."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.kernels import ternary_grid
from slackwater.kernels.changes import COLUMNS, sum_changes, sum_changes_plainly
from slackwater.kernels.dyadic import cell_plainly, find_cells, largest_size
from slackwater.kernels.gram import add_outer, outer_plainly
from slackwater.kernels.group_rows import group, grouped_plainly
from slackwater.kernels.lags import sum_lags, sum_lags_plainly
from slackwater.kernels.tallies import add_tallies, add_tallies_plainly

steps = st.sampled_from([0, 1, 2, 5, 30, 41, 1000])
values = st.one_of(st.integers(-8, 8).map(float), st.floats(-1e6, 1e6), st.just(0.1))
series = st.lists(st.tuples(steps, values), min_size=1, max_size=30)
groups = st.lists(series, max_size=4)
half_lives = st.sampled_from([0.0, 50.0])
LONGEST = 40


def columns(drawn: list[list[tuple[int, float]]]) -> tuple[list[tuple[list[int], list[float]]], Any, Any, Any]:
    """Each item apart, and all together as the kernels want them."""
    apart = [(np.cumsum([step for step, _ in each]).tolist(), [value for _, value in each]) for each in drawn]
    starts = np.cumsum([0, *(len(times) for times, _ in apart)]).astype(np.int64)
    times = np.array([time for times, _ in apart for time in times], np.int64)
    return apart, starts, times, np.array([value for _, values in apart for value in values], np.float64)


def close(found: Any, expected: Any, scale: float = 1.0) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * scale)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=50))
def test_grouping(codes: list[int]) -> None:
    order, starts = group(np.array(codes, np.int64), 6)
    assert (order.tolist(), starts.tolist()) == grouped_plainly(codes, 6)


@settings(max_examples=150, deadline=None)
@given(groups, half_lives)
def test_changes(drawn: list[list[tuple[int, float]]], half_life: float) -> None:
    apart, starts, times, numbers = columns(drawn)
    sums = np.zeros((len(apart), COLUMNS))
    sum_changes(starts, times, numbers, LONGEST, half_life, sums)
    for found, (own_times, own_values) in zip(sums, apart, strict=True):
        close(found, sum_changes_plainly(own_times, own_values, LONGEST, half_life), max(1.0, found[5] ** 0.5))


@settings(max_examples=150, deadline=None)
@given(groups, half_lives, st.integers(1, 4))
def test_lags(drawn: list[list[tuple[int, float]]], half_life: float, lags: int) -> None:
    apart, starts, times, numbers = columns(drawn)
    count = len(apart)
    sums, pairs = np.zeros((count, 5)), np.zeros((count, lags, 6))
    head, head_times, tail = np.zeros((count, lags)), np.zeros((count, lags), np.int64), np.zeros((count, lags))
    lengths = np.zeros((count, 3), np.int64)
    sum_lags(starts, times, numbers, LONGEST, half_life, sums, pairs, head, head_times, tail, lengths)
    for g, (own_times, own_values) in enumerate(apart):
        expected, expected_pairs = sum_lags_plainly(own_times, own_values, LONGEST, half_life, lags)
        scale = max(1.0, float(np.abs(own_values).max()))
        close(sums[g, [0, 1, 3, 4]], [expected[column] for column in (0, 1, 3, 4)], scale)
        close(sums[g, 2], expected[2], scale**2)
        close(pairs[g, :, :3], np.array(expected_pairs)[:, :3], scale)
        close(pairs[g, :, 3:], np.array(expected_pairs)[:, 3:], scale**2)
        breaks = [i for i in range(1, len(own_times)) if own_times[i] - own_times[i - 1] > LONGEST]
        first_run = own_values[: breaks[0] if breaks else None][:lags]
        last_run = own_values[breaks[-1] if breaks else 0 :][::-1][:lags]
        assert lengths[g].tolist() == [len(breaks), len(first_run), len(last_run)]
        assert head[g, : len(first_run)].tolist() == first_run
        assert head_times[g, : len(first_run)].tolist() == own_times[: len(first_run)]
        assert tail[g, : len(last_run)].tolist() == last_run


changes = st.one_of(
    st.floats(-1e150, 1e150),
    st.integers(-10_000, 10_000).map(lambda n: n / 2),
    st.integers(-10_000, 10_000).map(lambda n: n / 100),
    st.sampled_from([0.5, 1.5, -0.5, 4.5, 13.5, 1093.5, math.nextafter(0.5, 0), math.nextafter(1.5, 2), 5e-324]),
)


@settings(max_examples=500, deadline=None)
@given(changes, st.integers(0, 30))
def test_a_state_is_the_same_from_whichever_level_it_is_reached(change: float, up: int) -> None:
    level = int(ternary_grid.level_for(np.array([abs(change)]))[0])
    state = ternary_grid.state_at(change, level)
    assert abs(state) <= ternary_grid.WIDEST
    assert state == ternary_grid.state_plainly(change, level)
    assert (
        ternary_grid.coarser(state, up)
        == ternary_grid.state_at(change, level + up)
        == ternary_grid.state_plainly(change, level + up)
    )
    assert ternary_grid.state_at(-change, level + up) == -ternary_grid.state_at(change, level + up)
    if change and level > ternary_grid.LOWEST:
        spacing = 3.0**level
        assert abs(state * spacing - change) <= spacing * 0.5000001
        assert abs(change) > ternary_grid.WIDEST * 3.0 ** (level - 1), "a finer level would have done"


@settings(max_examples=150, deadline=None)
@given(groups, half_lives, st.sampled_from([0, 3]))
def test_transitions(drawn: list[list[tuple[int, float]]], half_life: float, tick: int) -> None:
    apart, starts, times, numbers = columns(drawn)
    largest = np.zeros(len(apart))
    ternary_grid.largest_change(starts, times, numbers, LONGEST, tick, largest)
    levels = ternary_grid.level_for(largest) + 5
    room = 2 * len(times)
    slots, keys, weights = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
    count = ternary_grid.emit_transitions(
        *(starts, times, numbers, LONGEST, half_life, tick),
        *(levels, np.zeros(len(apart)), 0, slots, keys, weights),
    )
    found: list[dict[tuple[int, int], float]] = [{} for _ in apart]
    half = ternary_grid.HALF
    for slot, key, weight in zip(slots[:count].tolist(), keys[:count].tolist(), weights[:count].tolist(), strict=True):
        pair = (key // (2 * half) - half, key % (2 * half) - half)
        found[slot][pair] = found[slot].get(pair, 0.0) + weight
    for one, (own_times, own_values), level in zip(found, apart, levels.tolist(), strict=True):
        assert one == pytest.approx(transitions_of(own_times, own_values, half_life, tick, level), rel=1e-12)


def transitions_of(
    times: list[int], values: list[float], half_life: float, tick: int, level: int
) -> dict[tuple[int, int], float]:
    return ternary_grid.transitions_plainly(times, values, LONGEST, half_life, tick, level)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9).map(float)), max_size=6), max_size=5))
def test_outer_products(rows: list[list[tuple[int, float]]]) -> None:
    starts = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    entries = [entry for row in rows for entry in row]
    gram = np.zeros((5, 5))
    add_outer(
        starts, np.array([at for at, _ in entries], np.int64), np.array([amount for _, amount in entries], float), gram
    )
    assert gram.tolist() == outer_plainly(rows, 5)


tallies = st.dictionaries(st.integers(0, 30), st.integers(1, 9).map(float))


@settings(max_examples=100, deadline=None)
@given(tallies, tallies)
def test_tallies(one: dict[int, float], other: dict[int, float]) -> None:
    sides = [(np.array(sorted(each), np.int64), np.array([each[key] for key in sorted(each)])) for each in (one, other)]
    room = len(one) + len(other)
    keys, weights = np.empty(room, np.int64), np.empty(room)
    count = add_tallies(*sides[0], *sides[1], keys, weights)
    found = dict(zip(keys[:count].tolist(), weights[:count].tolist(), strict=True))
    assert list(found.items()) == list(add_tallies_plainly(one, other).items())


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.one_of(st.floats(-1e150, 1e150), st.sampled_from([-5e-324, -1e-300, 0.0])), min_size=1),
    st.integers(0, 60),
)
def test_dyadic_cells(points: list[float], up: int) -> None:
    numbers = np.array(points, np.float64)
    places = np.zeros(len(points), np.int64)
    largest = np.zeros(1)
    largest_size(places, numbers, largest)
    assert largest[0] == max(abs(point) for point in points)
    level = max(int(np.frexp(largest)[1][0]) - 20, -1022) + up
    cells = np.empty(len(points), np.int64)
    find_cells(places, numbers, np.array([level], np.int64), 7, cells)
    assert cells.tolist() == [cell_plainly(point, level) + 7 for point in points]
