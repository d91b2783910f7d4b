"""The compiled range set against its plain twin, and both against a plain set."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.kernels.sequences import Integers, admit, admit_plainly

numbers = st.one_of(st.integers(0, 40), st.integers(0, 2**62))
histories = st.lists(st.lists(numbers, max_size=60).map(sorted), min_size=1, max_size=6)


def merge(starts: Integers, ends: Integers, batch: list[int]) -> tuple[list[bool], Integers, Integers]:
    room = len(starts) + len(batch)
    new_starts, new_ends = np.empty(room, np.int64), np.empty(room, np.int64)
    fresh = np.zeros(len(batch), np.bool_)
    count = admit(starts, ends, np.array(batch, np.int64), fresh, new_starts, new_ends)
    return fresh.tolist(), new_starts[:count], new_ends[:count]


@settings(max_examples=300, deadline=None)
@given(histories)
def test_equals_the_twin_and_a_plain_set_after_every_batch(history: list[list[int]]) -> None:
    starts, ends = np.empty(0, np.int64), np.empty(0, np.int64)
    ranges: list[tuple[int, int]] = []
    seen: set[int] = set()
    for batch in history:
        fresh, starts, ends = merge(starts, ends, batch)
        assert fresh == admit_plainly(ranges, batch)
        assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == ranges
        assert fresh == [number not in seen and number not in batch[:i] for i, number in enumerate(batch)]
        seen |= set(batch)
    assert sum(end - start + 1 for start, end in ranges) == len(seen)
    assert all(end + 1 < start for (_, end), (start, _) in pairwise(ranges))
