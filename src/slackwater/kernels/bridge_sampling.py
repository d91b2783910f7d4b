"""Brownian-bridge sampling: random values of an item between its pulls."""

import math

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@compiled
def spread(staying: float, ticks: int) -> float:
    """What one unit of variance a tick has become after so many: Σ_{j<ticks} φ^(2j).

    >>> spread(1.0, 3), spread(0.0, 3), spread(0.5, 2)
    (3.0, 1.0, 1.25)
    """
    if staying == 1.0:
        return float(ticks)
    return float((1.0 - staying ** (2 * ticks)) / (1.0 - staying * staying))


@compiled
def bridge(
    ticks: Integers,
    values: Floats,
    staying: float,
    variance: float,
    level: float,
    slope: float,
    noise: Floats,
    filled: Floats,
) -> None:
    """Fill in the ticks from the first pull to the last; `filled[k]` is the value k ticks after the first.

    Distances from the line (at the last pull it stands at `level`) keep a share `staying` a tick and get `variance`.
    A step is drawn given the value before and the next pull, so all steps together are a draw of the bridge;
    `noise[k]` is the standard normal number for tick k, and with zeros the bridge's mean comes out.
    """
    last = ticks[-1]
    filled[0] = values[0]
    for pull in range(1, len(ticks)):
        target = values[pull] - level - slope * (ticks[pull] - last)
        place = ticks[pull - 1] - ticks[0]
        off = values[pull - 1] - level - slope * (ticks[pull - 1] - last)
        for tick in range(ticks[pull - 1] + 1, ticks[pull]):
            after = ticks[pull] - tick
            whole = spread(staying, after + 1)
            rest = spread(staying, after)
            place += 1
            off = (staying * rest * off + staying**after * target) / whole
            off += math.sqrt(variance * rest / whole) * noise[place]
            filled[place] = level + slope * (tick - last) + off
        filled[ticks[pull] - ticks[0]] = values[pull]
