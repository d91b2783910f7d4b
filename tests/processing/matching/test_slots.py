"""Slots: numbers in use have slots of their own, and those given back are given out again."""

from unittest.mock import patch

import numpy as np
import pytest

from slackwater.core.errors import MatchingError
from slackwater.processing.base import Integers
from slackwater.processing.matching import tables
from slackwater.processing.matching.tables import SlotTable


@pytest.mark.parametrize("seed", range(4))
def test_slots_are_a_dictionary_that_reuses(seed: int) -> None:
    rng, slots, plain, next_number = np.random.default_rng(seed), SlotTable("query"), dict[int, int](), 0
    for _ in range(80):
        new = np.arange(next_number, next_number + int(rng.integers(0, 9))) * 37 - 100
        next_number += len(new)
        most = max(slots.ever, len(plain) + len(new))
        given = slots.give(new)
        plain.update(zip(new.tolist(), given.tolist(), strict=True))
        assert len(set(plain.values())) == len(plain) == len(slots)
        assert slots.ever == most, "a slot was free and another one was made"
        gone = rng.permutation(list(plain))[: int(rng.integers(0, 9))].astype(np.int64)
        assert slots.take(gone).tolist() == [plain.pop(int(number)) for number in gone]
        assert slots.all().tolist() == sorted(plain.values())
        assert slots.find(np.array(list(plain), np.int64)).tolist() == list(plain.values())
        with pytest.raises(MatchingError):
            slots.take(np.array([10**9]))


def test_slots_taken_one_by_one_are_not_copied_each_time() -> None:
    """A crowd that leaves one after the other must not cost the square of its size."""
    slots, copied = SlotTable("query"), list[int]()
    slots.give(np.arange(3_000))

    def watched(column: Integers, size: int) -> Integers:
        larger = grow(column, size)
        if larger is not column:
            copied.append(len(column))
        return larger

    grow = tables.grown_integers
    with patch.object(tables, "grown_integers", watched):
        for number in range(3_000):
            slots.take(np.array([number]))
    assert sum(copied) < 4 * 3_000
