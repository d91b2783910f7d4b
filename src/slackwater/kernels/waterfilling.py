"""Sharing out one bound: minimise Σ a_k/C_k^p with Σ C_k = C and C_k ≥ X_k, exactly.

Mathematics
    With b_k = a_k^(1/(p+1)), the conditions of Karush, Kuhn and Tucker say C_k = max(X_k, μ·b_k) for one water level
    μ: a part above its floor has p·a_k/C_k^(p+1) = λ, and one on its floor would gain less than λ by more. Parts reach
    their floors in the order of X_k/b_k, the largest first, so the ones that rest on them are the front of that
    order, and each front gives μ = (C − Σ_front X)/Σ_rest b. The first front whose μ reaches the next part's
    ratio is the answer: sorting is all the work there is.

    A part that costs nothing (a = 0) stays on its floor; where all do, what is left is shared out equally.

`fill` is compiled and writes into `shares`; `fill_plainly` is its twin over Python values.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.kernels.compiled import compiled

Floats = npt.NDArray[np.float64]

ROUNDING = 1e-12
"""Floors that exceed the bound by this much, relatively, fill it exactly."""


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
