"""Counting sort: rows brought together by group, without comparisons.

`grouped` is a counting sort: two passes, stable, so rows of a group keep the order in which they came.
`grouped_plainly` is its twin over Python lists.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]


@compiled
def grouped(codes: Integers, starts: Integers, order: Integers) -> None:
    """Write to `order` the row numbers by group, and to `starts` (zeros, one more than groups) where groups begin."""
    for i in range(len(codes)):
        starts[codes[i] + 1] += 1
    for group in range(1, len(starts)):
        starts[group] += starts[group - 1]
    place = starts.copy()
    for i in range(len(codes)):
        code = codes[i]
        order[place[code]] = i
        place[code] += 1


def group(codes: Integers, groups: int) -> tuple[Integers, Integers]:
    """Row numbers in order of group, and where each of the groups 0..groups−1 begins in that order.

    >>> order, starts = group(np.array([1, 0, 1, 0]), 2)
    >>> order.tolist(), starts.tolist()
    ([1, 3, 0, 2], [0, 2, 4])
    """
    starts = np.zeros(groups + 1, np.int64)
    order = np.empty(len(codes), np.int64)
    grouped(codes, starts, order)
    return order, starts


def grouped_plainly(codes: list[int], groups: int) -> tuple[list[int], list[int]]:
    """The same with a list for each group.

    >>> grouped_plainly([1, 0, 1, 0], 2)
    ([1, 3, 0, 2], [0, 2, 4])
    """
    members: list[list[int]] = [[] for _ in range(groups)]
    for row, code in enumerate(codes):
        members[code].append(row)
    order = [row for rows in members for row in rows]
    starts = [0]
    for rows in members:
        starts.append(starts[-1] + len(rows))
    return order, starts
