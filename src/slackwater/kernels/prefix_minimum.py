"""Interval labelling on a line: the cheapest regions to pull, in one pass with a tree of prefix minima.

Mathematics
    Regions 1..n have U(i), the cost of pushing region i, and P(j), what pulling it transfers. Query q touches the
    regions l_q..r_q and costs c_q once when one of them is pulled. With D(j) the least cost of everything that is
    decided when region j is pulled and those after it are not yet looked at,
        D(0) = 0,   D(j) = P(j) + min over i < j of  D(i) + U(i+1..j−1) + Σ {c_q : i < l_q ≤ j ≤ r_q},
    since between two neighbouring pulled regions i and j all are pushed, and the queries that j makes pay are those
    that hold j and do not reach back to i. Region n + 1, in no query, ends the line: D(n+1) is the least cost.

Design
    The terms of the minimum stand in a tree by i. Two of the three changes between j and j + 1 touch every i that is
    there: U(j), and the queries that begin at j. They are added to one number, `lifted`, and taken off what enters
    later. A query that ends takes its cost off all i < l_q, a prefix. A node holds the sum of the prefix additions that
    were filed below it and the least value below it,
        sum(n) = sum(left) + sum(right),    best(n) = min(best(right), best(left) + sum(right)),
    so that a prefix addition up to i is a change of one leaf and its O(log n) ancestors.

`pulled_plainly` evaluates the formula as it stands.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@compiled
def _climb(sums: Floats, best: Floats, node: int) -> None:
    """Bring the ancestors of a leaf up to date."""
    node >>= 1
    while node >= 1:
        left, right = 2 * node, 2 * node + 1
        sums[node] = sums[left] + sums[right]
        best[node] = min(best[right], best[left] + sums[right])
        node >>= 1


@compiled
def pulled(
    push: Floats, transfer: Floats, begins: Floats, first_ending: Integers, ending_at: Integers, costs: Floats
) -> Flags:
    """Which of the regions to pull.

    `begins[j]` is the cost of the queries that begin at region j. Queries are given in the order of their last region:
    those that end at region j are `first_ending[j]` to `first_ending[j + 1]`, `ending_at` is where each begins.
    """
    count = len(push)
    size = 1
    while size < count + 1:
        size *= 2
    sums, best = np.zeros(2 * size), np.full(2 * size, np.inf)
    before = np.empty(count + 1, np.int64)
    best[size] = 0.0  # nothing pulled yet: regions are numbered from 0 here, so leaf j + 1 stands for region j
    _climb(sums, best, size)
    lifted = 0.0
    for j in range(count + 1):
        if j < count:
            lifted += begins[j]
        node = 1
        while node < size:
            left, right = 2 * node, 2 * node + 1
            node = right if best[right] <= best[left] + sums[right] else left
        before[j] = node - size
        if j == count:
            break
        least = best[1] + lifted + transfer[j]
        for k in range(first_ending[j], first_ending[j + 1]):
            leaf = size + ending_at[k]
            sums[leaf] -= costs[k]
            best[leaf] -= costs[k]
            _climb(sums, best, leaf)
        lifted += push[j]
        best[size + j + 1] = least - lifted + sums[size + j + 1]
        _climb(sums, best, size + j + 1)
    answer = np.zeros(count, np.bool_)
    at = before[count]
    while at > 0:
        answer[at - 1] = True
        at = before[at - 1]
    return answer


def pulled_plainly(push: Floats, transfer: Floats, first: Integers, last: Integers, costs: Floats) -> Flags:
    """Which of the regions to pull, by the formula; query q touches the regions first[q] to last[q].

    >>> four = np.array([2.0, 1, 2, 2])
    >>> first, last = np.array([0, 0, 1, 1, 1, 3]), np.array([0, 2, 1, 1, 3, 3])
    >>> [bool(flag) for flag in pulled_plainly(four, np.zeros(4), first, last, np.ones(6))]
    [True, False, True, True]
    """
    count = len(push)
    least, before = [0.0], [0]
    for j in range(1, count + 2):
        options = []
        for i in range(j):
            paying = (first + 1 > i) & (first + 1 <= j) & (j <= last + 1)
            options.append(least[i] + float(push[i : j - 1].sum()) + float(costs[paying].sum()))
        before.append(int(np.argmin(options)))
        least.append(min(options) + (float(transfer[j - 1]) if j <= count else 0.0))
    answer = np.zeros(count, np.bool_)
    at = before[count + 1]
    while at > 0:
        answer[at - 1] = True
        at = before[at]
    return answer
