"""Optimal set partition: the cheapest cut of a set into parts that share one bound, by DP and branch and bound.

A set of n items is a number of n bits. Part S has a root b_S = a_S^(1/(p+1)) and a floor X_S, infinite where no
aggregator has all of S. Of its bound C_S ≥ X_S a part may have Y_S ≤ X_S *spent* before anything is left to count with:
it costs a/e^p with e = C_S − Y_S, and no more than M_S. Wanted is the partition with the least cost when the bound C =
1 is shared out as well as it can be (`waterfilling.share_out`). Plans in which aggregators know the truth have Y = 0
and infinite M.

Mathematics
    *No floor binds.* Water-filling then costs (Σ b)^(p+1)/C^p, so the partition with the least Σ b is best, and
    Σ b is minimised by a programme over subsets: f(S) = min over the parts T of S that hold S's lowest item of b_T +
    f(S − T), 3ⁿ/2 steps in all. It bounds every partition from below, floors or not, so when its own partition rests
    on no floor and has nothing spent the work is done.

    *Floors bind.* Put a price λ on the bound: g_S(λ) = min_{e ≥ X_S − Y_S} a_S/e^p + λ·(e + Y_S), reached at e =
    max(X_S − Y_S, b_S·(p/λ)^(1/(p+1))), or M_S + λ·X_S where that is less. For every λ and every partition, Σ g_S(λ) −
    λ·C is at most the partition's cost, because the best shares of the bound are among those, and they add up to no
    more than C. The same programme over subsets, with g for b, minimises that over all partitions at once. The λ with
    the largest such minimum is found by halving: where the minimising shares add up to more than C, λ is too small.
    The partitions met on the way are candidates.

    *The search.* Parts are chosen in turn, each holding the lowest item that is left. The programme's value for the
    rest bounds every completion from below, at a few prices around the best one; a branch that cannot get below the
    best candidate is cut, and so is one whose floors cannot fit. What remains is the optimum.

`partition_sums` has the programme, with its twin, and `partition_prices` the halving. The twin of the whole is the look
at every partition in `planning.aggregation.exhaustive`.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled
from slackwater.kernels.partition_prices import best_price, price_parts, shared_cost
from slackwater.kernels.partition_sums import follow_choices, lowest_sum
from slackwater.kernels.waterfilling import ROUNDING

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_PRICES = (0.35, 0.6, 0.8, 0.92, 1.0, 1.1, 1.3, 1.8, 3.0)
"""Prices for the search, relative to the best one: a branch with costly parts has its own best price near by."""


@compiled
def search_branches(
    roots: Floats,
    floors: Floats,
    spent: Floats,
    most: Floats,
    power: float,
    least: Floats,
    price: float,
    best: Integers,
    best_count: int,
    best_cost: float,
) -> tuple[int, int]:
    """Write the parts of the cheapest partition to `best`, given a candidate; return how many, and the branches.

    `least` is the least that the floors of each set can add up to.
    """
    size, tables = len(best), len(_PRICES)
    whole = (1 << size) - 1
    choices = np.zeros(whole + 1, np.int64)
    parts = np.zeros(size, np.int64)
    prices = np.empty(tables)
    priced = np.empty((tables, whole + 1))
    rests = np.empty((tables, whole + 1))
    for j in range(tables):
        prices[j] = price * _PRICES[j]
        price_parts(roots, floors, spent, most, power, prices[j], priced[j])
        lowest_sum(priced[j], rests[j], choices)

    branches = 0
    paid = np.zeros((size + 1, tables))
    paid[0] = -prices
    rested = np.zeros(size + 1)
    left, some = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
    left[0] = whole
    some[0] = whole ^ 1
    level = 0
    while level >= 0:
        if some[level] < 0:
            level -= 1
            continue
        low = left[level] & -left[level]
        others = left[level] ^ low
        part = low | some[level]
        some[level] = (some[level] - 1) & others if some[level] > 0 else -1
        branches += 1
        rest = left[level] ^ part
        if not rested[level] + floors[part] + least[rest] <= 1.0 + ROUNDING:
            continue
        hopeless = False
        for j in range(tables):
            if paid[level, j] + priced[j, part] + rests[j, rest] >= best_cost * (1.0 - ROUNDING):
                hopeless = True
                break
        if hopeless:
            continue
        parts[level] = part
        if rest == 0:
            cost = shared_cost(parts, level + 1, roots, floors, spent, most, power)
            if cost >= 0.0 and cost < best_cost:
                best_cost, best_count = cost, level + 1
                best[: level + 1] = parts[: level + 1]
            continue
        for j in range(tables):
            paid[level + 1, j] = paid[level, j] + priced[j, part]
        rested[level + 1] = rested[level] + floors[part]
        level += 1
        left[level] = rest
        some[level] = rest ^ (rest & -rest)
    return best_count, branches


@compiled
def best_partition(
    roots: Floats, floors: Floats, spent: Floats, most: Floats, power: float, best: Integers
) -> tuple[int, int]:
    """Write the parts of the cheapest partition at bound 1 to `best`; return how many, and the branches looked at.

    0 parts: no partition is feasible. 0 branches: a lower bound was met without a search.
    """
    size = len(best)
    whole = (1 << size) - 1
    values, sums = np.empty(whole + 1), np.empty(whole + 1)
    choices = np.zeros(whole + 1, np.int64)
    parts = np.zeros(size, np.int64)
    # The least that the floors of a set can add up to: each item where it is held most closely.
    least = np.zeros(whole + 1)
    for part in range(1, whole + 1):
        low = part & -part
        least[part] = least[part ^ low] + floors[low]
    if not least[whole] <= 1.0 + ROUNDING:
        return 0, 0
    for k in range(size):
        best[k] = 1 << k
    best_count = size
    best_cost = shared_cost(best, size, roots, floors, spent, most, power)

    for part in range(1, whole + 1):
        values[part] = roots[part] if floors[part] < np.inf else np.inf
    lowest_sum(values, sums, choices)
    count = follow_choices(choices, whole, parts)
    cost = shared_cost(parts, count, roots, floors, spent, most, power)
    if cost >= 0.0:
        if cost < best_cost:
            best_cost, best_count = cost, count
            best[:] = parts
        if cost <= sums[whole] ** (power + 1.0) * (1.0 + ROUNDING):
            return count, 0

    best_count, best_cost, price, proven = best_price(
        roots, floors, spent, most, power, sums[whole], best, best_count, best_cost
    )
    if proven:
        return best_count, 0
    return search_branches(roots, floors, spent, most, power, least, price, best, best_count, best_cost)
