"""Item prior: an item's movement by statistics learnt from its history, from which a model begins.

Statistics count updates, a scheduler counts ticks. An item that was updated every r ticks (on average; gaps apart)
has pairs of lag k that lie k·r ticks apart. From the pairs comes, for a model that keeps a share φ of its distance
from a level m after a tick, the mean square that it would have missed at lag k,

    missed(φ, k) = E(x' − m − φ^(kr)·(x − m))²,

its variance a tick s² = mean over k of missed(φ, k) / growth(φ, kr), with growth(φ, n) = Σ_{j<n} φ^(2j) continued to
fractions, and the log likelihood of the pairs, which scores the model.

A slope is believed where the sum of all changes is more than `CLEARLY` times what changes of that size, taken
at random, would add up to.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.errors import PlanningError
from slackwater.planning.pulling.loadings import loadings_of
from slackwater.statistics.chain import Chain
from slackwater.statistics.moments import MomentFigures
from slackwater.statistics.profile import Statistics

CLEARLY = 4.0
LEAST_CHANGES = 20
"""An item with fewer changes than these has no prior yet."""


@dataclass(frozen=True, slots=True)
class LaggedPairs:
    """Values so many ticks apart: means, variances and covariance of the two ends."""

    ticks: float
    weight: float
    before: float
    after: float
    before_variance: float
    after_variance: float
    covariance: float

    def missed(self, staying: float, level: float, slope: float = 0.0) -> float:
        """The mean square that a return to a level, or to a line of this slope, leaves unexplained.

        >>> walk = LaggedPairs(1.0, 99.0, 5.0, 5.0, 10.0, 10.0, 9.5)
        >>> walk.missed(1.0, 5.0), walk.missed(0.0, 5.0)
        (1.0, 10.0)
        """
        kept = math.pow(staying, self.ticks)
        spread = self.after_variance + kept * kept * self.before_variance - 2.0 * kept * self.covariance
        shift = self.after - level - slope * self.ticks - kept * (self.before - level)
        return max(spread, 0.0) + shift * shift


@dataclass(frozen=True, slots=True, eq=False)
class ItemPrior:
    """Movement of one item by its statistics, in ticks."""

    interval: float
    """Ticks from an update to the next."""
    changes: float
    level: float
    drift: float
    """The mean change a tick; 0 where it may be chance."""
    square: float
    """The mean square of the change from an update to the next."""
    pairs: tuple[LaggedPairs, ...]
    chain: Chain
    loading: float | None = None
    """How much of its movement is common to all items; None where pairs were left out."""

    def variance(self, staying: float, sloped: bool = False) -> float:
        """s² a tick of the model that keeps this share of a distance."""
        found = [self._missed(each, staying, sloped) / growth(staying, each.ticks) for each in self.pairs]
        return sum(found) / len(found)

    def likelihood(self, staying: float, sloped: bool = False) -> float:
        """The log likelihood of all changes under that model, on average over the lags."""
        unit = self.variance(staying, sloped)
        total = 0.0
        for each in self.pairs:
            expected = unit * growth(staying, each.ticks) + 1e-18 * self.level * self.level + 1e-200
            total -= 0.5 * math.log(expected) + 0.5 * self._missed(each, staying, sloped) / expected
        return self.changes * total / len(self.pairs)

    def _missed(self, pairs: LaggedPairs, staying: float, sloped: bool) -> float:
        if not (sloped and self.drift):
            return pairs.missed(staying, self.level)
        # Around a line nothing but steps is known: the variance of the values is mostly that of the line.
        return pairs.missed(1.0, self.level, self.drift)


def growth(staying: float, ticks: float) -> float:
    """Σ_{j<ticks} φ^(2j), also for parts of a tick.

    >>> growth(1.0, 2.5), growth(0.0, 3.0), growth(0.5, 2.0)
    (2.5, 1.0, 1.25)
    """
    return ticks if staying == 1.0 else (1.0 - math.pow(staying, 2.0 * ticks)) / (1.0 - staying * staying)


def priors_of(statistics: Statistics, tick: int, items: Collection[str] | None = None) -> Mapping[str, ItemPrior]:
    """Priors of every item, or of these, of which enough was seen; `tick` in microseconds."""
    if tick < 1:
        raise PlanningError(f"a tick is a positive number of microseconds, not {tick}")
    figures = statistics.value()
    movement, moments = figures.movement, figures.moments
    found: dict[str, ItemPrior] = {}
    for place, item in enumerate(figures.items):
        changes, elapsed = float(movement.weight[place]), 1e6 * float(movement.elapsed[place])
        if changes < LEAST_CHANGES or elapsed <= 0.0 or (items is not None and item not in items):
            continue
        interval = elapsed / changes / tick
        total, squares = float(movement.drift[place]), float(movement.square[place])
        drifts = total * total > CLEARLY * CLEARLY * squares
        found[item] = ItemPrior(
            interval,
            changes,
            float(moments.mean[place]),
            total / changes / interval if drifts else 0.0,
            squares / changes,
            _pairs(moments, place, interval),
            figures.markov.chains[place],
        )
    if figures.similarity is None:
        return found
    places = [figures.similarity.place(item) for item in found]
    loadings = loadings_of(figures.similarity.matrix()[np.ix_(places, places)])
    return {item: replace(prior, loading=beta) for (item, prior), beta in zip(found.items(), loadings, strict=True)}


def _pairs(moments: MomentFigures, place: int, interval: float) -> tuple[LaggedPairs, ...]:
    return tuple(
        LaggedPairs(
            (lag + 1) * interval,
            float(moments.pair_weight[place, lag]),
            float(moments.before_mean[place, lag]),
            float(moments.after_mean[place, lag]),
            float(moments.before_variance[place, lag]),
            float(moments.after_variance[place, lag]),
            float(moments.autocovariance[place, lag]),
        )
        for lag in range(moments.pair_weight.shape[1])
        if moments.pair_weight[place, lag] > 1.0
    )
