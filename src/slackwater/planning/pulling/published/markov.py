"""Markov-chain predictor of an item's change since its last pull, with a correction.

States are changes per tick, −K·δ … 0 … +K·δ. A pull m ticks after the one before finds an average change per tick,
whose nearest state y (halves upwards, clamped to ±K) is the new state: C(x,y) += 1 and C(y,y) += m − 1, with x the
state of the pull before.

*Stepping.* After a pull the chain stands in that pull's state. Each tick adds the change of the state it stands in,
then takes a step: k ticks are k terms, the first of which is the state of the pull. In `draw` mode the step is drawn,
in the default mode the whole distribution is stepped and its mean is added.

*Prior.* Every row has `prior` transitions to the state 0 beside those counted, so that a state nothing is known about
is left at once.

*Correction.* dX ← λ·(AC − PC)/m + (1 − λ)·dX, with AC the actual change that a pull finds and PC what the chain alone
had predicted; it is added every tick. With `literal`, PC holds the corrections too: dX then settles at half of
what the chain misses.

References
    R. Gupta, A. Puri, K. Ramamritham, Executing incoherency bounded continuous queries at web data aggregators,
    WWW 2005, sections 2.1 to 2.3.
"""

import math
from dataclasses import dataclass
from typing import Any

from slackwater.core.errors import PlanningError


@dataclass(frozen=True, slots=True)
class ChainSettings:
    """What the paper leaves open, with defaults; `reach` is K, `smoothing` is λ."""

    reach: int = 10
    prior: float = 1.0
    smoothing: float = 0.8
    draw: bool = False
    literal: bool = False

    def __post_init__(self) -> None:
        if self.reach < 1 or not self.prior > 0 or not 0 <= self.smoothing <= 1:
            raise PlanningError("a chain has reach of 1 or more, a positive prior and smoothing from 0 to 1")


class MarkovModel:
    """One item's chain; `spacing` is δ.

    >>> model = MarkovModel(spacing=1.0)
    >>> model.pulled(2, 4.0)  # a change of 2 a tick, not predicted: dX becomes 0.8 · 2
    >>> model.tick()
    >>> round(model.change, 6)
    3.6
    """

    def __init__(self, spacing: float, settings: ChainSettings | None = None) -> None:
        if not 0 < spacing < math.inf:
            raise PlanningError(f"the spacing of a chain is positive, not {spacing}")
        self.settings = settings or ChainSettings()
        self.spacing = spacing
        size = 2 * self.settings.reach + 1
        self.counts = [[0.0] * size for _ in range(size)]
        self.state = self.settings.reach
        self.correction = 0.0
        self.chain = 0.0
        self.change = 0.0
        self.place = self.state
        self.weights = self._point()

    def tick(self, uniform: float = 0.0) -> None:
        """Let a tick pass; `uniform` is a number in [0, 1), used in draw mode."""
        reach, spacing = self.settings.reach, self.spacing
        if self.settings.draw:
            step = (self.place - reach) * spacing
            self.place = self._drawn(uniform)
        else:
            step = 0.0
            for state, weight in enumerate(self.weights):
                step += weight * (state - reach)
            step *= spacing
            self.weights = self._stepped()
        self.chain += step
        self.change += step + self.correction

    def pulled(self, ticks: int, change: float) -> None:
        """Learn from a pull: so many ticks after the last one, and by so much another value."""
        reach = self.settings.reach
        if ticks > 0:
            nearest = math.floor(change / ticks / self.spacing + 0.5)
            state = min(max(nearest, -reach), reach) + reach
            self.counts[self.state][state] += 1.0
            self.counts[state][state] += ticks - 1.0
            missed = change - (self.change if self.settings.literal else self.chain)
            smoothing = self.settings.smoothing
            self.correction = smoothing * missed / ticks + (1.0 - smoothing) * self.correction
            self.state = state
        self.place = self.state
        self.chain = 0.0
        self.change = 0.0
        self.weights = self._point()

    def known(self) -> dict[str, Any]:
        """What a snapshot holds."""
        names = ("counts", "state", "correction", "chain", "change", "place", "weights")
        return {name: getattr(self, name) for name in names}

    def recall(self, known: dict[str, Any]) -> None:
        """Take over what a snapshot holds."""
        for name, value in known.items():
            setattr(self, name, value)

    def _point(self) -> list[float]:
        weights = [0.0] * len(self.counts)
        weights[self.state] = 1.0
        return weights

    def _stepped(self) -> list[float]:
        reach, prior = self.settings.reach, self.settings.prior
        stepped = [0.0] * len(self.counts)
        for state, weight in enumerate(self.weights):
            if weight == 0.0:
                continue
            row = self.counts[state]
            total = prior
            for count in row:
                total += count
            share = weight / total
            for after, count in enumerate(row):
                stepped[after] += share * count
            stepped[reach] += share * prior
        return stepped

    def _drawn(self, uniform: float) -> int:
        row, prior, reach = self.counts[self.place], self.settings.prior, self.settings.reach
        total = prior
        for count in row:
            total += count
        left = uniform * total
        for state, count in enumerate(row):
            left -= count + (prior if state == reach else 0.0)
            if left < 0.0:
                return state
        return reach
