"""Item model: mean and variance of the change since the last pull, from a bank of autoregressive models.

Model e says that an item stands at a distance from a line and comes back: after τ ticks a share φ^τ of the distance is
left, and noise has added a variance of s²·Σ_{j<τ} φ^(2j). With φ = 1 that is a random walk, whose variance grows with
τ; with φ = 0 it is noise around the line, in which a held value that happens to be typical stays good for long. The
line is the mean of the pulled values, faded with a half-life; the second half of the models lets it have a slope.
None of them is preferred beforehand: each is scored by the likelihood of what pulls found, old
findings fading, and they are weighted by their scores.

s² follows the squares that a pull finds (divided by what one unit of s² would have given), so that a restless
time is noticed after a few pulls.

*Learning.* The first pulls come after 1, 2, 4, 8 and 16 ticks in turn: an item that is only seen from afar shows
nothing of how it moves in between.

*Looking back.* Between two pulls the model knows both ends: the bridge between them has a mean and a variance at
every tick, from which delivered fidelity is judged. A straight line would have no variance and flatter the scheduler.
"""

import math
from typing import Any

from slackwater.planning.pulling.model_constants import (
    DISCOUNT,
    HALF_LIFE,
    LEARNING_CYCLE,
    LEARNING_PULLS,
    LEAST_SPREAD,
    RATE,
    STAYING,
    TRUSTED,
    UNLIKELY,
    WORST,
)
from slackwater.planning.pulling.shared_clock import SharedClock

HALF = len(STAYING)
MODELS = 2 * HALF


class ItemModel:
    """What is known of one item; `number` shifts its learning so that items take turns."""

    def __init__(self, number: int, longest: int) -> None:
        self.number = number
        self.reach = longest + 1
        self.value = 0.0
        self.last = -1
        self.learnt = 0
        self.scale = [-1.0] * MODELS
        self.score = [0.0] * MODELS
        self.sums = [0.0] * 5
        self.surprise: float | None = None
        """How many deviations the last pull was off what was expected; None while too little is known."""

    def curious(self, age: int) -> bool:
        """True when the item is still being learnt and its next learning pull is due."""
        return self.learnt < LEARNING_PULLS and age >= 2 ** ((self.learnt + self.number) % LEARNING_CYCLE)

    def change(self, now: int, clock: SharedClock) -> tuple[float, float]:
        """Mean and variance of the change since the last pull."""
        age = min(now - self.last, self.reach)
        if self.last < 0 or age == 0 or self.learnt == 0:
            return 0.0, 0.0
        best = max(self.score)
        total, mean, square = 0.0, 0.0, 0.0
        for model in range(MODELS):
            likely = math.exp(self.score[model] - best)
            if likely < UNLIKELY:
                continue
            own = self._mean(model, age, clock)
            variance = self.scale[model] * clock.spread(model % HALF, age)
            total += likely
            mean += likely * own
            square += likely * (variance + own * own)
        mean /= total
        return mean, max(square / total - mean * mean, 0.0) * clock.calibration(age)

    def learn(self, now: int, new: float, clock: SharedClock) -> list[tuple[int, float, float]]:
        """Take a pulled value; return the bridge over the ticks since the last one: (tick, how far off, variance)."""
        past: list[tuple[int, float, float]] = []
        age = min(now - self.last, self.reach) if self.last >= 0 else 0
        if age > 0:
            self._score(now, age, new - self.value, clock)
            top = self.score.index(max(self.score))
            kind = top % HALF
            unit = max(self.scale[top], 0.0)
            if clock.used:
                unit *= clock.paced[kind][age] / clock.growth[kind][age]
            past += [
                self._bridge(top, unit, tick - now + age, age, new, clock, tick)
                for tick in range(max(self.last, now - self.reach) + 1, now)
            ]
        self._see(float(age), new)
        self.value, self.last = new, now
        past.append((now, 0.0, 0.0))
        return past

    def known(self) -> dict[str, Any]:
        """What a snapshot holds."""
        return {name: getattr(self, name) for name in ("value", "last", "learnt", "scale", "score", "sums")}

    def recall(self, known: dict[str, Any]) -> None:
        """Take over what a snapshot holds."""
        for name, value in known.items():
            setattr(self, name, value)

    def _line(self, model: int, after: float) -> float:
        """Where the line stands so many ticks after the last pull."""
        level = self.sums[3] / self.sums[0]
        if model < HALF:
            return level
        return level + self._slope() * (after - self.sums[1] / self.sums[0])

    def _slope(self) -> float:
        middle = self.sums[1] / self.sums[0]
        spread = self.sums[2] / self.sums[0] - middle * middle
        if spread <= LEAST_SPREAD:
            return 0.0
        return (self.sums[4] / self.sums[0] - middle * self.sums[3] / self.sums[0]) / spread

    def _mean(self, model: int, age: int, clock: SharedClock) -> float:
        then, there = self._line(model, 0.0), self._line(model, age)
        return there + clock.powers[model % HALF][age] * (self.value - then) - self.value

    def _score(self, now: int, age: int, change: float, clock: SharedClock) -> None:
        self.learnt += 1
        tiny = 1e-18 * self.value * self.value + 1e-200
        top = self.score.index(max(self.score))
        square = -1.0
        self.surprise = None
        for model in range(MODELS):
            kind = model % HALF
            off = change - self._mean(model, age, clock)
            missed = off * off
            spread = clock.spread(kind, age)
            if self.scale[model] < 0.0:
                self.scale[model] = missed / spread
                continue
            variance = self.scale[model] * spread + tiny
            if model == top and self.learnt > TRUSTED:
                by_clock = self.scale[model] * clock.paced[kind][age] + tiny
                by_tick = self.scale[model] * clock.growth[kind][age] + tiny
                square, seen = clock.compare(age, missed, by_clock, by_tick)
                self.surprise = math.copysign(math.sqrt(seen), off)
            self.score[model] = (
                DISCOUNT * self.score[model] - 0.5 * math.log(variance) - min(0.5 * missed / variance, WORST)
            )
            self.scale[model] += max(RATE, 1.0 / self.learnt) * (missed / spread - self.scale[model])
        if square >= 0.0:
            clock.found(max(self.last, now - self.reach), now, square)

    def _bridge(
        self, model: int, unit: float, before: int, age: int, new: float, clock: SharedClock, tick: int
    ) -> tuple[int, float, float]:
        after = age - before
        powers, growth = clock.powers[model % HALF], clock.growth[model % HALF]
        whole = growth[age]
        from_then = powers[before] * growth[after] / whole
        from_now = powers[after] * growth[before] / whole
        then, at, there = self._line(model, 0.0), self._line(model, before), self._line(model, age)
        off = at + from_then * (self.value - then) + from_now * (new - there) - self.value
        variance = unit * growth[before] * growth[after] / whole * clock.calibration(min(before, after))
        return tick, off, variance

    def _see(self, passed: float, new: float) -> None:
        """The line's sums, with the time of the newest value as the origin."""
        fade = 0.5 ** (passed / HALF_LIFE)
        s0, s1, s2, s3, s4 = (each * fade for each in self.sums)
        self.sums = [
            s0 + 1.0,
            s1 - passed * s0,
            s2 - 2.0 * passed * s1 + passed * passed * s0,
            s3 + new,
            s4 - passed * s3,
        ]
