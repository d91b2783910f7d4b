"""Subset tables: values for all subsets of the items of one query; item i of a subset is bit i of its number.

`quadratic` gives Σ_{i,j∈S} M_ij for every S: the pair sums of a cost model. `least_total` gives for every S the
least Σ_{i∈S} F_di over the rows d that have all of S, and which row that is: an item that a row does not have is
infinite there. Each value of a table is made of that of a smaller subset, so a table takes a step or n for each entry.

The compiled functions have twins over Python values that look at one subset.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@compiled
def quadratic(matrix: Floats, table: Floats) -> None:
    """Write Σ_{i,j∈S} `matrix`[i, j] of a symmetric matrix to `table`[S]."""
    size = len(matrix)
    table[0] = 0.0
    for top in range(size):
        base = 1 << top
        for rest in range(base):
            total = table[rest] + matrix[top, top]
            for other in range(top):
                if rest >> other & 1:
                    total += 2.0 * matrix[top, other]
            table[base + rest] = total


@compiled
def least_total(rows: Floats, totals: Floats, which: Integers) -> None:
    """Write the least total of each subset and the first row that has it; infinite and −1 where none has all."""
    count, size = rows.shape
    totals[:] = np.inf
    which[:] = -1
    sums = np.zeros(1 << size)
    for row in range(count):
        for top in range(size):
            base = 1 << top
            for rest in range(base):
                total = sums[rest] + rows[row, top]
                sums[base + rest] = total
                if total < totals[base + rest]:
                    totals[base + rest] = total
                    which[base + rest] = row


def quadratic_plainly(matrix: Sequence[Sequence[float]], members: Sequence[int]) -> float:
    """The sum over all ordered pairs of the members.

    >>> quadratic_plainly([[1.0, 0.5], [0.5, 4.0]], [0, 1])
    6.0
    """
    return float(sum(matrix[i][j] for i in members for j in members))


def least_total_plainly(rows: Sequence[Sequence[float]], members: Sequence[int]) -> tuple[float, int]:
    """The least total of the members over the rows, and the first row that has it.

    >>> least_total_plainly([[1.0, float("inf")], [2.0, 3.0]], [0, 1])
    (5.0, 1)
    """
    totals = [float(sum(row[i] for i in members)) for row in rows]
    least = min(totals, default=float("inf"))
    return (least, totals.index(least)) if least < float("inf") else (least, -1)
