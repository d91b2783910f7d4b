"""Sparse Gram matrix: sums of outer products, G += Σ_rows d dᵀ where most of d is zero.

A row is a stretch of entries (column, amount); a column may occur more than once in it, its amounts then add up.
Rows that are nearly full belong to BLAS instead (`statistics.similarity` chooses).

`add_outer` is compiled, `outer_plainly` is its twin over Python values.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@compiled
def add_outer(starts: Integers, columns: Integers, amounts: Floats, gram: Floats) -> None:
    """Add the outer product of each row, entries `starts[r]..starts[r+1]−1`, to `gram`."""
    for r in range(len(starts) - 1):
        for p in range(starts[r], starts[r + 1]):
            for q in range(starts[r], starts[r + 1]):
                gram[columns[p], columns[q]] += amounts[p] * amounts[q]


def outer_plainly(rows: Sequence[Sequence[tuple[int, float]]], size: int) -> list[list[float]]:
    """The sum of the outer products.

    >>> outer_plainly([[(0, 2.0), (1, 3.0)], [(1, 1.0)]], 2)
    [[4.0, 6.0], [6.0, 10.0]]
    """
    gram = [[0.0] * size for _ in range(size)]
    for row in rows:
        dense = [0.0] * size
        for column, amount in row:
            dense[column] += amount
        for i in range(size):
            for j in range(size):
                gram[i][j] += dense[i] * dense[j]
    return gram
