"""Rate meter: rates of monotonic counters, sampled once a second."""

import time
from collections import deque

WINDOW = 10
"""Seconds over which a rate is taken."""


class Rates:
    """Rates over the last seconds."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._noted: deque[tuple[float, dict[str, int]]] = deque(maxlen=WINDOW + 1)

    @property
    def uptime(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def note(self, **counters: int) -> None:
        """Write the counters down."""
        self._noted.append((time.monotonic(), counters))

    def rate(self, name: str) -> float:
        """By how much a counter rises in a second."""
        if len(self._noted) < 2:
            return 0.0
        (then, old), (now, new) = self._noted[0], self._noted[-1]
        return (new[name] - old[name]) / max(now - then, 1e-9)
