"""Markov chain of changes: sparse transition counts, probabilities with a Dirichlet prior."""

from dataclasses import dataclass

import numpy as np

from slackwater.kernels import ternary_grid
from slackwater.statistics.rules import Floats, Integers


@dataclass(frozen=True, eq=False)
class Chain:
    """Transitions `before[i]` → `after[i]` with their weights, in order; state n is a change of n·spacing per tick.

    `level` is that of a spacing the item chose itself (3^level); `widest` the clamp of a spacing that was given.

    >>> chain = Chain(0.5, np.array([0, 0]), np.array([0, 2]), np.array([3.0, 1.0]))
    >>> states, shares = chain.probabilities(0, prior=0.0)
    >>> states.tolist(), shares.tolist(), chain.expected(0, prior=0.0)
    ([0, 2], [0.75, 0.25], 0.25)
    """

    spacing: float
    before: Integers
    after: Integers
    weights: Floats
    level: int | None = None
    widest: int | None = None

    @property
    def states(self) -> Integers:
        """The states that occur, in order."""
        return np.unique(np.concatenate([self.before, self.after]))

    def counts(self) -> dict[tuple[int, int], float]:
        """C(x,y) for every transition that occurs."""
        found = zip(self.before.tolist(), self.after.tolist(), self.weights.tolist(), strict=True)
        return {(before, after): weight for before, after, weight in found}

    def state(self, change: float) -> int:
        """The state of a change per tick."""
        if self.level is None:
            return int(ternary_grid.state_of(change, 0, self.spacing, self.widest or ternary_grid.HALF - 1))
        reach = (ternary_grid.HALF - 1) * self.spacing
        return int(ternary_grid.state_at(min(max(change, -reach), reach), self.level))

    def probabilities(self, state: int, prior: float = 1.0) -> tuple[Integers, Floats]:
        """p(state, y) for each state y that can follow: (C(state,y) + prior·π(y)) / (Σ_y C(state,y) + prior).

        π(y) is how often y is arrived at, from wherever. A row that was never seen is therefore π; so is every row in
        which little was seen, nearly. A chain in which nothing was seen stays at no change.
        """
        total = float(self.weights.sum())
        if total <= 0.0:
            return np.zeros(1, np.int64), np.ones(1)
        start, end = np.searchsorted(self.before, [state, state + 1])
        seen = float(self.weights[start:end].sum())
        weight = prior if seen > 0.0 else max(prior, 1.0)
        if weight == 0.0:
            return self.after[start:end], self.weights[start:end] / seen
        states, places = np.unique(self.after, return_inverse=True)
        shares = np.zeros(len(states))
        np.add.at(shares, places, self.weights * (weight / total))
        shares[np.searchsorted(states, self.after[start:end])] += self.weights[start:end]
        return states, shares / (seen + weight)

    def expected(self, state: int, prior: float = 1.0) -> float:
        """The expected change of the next tick."""
        states, shares = self.probabilities(state, prior)
        return float(states @ shares) * self.spacing
