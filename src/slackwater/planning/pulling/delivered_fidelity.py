"""Delivered fidelity, estimated by interpolation between pulled values.

Between two pulls of an item its value is taken to lie on the line between them. So the error of a query at a tick is
known once all its items have been pulled again, which is after at most `longest` ticks: a tick is judged when it is
`longest` + 1 ticks past. Ticks at which something was not known (before the first pull, a source that was away) count
neither as kept nor as broken.
"""

import math
from collections.abc import Sequence
from typing import Any

UNKNOWN = math.nan


class InterpolatedErrors:
    """How far each held value was off, by the line, for the last ticks.

    >>> off = InterpolatedErrors(items=1, longest=4)
    >>> off.pulled(0, last=-1, now=0, change=0.0)
    >>> off.pulled(0, last=0, now=4, change=8.0)
    >>> [off.of(0, tick) for tick in range(5)]
    [0.0, 2.0, 4.0, 6.0, 0.0]
    """

    def __init__(self, items: int, longest: int) -> None:
        self.size = longest + 2
        self.delay = longest + 1
        self.ring = [[UNKNOWN] * self.size for _ in range(items)]

    def pulled(self, item: int, last: int, now: int, change: float) -> None:
        """Draw the line from the pull before; without one, only the tick of this pull is known."""
        row = self.ring[item]
        if last >= 0:
            for tick in range(max(last + 1, now - self.size + 1), now):
                row[tick % self.size] = change * (tick - last) / (now - last)
        row[now % self.size] = 0.0

    def of(self, item: int, tick: int) -> float:
        """How far the held value was off."""
        return self.ring[item][tick % self.size]

    def error(self, items: Sequence[int], weights: Sequence[float], tick: int) -> float:
        """The error of a weighted sum at a tick; not a number where it is not known."""
        total = 0.0
        for item, weight in zip(items, weights, strict=True):
            total += weight * self.ring[item][tick % self.size]
        return total

    def forget(self, tick: int) -> None:
        """Make room: this tick has been judged."""
        for row in self.ring:
            row[tick % self.size] = UNKNOWN

    def known(self) -> dict[str, Any]:
        """What a snapshot holds."""
        return {"ring": self.ring}

    def recall(self, known: dict[str, Any]) -> None:
        """Take over what a snapshot holds."""
        self.ring = known["ring"]
