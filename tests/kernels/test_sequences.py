"""The compiled range set against its plain twin, and both against a plain set."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.kernels.sequences import admit, admit_plainly

numbers = st.one_of(st.integers(0, 40), st.integers(0, 2**62))
batches = st.lists(st.lists(numbers, max_size=60), min_size=1, max_size=6)


def run_compiled(capacity: int, history: list[list[int]]) -> tuple[list[list[bool]], list[tuple[int, int]], int]:
    starts, ends = np.zeros(capacity + 1, np.int64), np.zeros(capacity + 1, np.int64)
    count, lost, flags = 0, 0, []
    for batch in history:
        fresh = np.zeros(len(batch), np.bool_)
        count, given_up = admit(starts, ends, count, np.array(batch, np.int64), fresh)
        lost += given_up
        flags.append(fresh.tolist())
    return flags, list(zip(starts[:count].tolist(), ends[:count].tolist(), strict=True)), lost


@settings(max_examples=300, deadline=None)
@given(batches, st.integers(2, 12))
def test_equals_the_twin_after_every_batch(history: list[list[int]], capacity: int) -> None:
    ranges: list[tuple[int, int]] = []
    expected, lost = [], 0
    for batch in history:
        fresh, given_up = admit_plainly(ranges, capacity, batch)
        expected.append(fresh)
        lost += given_up
    assert run_compiled(capacity, history) == (expected, ranges, lost)


@settings(max_examples=200, deadline=None)
@given(batches)
def test_exact_while_there_is_room(history: list[list[int]]) -> None:
    seen: set[int] = set()
    expected: list[list[bool]] = []
    for batch in history:
        expected.append([])
        for number in batch:
            expected[-1].append(number not in seen)
            seen.add(number)
    flags, ranges, lost = run_compiled(400, history)
    assert (flags, lost) == (expected, 0)
    assert sum(end - start + 1 for start, end in ranges) == len(seen)


def test_a_contiguous_source_needs_one_range() -> None:
    _, ranges, _ = run_compiled(4, [list(range(k, k + 100)) for k in range(0, 10_000, 100)])
    assert ranges == [(0, 9_999)]


def test_the_lowest_gap_is_given_up_and_counted() -> None:
    flags, ranges, lost = run_compiled(2, [[0, 10, 20], [5, 15]])
    assert flags == [[True, True, True], [False, True]], "5 lies in the gap that was given up"
    assert (ranges, lost) == ([(0, 15), (20, 20)], 9 + 4)
