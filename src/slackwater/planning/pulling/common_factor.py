"""One-factor correlation model: items that move together, as shares do with their market.

Item i has a loading βᵢ on one movement that all share, so that surprises of i and j over the same time are correlated
by βᵢ·βⱼ. A sum of related items moves more than its items taken apart, and a difference less: without this the risk of
a portfolio is estimated far too small.

*Now.* Of two items pulled aᵢ ≤ aⱼ ticks ago only the last aᵢ ticks are unknown in both. For walks the covariance is
βᵢβⱼ·σᵢσⱼ·√(aᵢ/aⱼ), with σ the deviation of each since its own pull; the same is taken for other models.

*Looking back.* Between its pulls, L ticks after one and R before the next, a walk is a bridge; two bridges have
the correlation

    (RᵢRⱼ·min(Lᵢ, Lⱼ) + LᵢLⱼ·min(Rᵢ, Rⱼ)) / √(LᵢRᵢ(Lᵢ + Rᵢ)·LⱼRⱼ(Lⱼ + Rⱼ))

times βᵢβⱼ.

*Learning.* A pull's surprise z (in deviations) is compared with the last one of every other item whose interval
overlaps with its own by a share o: z·z′ should be ββ′·o, and both loadings take a small step towards that. Unrelated
items end near 0.
"""

import math
from collections.abc import Sequence
from typing import Any

from slackwater.planning.pulling.model_constants import (
    FIRST_LOADING,
    LARGEST_LOADING,
    LARGEST_SURPRISE,
    LEAST_OVERLAP,
    LOADING_STEP,
)


def likeness(before: float, after: float, before_other: float, after_other: float) -> float:
    """How alike two bridges are at a tick between their ends, for walks that move as one.

    >>> round(likeness(2.0, 3.0, 2.0, 3.0), 6)
    1.0
    """
    both = after * after_other * min(before, before_other) + before * before_other * min(after, after_other)
    alone = before * after * (before + after) * before_other * after_other * (before_other + after_other)
    return both / math.sqrt(alone)


def overlap(root: float, other: float) -> float:
    """√(aᵢ/aⱼ) of the roots of two ages, the smaller over the larger.

    >>> overlap(2.0, 1.0)
    0.5
    """
    return root / other if root < other else other / root


class CommonFactor:
    """The loadings of all items, and the last surprise of each."""

    def __init__(self, items: int) -> None:
        self.loading = [FIRST_LOADING] * items
        self.surprise = [0.0] * items
        self.since = [-1] * items
        self.until = [-1] * items

    def learn(self, item: int, since: int, until: int, surprise: float) -> None:
        """A pull at `until` that looks back to `since` has found so many deviations."""
        found = min(max(surprise, -LARGEST_SURPRISE), LARGEST_SURPRISE)
        loading = self.loading
        for other in range(len(loading)):
            if other == item or self.since[other] < 0:
                continue
            both = min(until, self.until[other]) - max(since, self.since[other])
            if both <= 0:
                continue
            share = both / math.sqrt(float((until - since) * (self.until[other] - self.since[other])))
            if share < LEAST_OVERLAP:
                continue
            miss = found * self.surprise[other] - loading[item] * loading[other] * share
            mine = loading[item] + LOADING_STEP * miss * loading[other] * share
            theirs = loading[other] + LOADING_STEP * miss * loading[item] * share
            loading[item] = min(max(mine, -LARGEST_LOADING), LARGEST_LOADING)
            loading[other] = min(max(theirs, -LARGEST_LOADING), LARGEST_LOADING)
        self.surprise[item], self.since[item], self.until[item] = found, since, until

    def known(self) -> dict[str, Any]:
        """What a snapshot holds."""
        return {name: getattr(self, name) for name in ("loading", "surprise", "since", "until")}

    def recall(self, known: dict[str, Any]) -> None:
        """Take over what a snapshot holds."""
        for name, value in known.items():
            setattr(self, name, value)


class Known:
    """What is known of all items in one round: mean and variance of each change, and what of it is shared."""

    def __init__(self, items: int) -> None:
        self.mean = [0.0] * items
        self.variance = [0.0] * items
        self.root = [0.0] * items
        self.common = [0.0] * items

    def put(self, item: int, mean: float, variance: float, age: int, loading: float) -> None:
        """An item that was pulled `age` ticks ago."""
        self.mean[item], self.variance[item] = mean, variance
        self.root[item] = math.sqrt(float(age))
        self.common[item] = loading * math.sqrt(variance)

    def refresh(self, item: int) -> None:
        """An item that is taken as just pulled."""
        self.mean[item] = self.variance[item] = self.common[item] = 0.0

    def total(self, items: Sequence[int], weights: Sequence[float]) -> tuple[float, float]:
        """Mean and variance of a weighted sum."""
        mean, variance = 0.0, 0.0
        for item, weight in zip(items, weights, strict=True):
            mean += weight * self.mean[item]
            variance += weight * weight * self.variance[item]
        for place, item in enumerate(items):
            if self.common[item] == 0.0:
                continue
            for before in range(place):
                other = items[before]
                if self.common[other] == 0.0:
                    continue
                related = overlap(self.root[item], self.root[other])
                pair = 2.0 * weights[place] * weights[before] * self.common[item] * self.common[other]
                variance += pair * related
        return mean, max(variance, 0.0)

    def part(self, item: int, items: Sequence[int], weights: Sequence[float], weight: float) -> float:
        """What of the sum's variance goes when the item is fresh."""
        own = weight * weight * self.variance[item]
        if self.common[item] == 0.0:
            return own
        total = 0.0
        for other, its_weight in zip(items, weights, strict=True):
            if other != item and self.common[other] != 0.0:
                total += its_weight * self.common[other] * overlap(self.root[item], self.root[other])
        return own + 2.0 * weight * (total * self.common[item])
