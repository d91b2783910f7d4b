"""Match order: whatever was found, each row's queries come in the order of their numbers."""

import numpy as np
import pytest

from slackwater.kernels.match_order import arrange


@pytest.mark.parametrize("spread", [1, 3, 70, 10**6, 2**61])
@pytest.mark.parametrize("begin", [0, -(2**62), 10**12])
def test_numbers_in_rising_order(spread: int, begin: int) -> None:
    rng = np.random.default_rng(spread)
    slots = 4000
    numbers = begin + rng.permutation(slots).astype(np.int64) * (spread if spread < 10**9 else 2**61 // slots)
    if spread == 2**61:
        numbers[0] = 2**62
    lengths = np.array([0, 1, 23, 24, 25, 64, 65, 1000, 4000, 0, 300], np.int64)
    parts = [rng.permutation(slots)[:length] for length in lengths.tolist()]
    # Rows are found in any order: the last one first, with a gap between them.
    offsets = np.cumsum(lengths[::-1] + 3)[::-1] - lengths - 3
    found = np.full(int((lengths + 3).sum()), -1, np.int64)
    for offset, part in zip(offsets.tolist(), parts, strict=True):
        found[offset : offset + len(part)] = part
    starts, out = np.empty(len(lengths) + 1, np.int64), np.empty(int(lengths.sum()), np.int64)
    arrange(offsets, lengths, found, numbers, starts, out)
    assert starts.tolist() == [0, *np.cumsum(lengths).tolist()]
    for row, part in enumerate(parts):
        assert out[starts[row] : starts[row + 1]].tolist() == sorted(numbers[part].tolist())
