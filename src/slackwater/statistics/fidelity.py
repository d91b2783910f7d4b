"""Fidelity: the share of time, and of ticks, in which the error was within the bound.

For what: `FIDELITY f` allows a share 1 − f outside; the delivered fidelity controls how often sources are pulled.

An observation says at a moment whether the error is within the bound, and holds until the next one. The time between
two observations counts as the earlier one; across a gap nothing is known and nothing counts. Across a seam
the earlier piece's last observation holds until the later one's first.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from slackwater.core.errors import StatisticsError
from slackwater.statistics.movement import ratio
from slackwater.statistics.peritem import PerItem, Records
from slackwater.statistics.rules import Floats, Integers, Rules
from slackwater.statistics.ticks import Column, Ticks, grouped_columns

_SUMS = ("weight", "within", "seconds", "seconds_within", "gap_seconds")


def observations(queries: Column, times: Column, errors: Column, bounds: Column) -> Ticks:
    """Ticks of 1 where |error| ≤ bound and 0 elsewhere, for each query.

    >>> observations(["q", "q"], [1, 2], [-3.0, 2.0], [2.5, 2.5]).values.tolist()
    [0.0, 1.0]
    """
    names, starts, ordered, (error, bound) = grouped_columns(queries, times, [errors, bounds])
    return Ticks(names, starts, ordered, (np.abs(error) <= bound).astype(np.float64))


@dataclass(frozen=True, eq=False)
class FidelityFigures:
    """The figures of each query."""

    items: tuple[str, ...]
    ticks: Integers
    weight: Floats
    by_tick: Floats
    """The share of observations within the bound."""
    by_time: Floats
    """The share of time within the bound; where no time has passed, the share of observations."""
    seconds: Floats
    """The time that `by_time` is a share of, faded."""
    gaps: Integers
    gap_seconds: Floats


class Fidelity(PerItem):
    """Time and observations within the bound, for each query.

    >>> fidelity = Fidelity()
    >>> fidelity.update(observations(["q"] * 3, [0, 30, 40], [1.0, 9.0, 0.0], [5.0, 5.0, 5.0]))
    >>> fidelity.value().by_time.tolist(), fidelity.value().by_tick.round(3).tolist()
    ([0.75], [0.667])
    """

    kind: ClassVar[str] = "fidelity"

    def __init__(self, rules: Rules | None = None) -> None:
        super().__init__(rules or Rules(), [("gaps", np.int64), *((name, np.float64) for name in _SUMS)])

    def parameters(self) -> dict[str, Any]:
        """What the summary was made with."""
        return self.rules.parameters()

    def value(self) -> FidelityFigures:
        """The figures."""
        items, records, faded = self._now()
        by_tick = ratio(records["within"], records["weight"])
        seconds = records["seconds"]
        return FidelityFigures(
            items=items,
            ticks=records["ticks"],
            weight=records["weight"] * faded,
            by_tick=by_tick,
            by_time=np.where(seconds > 0, ratio(records["seconds_within"], seconds), by_tick),
            seconds=seconds * faded,
            gaps=records["gaps"],
            gap_seconds=records["gap_seconds"] * faded,
        )

    def update(self, batch: Ticks) -> None:
        """Count a batch of observations; values are 1 (within) or 0."""
        if not np.all((batch.values == 0.0) | (batch.values == 1.0)):
            raise StatisticsError(
                "observations of fidelity are 1 (within the bound) or 0: make them with `observations`"
            )
        super().update(batch)

    def _summarise(self, batch: Ticks, records: Records) -> None:
        lengths = np.diff(batch.starts)
        weights = self.rules.fading(np.repeat(records["last_time"], lengths) - batch.times)
        steps = np.diff(batch.times, prepend=batch.times[:1])
        steps[batch.firsts] = 0
        gap = steps > self.rules.gap
        said = np.roll(batch.values, 1)
        passed = np.where(gap, 0.0, weights * steps / 1e6)
        for name, terms in (
            ("weight", weights),
            ("within", weights * batch.values),
            ("seconds", passed),
            ("seconds_within", passed * said),
            ("gap_seconds", np.where(gap, weights * steps / 1e6, 0.0)),
        ):
            records[name] = np.add.reduceat(terms, batch.firsts)
        records["gaps"] = np.add.reduceat(gap, batch.firsts, dtype=np.int64)

    def _join(self, earlier: Records, later: Records) -> Records:
        joined = later.copy()
        faded = self.rules.fading(later["last_time"] - earlier["last_time"])
        for name in _SUMS:
            joined[name] += earlier[name] * faded
        step = later["first_time"] - earlier["last_time"]
        gap = step > self.rules.gap
        passed = self.rules.fading(later["last_time"] - later["first_time"]) * step / 1e6
        joined["seconds"] += np.where(gap, 0.0, passed)
        joined["seconds_within"] += np.where(gap, 0.0, passed * earlier["last_value"])
        joined["gap_seconds"] += np.where(gap, passed, 0.0)
        joined["gaps"] += earlier["gaps"] + gap
        return joined
