"""Total variation of each item: sumdiff R = Σ|sₜ − sₜ₋₁|, and related sums.

For what: the cost of keeping an item within a bound grows with R (messages ∝ R/C²), so R is what plans are made of.

The change across a seam is that from the earlier piece's last tick to the later one's first; it is a change like any
other, or a gap when the two are too far apart.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from slackwater.kernels import changes
from slackwater.statistics.peritem import PerItem, Records
from slackwater.statistics.rules import Floats, Integers, Rules
from slackwater.statistics.ticks import Ticks

_SUMS = ("weight", "elapsed", "sumdiff", "drift", "square", "gap_weight", "gap_elapsed", "gap_sumdiff")
_COLUMN = {
    "weight": changes.WEIGHT,
    "elapsed": changes.ELAPSED,
    "sumdiff": changes.SUMDIFF,
    "drift": changes.DRIFT,
    "square": changes.SQUARE,
    "gap_weight": changes.GAP_WEIGHT,
    "gap_elapsed": changes.GAP_ELAPSED,
    "gap_sumdiff": changes.GAP_SUMDIFF,
}


@dataclass(frozen=True, eq=False)
class MovementFigures:
    """The figures of each item; `weight` is the number of changes, faded. Gaps are in the `gap_…` figures only."""

    items: tuple[str, ...]
    ticks: Integers
    changes: Integers
    gaps: Integers
    weight: Floats
    sumdiff: Floats
    """R = Σ|change|."""
    drift: Floats
    """Σ change."""
    square: Floats
    """Σ change²."""
    largest: Floats
    """The largest |change| ever."""
    elapsed: Floats
    """Seconds under the changes."""
    gap_sumdiff: Floats
    """Σ|change| across gaps."""
    gap_elapsed: Floats
    """Seconds in gaps."""
    first_time: Integers
    first_value: Floats
    last_time: Integers
    last_value: Floats

    @property
    def per_tick(self) -> Floats:
        """Mean |change|: R for each change."""
        return ratio(self.sumdiff, self.weight)

    @property
    def per_second(self) -> Floats:
        """R for each second that changes took."""
        return ratio(self.sumdiff, self.elapsed)

    @property
    def mean_change(self) -> Floats:
        """Mean change."""
        return ratio(self.drift, self.weight)

    @property
    def deviation(self) -> Floats:
        """Standard deviation of a change."""
        centred = ratio(self.square, self.weight) - self.mean_change**2
        return np.sqrt(np.maximum(centred, 0.0))


def ratio(above: Floats, below: Floats) -> Floats:
    """The quotient, 0 where there is nothing to divide by."""
    return np.divide(above, below, out=np.zeros(np.shape(above)), where=below > 0)


class Movement(PerItem):
    """Sums over the changes of each item.

    >>> morning, evening = Movement(), Movement()
    >>> morning.update(Ticks.of(["IBM", "IBM"], [0, 1_000_000], [100.0, 103.0]))
    >>> evening.update(Ticks.of(["IBM", "IBM"], [2_000_000, 3_000_000], [101.0, 101.5]))
    >>> morning.merge(evening)
    >>> morning.value().sumdiff.tolist(), morning.value().per_second.tolist()
    ([5.5], [1.8333333333333333])
    """

    kind: ClassVar[str] = "movement"

    def __init__(self, rules: Rules | None = None) -> None:
        fields = [(name, np.float64) for name in (*_SUMS, "largest")]
        super().__init__(rules or Rules(), [("changes", np.int64), ("gaps", np.int64), *fields])

    def parameters(self) -> dict[str, Any]:
        """What the summary was made with."""
        return self.rules.parameters()

    def value(self) -> MovementFigures:
        """The figures."""
        items, records, faded = self._now()
        figures: dict[str, Any] = {
            **{name: records[name] * faded for name in ("weight", "sumdiff", "drift", "square", "gap_sumdiff")},
            **{name: records[name] * faded / 1e6 for name in ("elapsed", "gap_elapsed")},
            **{name: records[name] for name in ("first_time", "first_value", "last_time", "last_value")},
            **{name: records[name] for name in ("ticks", "changes", "gaps", "largest")},
        }
        return MovementFigures(items=items, **figures)

    def _summarise(self, batch: Ticks, records: Records) -> None:
        sums = np.zeros((len(records), changes.COLUMNS))
        changes.sum_changes(batch.starts, batch.times, batch.values, self.rules.gap, self.rules.half, sums)
        for name, column in _COLUMN.items():
            records[name] = sums[:, column]
        records["largest"] = sums[:, changes.LARGEST]
        records["changes"] = sums[:, changes.CHANGES]
        records["gaps"] = sums[:, changes.GAPS]

    def _join(self, earlier: Records, later: Records) -> Records:
        joined = later.copy()
        faded = self.rules.fading(later["last_time"] - earlier["last_time"])
        for name in _SUMS:
            joined[name] += faded * earlier[name]
        step = later["first_time"] - earlier["last_time"]
        change = later["first_value"] - earlier["last_value"]
        weight = self.rules.fading(later["last_time"] - later["first_time"])
        gap = step > self.rules.gap
        near, far = np.where(gap, 0.0, weight), np.where(gap, weight, 0.0)
        joined["weight"] += near
        joined["elapsed"] += near * step
        joined["sumdiff"] += near * np.abs(change)
        joined["drift"] += near * change
        joined["square"] += near * change**2
        joined["gap_weight"] += far
        joined["gap_elapsed"] += far * step
        joined["gap_sumdiff"] += far * np.abs(change)
        joined["changes"] += earlier["changes"] + ~gap
        joined["gaps"] += earlier["gaps"] + gap
        seam = np.where(gap, 0.0, np.abs(change))
        joined["largest"] = np.maximum(np.maximum(earlier["largest"], later["largest"]), seam)
        return joined
