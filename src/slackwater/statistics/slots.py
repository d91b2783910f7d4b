"""Base class of order-free summaries: names, spans and exponential decay, in any order of time."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa

from slackwater.core.errors import StatisticsError
from slackwater.statistics import encoding
from slackwater.statistics.base import check_agreement
from slackwater.statistics.cells import LOWEST_DYADIC, Cells
from slackwater.statistics.rules import Floats, Integers, Rules
from slackwater.statistics.ticks import MOST_ITEMS


class Slots(encoding.EncodedSummary):
    """A place for each name, with the first and the last moment counted there; sums are as at that last moment."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.firsts: Integers = np.zeros(0, np.int64)
        self.lasts: Integers = np.zeros(0, np.int64)
        self._slots: dict[str, int] = {}

    @abstractmethod
    def value(self) -> Any:
        """The figures."""

    @abstractmethod
    def update(self, batch: Any) -> None:
        """Count a batch."""

    @abstractmethod
    def merge(self, later: Self) -> None:
        """Count what another summary has counted."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order in which they were first met."""
        return tuple(self._slots)

    def span(self) -> tuple[int, int] | None:
        """The first and the last moment counted, or None."""
        return (int(self.firsts.min()), int(self.lasts.max())) if len(self.firsts) else None

    def check(self, other: Self) -> None:
        """Refuse to merge what was made otherwise."""
        check_agreement(self, other)

    def by_name(self) -> Integers:
        """The slots in order of name."""
        names = self.names
        return np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)

    def factors(self) -> Floats:
        """By how much each slot has faded at the last moment of all."""
        return self.rules.fading(self.lasts.max() - self.lasts) if len(self.lasts) else np.zeros(0)

    def levels(self, cells: Cells, names: Sequence[str]) -> Integers:
        """Where the cells of these names stand: counting on from there gives the same result sooner."""
        found = (self._slots.get(name, -1) for name in names)
        return np.array([cells.levels[slot] if slot >= 0 else LOWEST_DYADIC for slot in found], np.int64)

    def columns(self) -> dict[str, pa.Array]:
        """Names and spans as Arrow columns, in order of name."""
        order = self.by_name()
        names = pa.array(sorted(self.names), pa.string())
        return {"item": names, "first_time": pa.array(self.firsts[order]), "last_time": pa.array(self.lasts[order])}

    def restore(self, table: pa.Table) -> None:
        """Take names and spans from such columns."""
        self._slots = {name: slot for slot, name in enumerate(table.column("item").to_pylist())}
        self.firsts = table.column("first_time").to_numpy().astype(np.int64)
        self.lasts = table.column("last_time").to_numpy().astype(np.int64)

    def meet(self, names: Sequence[str], firsts: Integers, lasts: Integers) -> tuple[Integers, Floats, Floats]:
        """Look up names and make room for new ones.

        Returns their slots, by how much each slot of this summary fades (all of them), and by how much each of
        theirs.
        """
        known = np.fromiter((self._slots.get(name, -1) for name in names), np.int64, len(names))
        new = np.flatnonzero(known < 0)
        if len(self.lasts) + len(new) > MOST_ITEMS:
            raise StatisticsError(f"{self.kind}: a summary may hold at most {MOST_ITEMS} names")
        known[new] = len(self.lasts) + np.arange(len(new))
        self._slots.update((names[place], int(known[place])) for place in new.tolist())
        self.firsts, before = np.append(self.firsts, firsts[new]), np.append(self.lasts, lasts[new])
        self.firsts[known] = np.minimum(self.firsts[known], firsts)
        self.lasts = before.copy()
        self.lasts[known] = np.maximum(before[known], lasts)
        return known, self.rules.fading(self.lasts - before), self.rules.fading(self.lasts[known] - lasts)
