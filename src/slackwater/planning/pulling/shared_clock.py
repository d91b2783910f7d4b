"""Shared stochastic clock: the current pace of all items' movement, relative to the usual one.

When one share jumps, others have probably moved too; at night all roads are quiet. So time is counted in units of
movement: tick k counts pace(k), and a variance grows with the sum of the paces since the pull. Each pull is evidence
on the ticks it looks back on: with z² the square it found over the square expected, their paces are multiplied by (ν
+ z²)/(ν + 1). That acts at once: the first pull that meets a jump makes all other items of the same tick uncertain. A
new tick's pace begins between the last one and 1.

It is used only where it earns it: the likelihoods of what pulls find, with the clock and without, are compared all
the time.

*Calibration.* By how much squares differ from what is expected, by the length of the interval (1, 2–3, 4–7, … ticks),
is learnt too and multiplied in: the models' growth of variance is corrected where data grow otherwise.
"""

import math
from typing import Any

from slackwater.planning.pulling.model_constants import (
    CALIBRATION,
    CLOCK_DISCOUNT,
    CLOCK_WORST,
    DEGREES,
    LEAST_PACE,
    MOST_PACE,
    MOST_SQUARE,
    MOST_STEP,
    RETURN,
    STAYING,
)

CLASSES = 64


def lag_class(ticks: int) -> int:
    """0 for one tick, 1 for 2 and 3, 2 for 4 to 7, and so on."""
    return max(ticks, 1).bit_length() - 1


class SharedClock:
    """Paces of the last ticks, and growth of variance by them."""

    def __init__(self, longest: int) -> None:
        self.size = longest + 2
        self.pace = [1.0] * self.size
        self.score = 0.0
        self.used = False
        self.calibrated = [1.0] * CLASSES
        self.powers = [[float(staying) ** t for t in range(self.size)] for staying in STAYING]
        self.growth = [[0.0] * self.size for _ in STAYING]
        self.paced = [[0.0] * self.size for _ in STAYING]
        for row, staying in zip(self.powers, STAYING, strict=True):
            for t in range(1, self.size):
                row[t] = row[t - 1] * float(staying)
        for powers, row in zip(self.powers, self.growth, strict=True):
            for t in range(1, self.size):
                row[t] = row[t - 1] + powers[t - 1] * powers[t - 1]

    def begin(self, now: int) -> None:
        """A tick begins."""
        if now > 0:
            self.pace[now % self.size] = 1.0 + RETURN * (self.pace[(now - 1) % self.size] - 1.0)
        self.used = self.score > 0.0

    def reckon(self, now: int) -> None:
        """Sum up the paces backwards from a tick."""
        for powers, row in zip(self.powers, self.paced, strict=True):
            for t in range(1, self.size):
                row[t] = row[t - 1] + powers[t - 1] * powers[t - 1] * self.pace[(now - t + 1) % self.size]

    def spread(self, kind: int, age: int) -> float:
        """What one unit of s² has become after so many ticks."""
        return self.paced[kind][age] if self.used else self.growth[kind][age]

    def calibration(self, age: int) -> float:
        """By how much variances over so many ticks are larger than expected."""
        return self.calibrated[lag_class(age)]

    def compare(self, age: int, missed: float, by_clock: float, by_tick: float) -> tuple[float, float]:
        """Weigh the clock against plain ticks by a square and the two variances; z² by the clock, z² as used."""
        self.score = CLOCK_DISCOUNT * self.score + (
            -0.5 * math.log(by_clock) - min(0.5 * missed / by_clock, CLOCK_WORST)
        )
        self.score -= -0.5 * math.log(by_tick) - min(0.5 * missed / by_tick, CLOCK_WORST)
        kind = lag_class(age)
        seen = missed / (by_clock if self.used else by_tick)
        self.calibrated[kind] += CALIBRATION * (min(seen, MOST_SQUARE) - self.calibrated[kind])
        return missed / by_clock / self.calibrated[kind], seen / self.calibrated[kind]

    def found(self, last: int, now: int, square: float) -> None:
        """A pull at `now` that looks back to `last` has found z²."""
        step = min((DEGREES + square) / (DEGREES + 1.0), MOST_STEP)
        for t in range(last + 1, now + 1):
            self.pace[t % self.size] = min(max(self.pace[t % self.size] * step, LEAST_PACE), MOST_PACE)

    def known(self) -> dict[str, Any]:
        """What a snapshot holds; `paced` is reckoned anew."""
        return {name: getattr(self, name) for name in ("pace", "score", "used", "calibrated", "paced")}

    def recall(self, known: dict[str, Any]) -> None:
        """Take over what a snapshot holds."""
        for name, value in known.items():
            setattr(self, name, value)
