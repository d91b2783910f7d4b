"""Mean, variance and autocorrelation of each item's values; the AR(1) process that fits them.

For what: whether an item is a walk, a mean-reverting series or noise decides which prediction suits it, and joins
with little memory ask for the AR(1) parameters.

The pair of lag k is (x_{t−k}, x_t), k ticks apart with no gap between. Its figures are those of the pairs themselves:
each end has its own mean, and the autocorrelation is the correlation of the two ends. Pieces are put together with
Chan's formula; the pairs across a seam come from the values that both pieces keep at their ends.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from slackwater.core.errors import StatisticsError
from slackwater.kernels import lags as kernel
from slackwater.statistics.movement import ratio
from slackwater.statistics.peritem import PerItem, Records
from slackwater.statistics.rules import Floats, Integers, Rules
from slackwater.statistics.ticks import Ticks

MOST_LAGS = 64
RESOLUTION = 1e-13
"""A deviation below this share of the largest value is rounding: the item does not vary."""
UNEXPLAINED = 1e-12
"""A fit that leaves less than this share of the variance leaves nothing: the rest is rounding."""


@dataclass(frozen=True, eq=False)
class MomentFigures:
    """The figures of each item; those of lag k are in column k−1."""

    items: tuple[str, ...]
    ticks: Integers
    weight: Floats
    mean: Floats
    variance: Floats
    """Σw(x−mean)²/Σw."""
    low: Floats
    high: Floats
    pair_weight: Floats
    autocovariance: Floats
    autocorrelation: Floats
    """0 where an end does not vary."""
    before_mean: Floats
    after_mean: Floats
    before_variance: Floats
    after_variance: Floats
    """Means and variances of the two ends of the pairs."""
    coefficient: Floats
    """φ of X_t = φ·X_{t−1} + c + N(0, σ²), by least squares over the pairs of lag 1; 0 where X does not vary."""
    constant: Floats
    """c."""
    noise: Floats
    """σ."""


class Moments(PerItem):
    """Weighted moments of the values and of the pairs of lag 1..lags.

    >>> moments = Moments(lags=1)
    >>> moments.update(Ticks.of(["a"] * 4, [1, 2, 3, 4], [8.0, 4.0, 2.0, 1.0]))
    >>> figures = moments.value()
    >>> figures.mean.tolist(), figures.coefficient.tolist(), figures.noise.tolist()
    ([3.75], [0.5], [0.0])
    """

    kind: ClassVar[str] = "moments"

    def __init__(self, rules: Rules | None = None, lags: int = 4) -> None:
        if not 1 <= lags <= MOST_LAGS:
            raise StatisticsError(f"lags must be from 1 to {MOST_LAGS}, but came {lags}")
        self.lags = lags
        fields: list[tuple[Any, ...]] = [(name, np.float64) for name in ("weight", "mean", "centred", "low", "high")]
        fields += [("gaps", np.int64), ("head_length", np.int64), ("tail_length", np.int64)]
        fields += [("pairs", np.float64, (lags, 6)), ("head", np.float64, (lags,)), ("head_times", np.int64, (lags,))]
        super().__init__(rules or Rules(), [*fields, ("tail", np.float64, (lags,))])

    def parameters(self) -> dict[str, Any]:
        """What the summary was made with."""
        return {**self.rules.parameters(), "lags": self.lags}

    def value(self) -> MomentFigures:
        """The figures."""
        items, records, faded = self._now()
        weight, pairs = records["weight"], records["pairs"]
        total, before, after, bb, ba, aa = (pairs[:, :, column] for column in range(6))
        scale = np.maximum(np.abs(records["low"]), np.abs(records["high"]))[:, None]
        bb, aa = (np.where(ratio(end, total) > (RESOLUTION * scale) ** 2, end, 0.0) for end in (bb, aa))
        correlation = np.clip(ratio(ba, np.sqrt(bb) * np.sqrt(aa)), -1.0, 1.0)
        coefficient = ratio(ba[:, 0], bb[:, 0])
        left = aa[:, 0] - coefficient * ba[:, 0]
        noise = ratio(np.where(left > UNEXPLAINED * aa[:, 0], left, 0.0), total[:, 0])
        return MomentFigures(
            items=items,
            ticks=records["ticks"],
            weight=weight * faded,
            mean=records["mean"],
            variance=ratio(records["centred"], weight),
            low=records["low"],
            high=records["high"],
            pair_weight=total * faded[:, None],
            autocovariance=ratio(ba, total),
            autocorrelation=correlation,
            before_mean=before,
            after_mean=after,
            before_variance=ratio(bb, total),
            after_variance=ratio(aa, total),
            coefficient=coefficient,
            constant=after[:, 0] - coefficient * before[:, 0],
            noise=np.sqrt(noise),
        )

    def _summarise(self, batch: Ticks, records: Records) -> None:
        count, lags = len(records), self.lags
        sums, pairs = np.zeros((count, 5)), np.zeros((count, lags, 6))
        head, head_times, tail = np.zeros((count, lags)), np.zeros((count, lags), np.int64), np.zeros((count, lags))
        lengths = np.zeros((count, 3), np.int64)
        gap, half = self.rules.gap, self.rules.half
        kernel.sum_lags(
            batch.starts, batch.times, batch.values, gap, half, sums, pairs, head, head_times, tail, lengths
        )
        for column, name in enumerate(("weight", "mean", "centred", "low", "high")):
            records[name] = sums[:, column]
        for column, name in enumerate(("gaps", "head_length", "tail_length")):
            records[name] = lengths[:, column]
        records["pairs"], records["head"], records["head_times"], records["tail"] = pairs, head, head_times, tail

    def _join(self, earlier: Records, later: Records) -> Records:
        joined = later.copy()
        faded = self.rules.fading(later["last_time"] - earlier["last_time"])
        gap = later["first_time"] - earlier["last_time"] > self.rules.gap
        mine, theirs = earlier["weight"] * faded, later["weight"]
        apart = later["mean"] - earlier["mean"]
        share = ratio(theirs, mine + theirs)
        joined["weight"] = mine + theirs
        joined["mean"] = earlier["mean"] + share * apart
        joined["centred"] = earlier["centred"] * faded + later["centred"] + apart**2 * mine * share
        joined["low"] = np.minimum(earlier["low"], later["low"])
        joined["high"] = np.maximum(earlier["high"], later["high"])
        joined["gaps"] = earlier["gaps"] + later["gaps"] + gap
        for k in range(1, self.lags + 1):
            old = earlier["pairs"][:, k - 1].copy()
            old[:, [0, 3, 4, 5]] *= faded[:, None]
            seam = self._seam(earlier, later, gap, k)
            joined["pairs"][:, k - 1] = _together(_together(old, seam), later["pairs"][:, k - 1])
        self._ends(earlier, later, gap, joined)
        return joined

    def _seam(self, earlier: Records, later: Records, gap: Any, k: int) -> Floats:
        """The pairs of lag k with one end on each side."""
        j = np.arange(k)
        known = (k - 1 - j < earlier["tail_length"][:, None]) & (j < later["head_length"][:, None]) & ~gap[:, None]
        before, after = earlier["tail"][:, k - 1 - j], later["head"][:, j]
        weight = self.rules.fading(later["last_time"][:, None] - later["head_times"][:, j]) * known
        total = weight.sum(axis=1)
        # Means are taken from the first value on: of equal values the mean is then that value, to the last bit.
        mean_before, mean_after = (
            end[:, 0] + ratio((weight * (end - end[:, :1])).sum(axis=1), total) for end in (before, after)
        )
        off_before, off_after = before - mean_before[:, None], after - mean_after[:, None]
        products = ((off_before, off_before), (off_before, off_after), (off_after, off_after))
        return np.stack(
            [total, mean_before, mean_after, *((weight * one * other).sum(axis=1) for one, other in products)], axis=1
        )

    def _ends(self, earlier: Records, later: Records, gap: Any, joined: Records) -> None:
        """What the joined piece keeps at its front and at its end."""
        j = np.arange(self.lags)
        # A front that is not yet full and not yet broken grows by what follows; an end likewise by what came before.
        grows = (earlier["gaps"] == 0) & (earlier["ticks"] < self.lags) & ~gap
        length = earlier["head_length"]
        at = np.clip(j - length[:, None], 0, self.lags - 1)
        further = grows[:, None] & (j >= length[:, None])
        for name in ("head", "head_times"):
            joined[name] = np.where(further, np.take_along_axis(later[name], at, axis=1), earlier[name])
        joined["head_length"] = np.where(grows, np.minimum(self.lags, length + later["head_length"]), length)
        grows = (later["gaps"] == 0) & (later["ticks"] < self.lags) & ~gap
        length = later["tail_length"]
        at = np.clip(j - length[:, None], 0, self.lags - 1)
        further = grows[:, None] & (j >= length[:, None])
        joined["tail"] = np.where(further, np.take_along_axis(earlier["tail"], at, axis=1), later["tail"])
        joined["tail_length"] = np.where(grows, np.minimum(self.lags, length + earlier["tail_length"]), length)


def _together(one: Floats, other: Floats) -> Floats:
    """Chan's formula for two sets of pairs: weight, two means, three centred sums in each row."""
    weight = one[:, 0] + other[:, 0]
    share = ratio(other[:, 0], weight)
    before, after = other[:, 1] - one[:, 1], other[:, 2] - one[:, 2]
    spread = one[:, 0] * share
    return np.stack(
        [
            weight,
            one[:, 1] + share * before,
            one[:, 2] + share * after,
            one[:, 3] + other[:, 3] + before * before * spread,
            one[:, 4] + other[:, 4] + before * after * spread,
            one[:, 5] + other[:, 5] + after * after * spread,
        ],
        axis=1,
    )
