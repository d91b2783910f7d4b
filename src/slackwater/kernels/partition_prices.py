"""Partition prices: lower bounds of a set partition's cost from a price on the bound, as of a Lagrange multiplier.

The mathematics stand in `partitions`.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled
from slackwater.kernels.partition_sums import follow_choices, lowest_sum
from slackwater.kernels.waterfilling import ROUNDING, share_out

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_HALVINGS = 14
"""After these the price is known to a few parts in a hundred thousand of its bracket; the search does the rest."""


@compiled
def shared_cost(
    parts: Integers, count: int, roots: Floats, floors: Floats, spent: Floats, most: Floats, power: float
) -> float:
    """The cost of a partition when the bound is shared out; negative where the floors do not fit."""
    own = parts[:count]
    return share_out(roots[own], floors[own], spent[own], most[own], power, 1.0, np.empty(count))


@compiled
def price_parts(
    roots: Floats, floors: Floats, spent: Floats, most: Floats, power: float, price: float, values: Floats
) -> None:
    """Write g_S(λ) of every part."""
    wish = (power / price) ** (1.0 / (power + 1.0))
    for part in range(1, len(roots)):
        if floors[part] == np.inf:
            values[part] = np.inf
            continue
        share = max(floors[part] - spent[part], wish * roots[part])
        values[part] = price * (share + spent[part])
        if roots[part] > 0.0:
            values[part] += roots[part] * (roots[part] / share) ** power
        values[part] = min(values[part], most[part] + price * floors[part])
    values[0] = 0.0


@compiled
def best_price(
    roots: Floats,
    floors: Floats,
    spent: Floats,
    most: Floats,
    power: float,
    loose: float,
    best: Integers,
    best_count: int,
    best_cost: float,
) -> tuple[int, float, float, bool]:
    """Find the price with the strongest lower bound; write the cheapest partition met on the way to `best`.

    `loose` is the least Σ b. Returns the parts of `best` and their cost, the price, and whether its bound proves them
    the cheapest.
    """
    whole = len(roots) - 1
    values, sums = np.empty(whole + 1), np.empty(whole + 1)
    choices = np.zeros(whole + 1, np.int64)
    parts = np.zeros(len(best), np.int64)
    # No price below that of the loose programme can be better.
    lower = max(power * loose ** (power + 1.0), 1e-30)
    upper = 0.0
    price = lower
    strongest, strongest_price = -np.inf, lower
    for step in range(_HALVINGS + 80):
        price_parts(roots, floors, spent, most, power, price, values)
        lowest_sum(values, sums, choices)
        count = follow_choices(choices, whole, parts)
        if sums[whole] - price > strongest:
            strongest, strongest_price = sums[whole] - price, price
        cost = shared_cost(parts, count, roots, floors, spent, most, power)
        if cost >= 0.0 and cost < best_cost:
            best_cost, best_count = cost, count
            best[:] = parts
        if strongest >= best_cost * (1.0 - ROUNDING):
            return best_count, best_cost, strongest_price, True
        wish = (power / price) ** (1.0 / (power + 1.0))
        used = 0.0
        for k in range(count):
            part = parts[k]
            share = max(floors[part], wish * roots[part] + spent[part])
            resigned = most[part] + price * floors[part]
            used += floors[part] if resigned <= values[part] else share
        if used > 1.0:
            lower = price
            if upper == 0.0 and price > 1e30:
                break
        else:
            upper = price
        if upper == 0.0:
            price = lower * 4.0
        elif step > _HALVINGS + 4 or upper / lower < 1.0001:
            break
        else:
            price = (lower * upper) ** 0.5
    return best_count, best_cost, strongest_price, False
