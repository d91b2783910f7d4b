"""Water-filling: one bound shared out exactly, min Σ a_k/C_k^p with Σ C_k = C and C_k ≥ X_k.

Mathematics
    With b_k = a_k^(1/(p+1)), the conditions of Karush, Kuhn and Tucker say C_k = max(X_k, μ·b_k) for one water level
    μ: a part above its floor has p·a_k/C_k^(p+1) = λ, and one on its floor would gain less than λ by more. Parts reach
    their floors in the order of X_k/b_k, the largest first, so the ones that rest on them are the front of that
    order, and each front gives μ = (C − Σ_front X)/Σ_rest b. The first front whose μ reaches the next part's
    ratio is the answer: sorting is all the work there is.

    A part that costs nothing (a = 0) stays on its floor; where all do, what is left is shared out equally.

    Where Y_k ≤ X_k of a part's bound is *spent* before it counts, Σ a_k/(C_k − Y_k)^p is the same question about e_k =
    C_k − Y_k: e_k ≥ X_k − Y_k, and Σ e_k = C − Σ Y_k.

    Where a part costs no more than M_k whatever its bound, it may *resign*: have its floor and cost M_k, and leave the
    rest of the bound to others. Which parts do is tried out, all ways for up to `MOST_TRIED` of them. Of more the ones
    that rest on their floors first resign first, and only how many do is tried out.

`fill` and `share_out` are compiled and write into `shares`; `fill_plainly` and `share_out_plainly` are their twins
over Python values.
"""

import math
from collections.abc import Sequence
from itertools import chain, combinations

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

ROUNDING = 1e-12
"""Floors that exceed the bound by this much, relatively, fill it exactly."""
MOST_TRIED = 10
"""All ways in which so many parts may resign are 1024."""


@compiled
def fill(roots: Floats, floors: Floats, bound: float, shares: Floats) -> bool:
    """Write C_k for b = `roots` and X = `floors`; False, with nothing to use in `shares`, where the floors exceed C."""
    count = len(roots)
    level = bound
    below = 0.0
    for k in range(count):
        below += roots[k]
        level -= floors[k]
    if level < -ROUNDING * bound:
        return False
    if below <= 0.0:
        for k in range(count):
            shares[k] = floors[k] + max(level, 0.0) / count
        return True
    ratios = np.empty(count)
    for k in range(count):
        if roots[k] > 0.0:
            ratios[k] = -floors[k] / roots[k]
        else:
            ratios[k] = -np.inf
    order = np.argsort(ratios)
    # Summed from the end: taking a large root off the sum of all would cost the digits of the small ones.
    rest = np.zeros(count + 1)
    for place in range(count - 1, -1, -1):
        rest[place] = rest[place + 1] + roots[order[place]]
    left = bound
    water = 0.0
    front = count
    for place in range(count):
        k = order[place]
        if roots[k] > 0.0 and left >= -ratios[k] * rest[place]:
            water = left / rest[place]
            front = place
            break
        left -= floors[k]
    for place in range(count):
        k = order[place]
        shares[k] = floors[k] if place < front else max(floors[k], water * roots[k])
    return True


@compiled
def _fill_some(
    roots: Floats, floors: Floats, spent: Floats, most: Floats, resigned: Flags, power: float, bound: float, out: Floats
) -> float:
    """Write C_k where these parts resign; return the cost. The floors are known to fit."""
    count = 0
    left, least, total = bound, 0.0, 0.0
    own_roots, own_floors = np.empty(len(roots)), np.empty(len(roots))
    for k in range(len(roots)):
        if resigned[k]:
            out[k] = floors[k]
            left -= floors[k]
            total += most[k]
            continue
        own_roots[count] = roots[k]
        own_floors[count] = floors[k] - spent[k]
        left -= spent[k]
        least += own_floors[count]
        count += 1
    shares = np.empty(count)
    # Where the floors fill the bound, what is left may miss what they need by a rounding.
    if not fill(own_roots[:count], own_floors[:count], max(left, least), shares):
        return np.inf
    place = 0
    for k in range(len(roots)):
        if resigned[k]:
            continue
        out[k] = shares[place] + spent[k]
        if roots[k] > 0.0:
            total += roots[k] * (roots[k] / shares[place]) ** power if shares[place] > 0.0 else np.inf
        place += 1
    return total


@compiled
def share_out(
    roots: Floats, floors: Floats, spent: Floats, most: Floats, power: float, bound: float, shares: Floats
) -> float:
    """Write C_k for b = `roots`, X = `floors`, Y = `spent`, M = `most`; return the cost. It is negative, with nothing
    to use in `shares`, where the floors exceed C."""
    count = len(roots)
    taken = 0.0
    may = np.zeros(count, np.int64)
    trying = 0
    for k in range(count):
        taken += floors[k]
        if most[k] < np.inf and roots[k] > 0.0:
            may[trying] = k
            trying += 1
    if taken > bound * (1.0 + ROUNDING):
        return -1.0
    resigned = np.zeros(count, np.bool_)
    best = _fill_some(roots, floors, spent, most, resigned, power, bound, shares)
    tried = np.empty(count)
    if trying <= MOST_TRIED:
        for ways in range(1, 1 << trying):
            for nth in range(trying):
                resigned[may[nth]] = ways >> nth & 1
            cost = _fill_some(roots, floors, spent, most, resigned, power, bound, tried)
            if cost < best:
                best = cost
                shares[:] = tried
        return best
    order = np.argsort(-(floors[may[:trying]] - spent[may[:trying]]) / roots[may[:trying]])
    for nth in range(trying):
        resigned[may[order[nth]]] = True
        cost = _fill_some(roots, floors, spent, most, resigned, power, bound, tried)
        if cost < best:
            best = cost
            shares[:] = tried
    return best


def fill_plainly(roots: Sequence[float], floors: Sequence[float], bound: float) -> list[float] | None:
    """The shares, or None where the floors exceed the bound.

    >>> fill_plainly([1.0, 2.0, 1.0], [0.0, 0.0, 0.0], 8.0)
    [2.0, 4.0, 2.0]
    >>> fill_plainly([1.0, 2.0, 1.0], [0.0, 0.0, 5.0], 8.0)
    [1.0, 2.0, 5.0]
    """
    if sum(floors) > bound * (1 + ROUNDING):
        return None
    if sum(roots) <= 0:
        spare = max(bound - sum(floors), 0.0) / len(floors)
        return [floor + spare for floor in floors]
    resting = {k for k, root in enumerate(roots) if root <= 0}
    while True:
        free = [k for k in range(len(roots)) if k not in resting]
        if not free:
            return list(floors)
        water = (bound - sum(floors[k] for k in resting)) / sum(roots[k] for k in free)
        sunk = {k for k in free if floors[k] > water * roots[k]}
        if not sunk:
            return [floors[k] if k in resting else water * roots[k] for k in range(len(roots))]
        resting |= sunk


def share_out_plainly(
    roots: Sequence[float],
    floors: Sequence[float],
    spent: Sequence[float],
    most: Sequence[float],
    power: float,
    bound: float,
) -> tuple[float, list[float]] | None:
    """The cost and the shares, or None where the floors exceed the bound.

    >>> share_out_plainly([1.0, 1.0], [4.0, 0.0], [4.0, 0.0], [9.0, math.inf], power=2.0, bound=6.0)
    (2.0, [5.0, 1.0])
    >>> share_out_plainly([1.0, 1.0], [4.0, 0.0], [4.0, 0.0], [0.5, math.inf], power=2.0, bound=6.0)
    (0.75, [4.0, 2.0])
    """
    if sum(floors) > bound * (1 + ROUNDING):
        return None
    best: tuple[float, list[float]] = math.inf, list(floors)
    may = [k for k, limit in enumerate(most) if limit < math.inf and roots[k] > 0]
    for resigned in chain.from_iterable(combinations(may, size) for size in range(len(may) + 1)):
        stays = [k for k in range(len(roots)) if k not in resigned]
        least = [floors[k] - spent[k] for k in stays]
        left = bound - sum(floors[k] for k in resigned) - sum(spent[k] for k in stays)
        rest = fill_plainly([roots[k] for k in stays], least, max(left, sum(least))) if stays else []
        assert rest is not None
        cost = sum(most[k] for k in resigned)
        shares = list(floors)
        for k, share in zip(stays, rest, strict=True):
            shares[k] = share + spent[k]
            if roots[k] > 0:
                cost += roots[k] * (roots[k] / share) ** power if share > 0 else math.inf
        if cost < best[0]:
            best = cost, shares
    return best
