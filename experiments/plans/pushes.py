"""Push count: messages of a value that is sent whenever it leaves a bound around the value last sent.

The first value is what a subscription begins with and counts as no message.

`count_pushes` is compiled, `count_pushes_plainly` is its twin over Python values; `pushed` gives what the receiver
holds at each moment, and `pushed_plainly` is its twin.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Floats = npt.NDArray[np.float64]


@compiled
def count_pushes(values: Floats, within: float) -> int:
    """Count the messages of one series."""
    sent = values[0]
    count = 0
    for value in values:
        if abs(value - sent) > within:
            sent = value
            count += 1
    return count


def count_pushes_plainly(values: Sequence[float], within: float) -> int:
    """Count the messages of one series.

    >>> count_pushes_plainly([0.0, 1.0, 2.0, 3.5, 3.0, 1.0], within=2.0)
    2
    """
    sent, *rest = values
    moments = []
    for moment, value in enumerate(rest):
        if abs(value - sent) > within:
            sent = value
            moments.append(moment)
    return len(moments)


@compiled
def pushed(values: Floats, within: float) -> Floats:
    """What the receiver holds after each value of one series."""
    held = np.empty_like(values)
    sent = values[0]
    for place, value in enumerate(values):
        if abs(value - sent) > within:
            sent = value
        held[place] = sent
    return held


def pushed_plainly(values: Sequence[float], within: float) -> list[float]:
    """What the receiver holds after each value of one series.

    >>> pushed_plainly([0.0, 1.0, 2.0, 3.5, 3.0, 1.0], within=2.0)
    [0.0, 0.0, 0.0, 3.5, 3.5, 1.0]
    """
    held: list[float] = []
    for value in values:
        held.append(held[-1] if held and abs(value - held[-1]) <= within else value)
    return held
