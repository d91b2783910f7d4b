"""Rules shared by all summaries: the longest gap between ticks, and exponential decay by half-life.

*Gaps.* Two neighbouring updates of an item more than `longest_gap` apart (a night, a weekend, a source that was away)
do not make a change per tick: the change across is summed apart, chains and lagged pairs break there.

*Fading.* With a `half_life` h everything weighs 2^(−(T−t)/h), t its event time and T the time asked for. A summary
holds its sums as at its own last tick; a later piece is met by fading the earlier one to the later one's last tick.
That is exact whatever the cuts, because fading by a and then by b is fading by a+b.

A window needs no machinery: keep one piece for each hour or day and `combine` those inside the window.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.errors import StatisticsError

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

NEVER = 2**62
"""A gap that no two times are apart."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts as a gap and how fast the past fades, both in microseconds; None: no gaps, no fading.

    >>> Rules(half_life=10).fading(np.array([0, 10, 20])).tolist()
    [1.0, 0.5, 0.25]
    """

    longest_gap: int | None = None
    half_life: int | None = None

    def __post_init__(self) -> None:
        for name in ("longest_gap", "half_life"):
            value = getattr(self, name)
            if value is not None and not 0 < value < NEVER:
                raise StatisticsError(f"{name} must be a positive number of microseconds, but came {value}")

    @property
    def gap(self) -> int:
        """The longest gap, as a number in every case."""
        return NEVER if self.longest_gap is None else self.longest_gap

    @property
    def half(self) -> float:
        """The half-life for kernels: 0 where nothing fades."""
        return 0.0 if self.half_life is None else float(self.half_life)

    def fading(self, elapsed: Integers) -> Floats:
        """What is left of a weight of 1 after so many microseconds."""
        if self.half_life is None:
            return np.ones(elapsed.shape)
        faded: Floats = np.exp2(-elapsed / self.half_life)
        return faded

    def parameters(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"longest_gap": self.longest_gap, "half_life": self.half_life}
