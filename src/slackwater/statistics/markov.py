"""Markov transition counts of each item: how often a change of x per tick is followed by one of y.

For what: predicting how far an item has moved since it was last asked, so that it is asked only when that matters.

*Ticks.* Without `tick` every update is one tick. With it (microseconds), a change over a step of m ticks, m the
nearest whole number and at least 1, is m changes of an m-th each: C(x,y) += 1 and C(y,y) += m − 1.

*States.* State n stands for a change of n·δ per tick. By default each item has a spacing of its own, a power of
three: the finest at which its transitions occupy at most `cells` cells and its largest change is state 1093 or less.
That needs no first pass and no guess, follows the item's own scale, and does not depend on the cuts (`cells`,
`kernels.ternary_grid`). Where δ is wanted fixed, give `spacing` (one for all, or by item) and `widest` K: changes
beyond K·δ are then in state ±K.

*Seams.* A piece remembers its first and its last change. Where two pieces meet without a gap, the change across, s,
adds the transitions last → s and s → first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from slackwater.core.errors import StatisticsError
from slackwater.kernels import ternary_grid
from slackwater.statistics import encoding
from slackwater.statistics.base import check_agreement
from slackwater.statistics.cells import Cells
from slackwater.statistics.chain import Chain
from slackwater.statistics.peritem import Meeting, PerItem, Records
from slackwater.statistics.rules import Flags, Floats, Integers, Rules
from slackwater.statistics.ticks import Ticks

SPAN = 2 * ternary_grid.HALF
UNLIMITED = SPAN * SPAN


@dataclass(frozen=True, eq=False)
class ChainFigures:
    """The chain of each item."""

    items: tuple[str, ...]
    chains: tuple[Chain, ...]

    def __getitem__(self, item: str) -> Chain:
        return self.chains[self.items.index(item)]


class Markov(PerItem):
    """Transition counts between states of change.

    >>> markov = Markov(spacing=1.0, widest=5)
    >>> markov.update(Ticks.of(["a"] * 5, [1, 2, 3, 4, 5], [0.0, 1.0, 2.0, 1.0, 2.0]))
    >>> markov.value()["a"].counts()
    {(-1, 1): 1.0, (1, -1): 1.0, (1, 1): 1.0}
    """

    kind: ClassVar[str] = "markov"

    def __init__(
        self,
        rules: Rules | None = None,
        tick: int | None = None,
        spacing: float | Mapping[str, float] | None = None,
        widest: int | None = None,
        cells: int = 512,
    ) -> None:
        if tick is not None and tick < 1:
            raise StatisticsError(f"tick must be a positive number of microseconds, but came {tick}")
        if (spacing is None) != (widest is None):
            raise StatisticsError("spacing and widest are given together, or neither is")
        spacings = spacing.values() if isinstance(spacing, Mapping) else () if spacing is None else (spacing,)
        if not all(0 < each < float("inf") for each in spacings):
            raise StatisticsError(f"spacing must be positive, but came {spacing}")
        if widest is not None and not 1 <= widest < ternary_grid.HALF:
            raise StatisticsError(f"widest must be from 1 to {ternary_grid.HALF - 1}, but came {widest}")
        if cells < 1:
            raise StatisticsError(f"cells must be at least 1, but came {cells}")
        self.tick, self.spacing, self.widest, self.most = tick, spacing, widest, cells
        fields: list[tuple[Any, ...]] = [(f"{end}_change", np.float64) for end in ("first", "last")]
        fields += [(f"{end}_known", np.bool_) for end in ("first", "last")]
        super().__init__(rules or Rules(), [*fields, ("first_change_time", np.int64)])
        self.cells = Cells.empty(np.zeros(0, np.int64))

    def parameters(self) -> dict[str, Any]:
        """What the summary was made with."""
        spacing = dict(sorted(self.spacing.items())) if isinstance(self.spacing, Mapping) else self.spacing
        own = {"tick": self.tick, "spacing": spacing, "widest": self.widest, "cells": self.most}
        return {**self.rules.parameters(), **own}

    def value(self) -> ChainFigures:
        """The chains."""
        items, _, faded = self._now()
        order = self._by_name()
        spacings = self._spacings(self.names)
        ends = np.cumsum(self.cells.lengths())
        chains = []
        for place, slot in enumerate(order):
            start, end = (ends[slot - 1] if slot else 0), ends[slot]
            before, after = _apart(self.cells.keys[start:end])
            level = self.cells.levels[slot]
            spacing = spacings[slot] or float(ternary_grid.SPACINGS[level - ternary_grid.LOWEST])
            weights = self.cells.weights[start:end] * faded[place]
            chains.append(Chain(spacing, before, after, weights, None if spacings[slot] else int(level), self.widest))
        return ChainFigures(items, tuple(chains))

    def check_spacings(self, names: Sequence[str]) -> None:
        """Refuse items for which no spacing is given, where spacings are given by item."""
        self._spacings(names)

    def update(self, batch: Ticks) -> None:
        """Count a batch of ticks."""
        if len(batch) == 0:
            return
        records = self._piece(batch)
        fixed = self._spacings(batch.names)
        gap, half, tick = self.rules.gap, self.rules.half, self.tick or 0
        largest = np.zeros(len(batch.names))
        ternary_grid.largest_change(batch.starts, batch.times, batch.values, gap, tick, largest)
        # Starting where these items already stand gives the same result sooner: levels never fall.
        levels = np.where(fixed > 0, 0, np.maximum(ternary_grid.level_for(largest), self._levels(batch.names)))
        room = len(batch) * (2 if tick else 1)
        slots, keys, weights = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
        count = ternary_grid.emit_transitions(
            *(batch.starts, batch.times, batch.values, gap, half, tick),
            *(levels, fixed, self.widest or 0, slots, keys, weights),
        )
        cells = Cells(levels, slots[:count], keys[:count], weights[:count]).fitted(self._limit, _up)
        self._take(batch.names, records, cells)

    def merge(self, later: Self) -> None:
        """Count what another summary has counted, which came after."""
        check_agreement(self, later)
        self._take(later.names, later.records, later.cells)

    def to_table(self) -> pa.Table:
        """A row for each item, in order of name, with its transitions as lists."""
        order = self._by_name()
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        cells = self.cells.moved(place, np.zeros(len(order), np.int64)).gathered()
        before, after = _apart(cells.keys)
        lists = {"before": before, "after": after, "count": cells.weights}
        columns = {name: encoding.ragged(cells.lengths(), pa.array(values)) for name, values in lists.items()}
        table = super().to_table().append_column("level", pa.array(cells.levels))
        for name, column in columns.items():
            table = table.append_column(name, column)
        return table

    @classmethod
    def from_table(cls, table: pa.Table, parameters: dict[str, Any]) -> Self:
        """The summary that such a table was made of."""
        summary = super().from_table(table, parameters)
        lists = [encoding.flat(table.column(name)) for name in ("before", "after", "count")]
        before, after, weights = (column.flatten().to_numpy(zero_copy_only=False) for column in lists)
        lengths = lists[0].value_lengths().to_numpy(zero_copy_only=False)
        slots = np.repeat(np.arange(table.num_rows), lengths)
        levels = table.column("level").to_numpy().astype(np.int64)
        summary.cells = Cells(levels, slots, _joined(before, after), weights)
        return summary

    @property
    def _limit(self) -> int:
        return self.most if self.spacing is None else UNLIMITED

    def _summarise(self, batch: Ticks, records: Records) -> None:
        more = records["ticks"] > 1
        for end, late, early in (
            ("first", batch.firsts[more] + 1, batch.firsts[more]),
            ("last", batch.lasts[more], batch.lasts[more] - 1),
        ):
            change, known = self._change(
                batch.times[late] - batch.times[early], batch.values[late] - batch.values[early]
            )
            records[f"{end}_change"][more] = change
            records[f"{end}_known"][more] = known
        records["first_change_time"][more] = batch.times[batch.firsts[more] + 1]

    def _change(self, step: Integers, change: Floats) -> tuple[Floats, Flags]:
        """The change per tick over these steps in time, and whether there is one."""
        known = step <= self.rules.gap
        return np.where(known, change / self._ticks(step), 0.0), known

    def _ticks(self, step: Integers) -> Integers:
        if self.tick is None:
            return np.ones(step.shape, np.int64)
        return np.maximum(1, (2 * step + self.tick) // (2 * self.tick))

    def _join(self, earlier: Records, later: Records) -> Records:
        joined = later.copy()
        change, known = self._across(earlier, later)
        single = later["ticks"] == 1
        joined["last_change"] = np.where(single, change, later["last_change"])
        joined["last_known"] = np.where(single, known, later["last_known"])
        single = earlier["ticks"] == 1
        joined["first_change"] = np.where(single, change, earlier["first_change"])
        joined["first_known"] = np.where(single, known, earlier["first_known"])
        joined["first_change_time"] = np.where(single, later["first_time"], earlier["first_change_time"])
        return joined

    def _across(self, earlier: Records, later: Records) -> tuple[Floats, Flags]:
        return self._change(later["first_time"] - earlier["last_time"], later["first_value"] - earlier["last_value"])

    def _take(self, names: Sequence[str], records: Records, later: Cells) -> None:
        meeting = self._meet(names, records)
        self._settle(meeting)
        count = len(self.records)
        lowest = np.full(count, ternary_grid.LOWEST if self.spacing is None else 0, np.int64)
        earlier = self.cells.moved(np.arange(len(self.cells.levels)), lowest)
        theirs = later.moved(meeting.slots, lowest)
        change, known = self._across(meeting.earlier, meeting.later)
        known &= meeting.both
        if self.spacing is None:
            lowest[meeting.slots] = ternary_grid.level_for(np.where(known, np.abs(change), 0.0))
        levels = np.maximum(np.maximum(earlier.levels, theirs.levels), lowest)
        factors = np.ones(count)
        elapsed = meeting.later["last_time"] - meeting.earlier["last_time"]
        factors[meeting.slots] = np.where(meeting.both, self.rules.fading(elapsed * meeting.both), 1.0)
        seam = self._seam(meeting, change, known, levels, [names[place] for place in np.flatnonzero(known).tolist()])
        old = earlier.faded(factors).raised(levels, _up)
        self.cells = (old + theirs.raised(levels, _up) + seam).fitted(self._limit, _up)

    def _seam(self, meeting: Meeting, change: Floats, known: Flags, levels: Integers, names: list[str]) -> Cells:
        """The transitions into and out of the changes across the seam."""
        earlier, later, slots = meeting.earlier[known], meeting.later[known], meeting.slots[known]
        fixed = self._spacings(names)

        def states(changes: Floats) -> Integers:
            found = np.empty(len(changes), np.int64)
            ternary_grid.states_of(changes, levels[slots], fixed, self.widest or 0, found)
            return found

        across = states(change[known])
        arrived = self.rules.fading(later["last_time"] - later["first_time"])
        left = self.rules.fading(later["last_time"] - later["first_change_time"])
        length = self._ticks(later["first_time"] - earlier["last_time"])
        parts = (
            (earlier["last_known"], states(earlier["last_change"]), across, arrived),
            (length > 1, across, across, arrived * (length - 1)),
            (later["first_known"], across, states(later["first_change"]), left),
        )
        return Cells(
            levels,
            np.concatenate([slots[there] for there, _, _, _ in parts]),
            np.concatenate([_joined(before[there], after[there]) for there, before, after, _ in parts]),
            np.concatenate([weight[there] for there, _, _, weight in parts]),
        )

    def _levels(self, names: Sequence[str]) -> Integers:
        levels = self.cells.levels
        found = (self._slots.get(name, -1) for name in names)
        return np.array([levels[slot] if slot >= 0 else ternary_grid.LOWEST for slot in found], np.int64)

    def _spacings(self, names: Sequence[str]) -> Floats:
        """The fixed spacing of each item; 0 where the item chooses its own."""
        if not isinstance(self.spacing, Mapping):
            return np.full(len(names), self.spacing or 0.0)
        missing = [name for name in names if name not in self.spacing]
        if missing:
            raise StatisticsError(f"no spacing is given for item {missing[0]!r}: name all items, or give one number")
        return np.array([self.spacing[name] for name in names], np.float64)


def _apart(keys: Integers) -> tuple[Integers, Integers]:
    return keys // SPAN - ternary_grid.HALF, keys % SPAN - ternary_grid.HALF


def _joined(before: Integers, after: Integers) -> Integers:
    return (before + ternary_grid.HALF) * SPAN + after + ternary_grid.HALF


def _up(keys: Integers, steps: Integers) -> Integers:
    """Both states of each transition that many levels up."""
    powers = 3 ** np.minimum(steps, 30)
    before, after = (np.floor_divide(state + (powers - 1) // 2, powers) for state in _apart(keys))
    return _joined(before, after)
