"""Column bit sets: the columns of a row that changed, one bit each in words of 64."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from slackwater.core.schema import TableSchema
from slackwater.processing.base import Flags
from slackwater.processing.regions import Sheet

Words = npt.NDArray[np.uint64]


def words_for(columns: Iterable[int]) -> int:
    """How many words hold these columns.

    >>> words_for([0, 63]), words_for([64])
    (1, 2)
    """
    return max(columns, default=0) // 64 + 1


def bits_of(columns: Iterable[int], words: int) -> Words:
    """These columns as bits.

    >>> bits_of([0, 65], 2).tolist()
    [1, 2]
    """
    bits: Words = np.zeros(words, np.uint64)
    for column in columns:
        bits[column // 64] |= np.uint64(1 << (column % 64))
    return bits


def differing(table: TableSchema, before: Sheet, after: Sheet, words: int) -> Words:
    """Of each row the columns that are others now, as bits; of rows that came or went it does not matter."""
    bits: Words = np.zeros((len(before), words), np.uint64)
    both: Flags = before.present & after.present
    if not both.any():
        return bits
    for at, column in enumerate(table.columns[: 64 * words]):
        if column.name in table.key:
            continue
        old, old_valid = before.cells(column.name)
        new, new_valid = after.cells(column.name)
        differs = (old_valid != new_valid) | (old_valid & new_valid & (old != new))
        bits[:, at // 64] |= differs.astype(np.uint64) << np.uint64(at % 64)
    return bits
