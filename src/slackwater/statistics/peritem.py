"""Base class of per-item summaries: one mergeable record for each item.

The heart of it: a piece is a record for each item, and two pieces meet item by item. A record always holds `ticks`,
`first_time`, `first_value`, `last_time` and `last_value`; a record without ticks is neutral. What happens where an
item is in both pieces, that is the seam, each summary says in `_join`.

Updating is merging with the piece that the batch makes: there is one way in, so batches and pieces cannot disagree.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.core.errors import StatisticsError
from slackwater.core.types import Instant, moment
from slackwater.statistics import encoding
from slackwater.statistics.base import check_agreement
from slackwater.statistics.rules import Flags, Floats, Integers, Rules
from slackwater.statistics.ticks import MOST_ITEMS, Ticks

Records = npt.NDArray[np.void]
ENDS: list[tuple[Any, ...]] = [
    ("ticks", np.int64),
    ("first_time", np.int64),
    ("first_value", np.float64),
    ("last_time", np.int64),
    ("last_value", np.float64),
]


@dataclass(frozen=True, eq=False)
class Meeting:
    """Two pieces about to be joined: where the later one's items are, what is known of them, which are in both."""

    slots: Integers
    earlier: Records
    later: Records
    both: Flags


class PerItem(encoding.EncodedSummary):
    """A record for each item, in the order in which the items were first met."""

    def __init__(self, rules: Rules, fields: Sequence[tuple[Any, ...]] = ()) -> None:
        self.rules = rules
        self.records: Records = np.zeros(0, np.dtype([*ENDS, *fields]))
        self._slots: dict[str, int] = {}

    @abstractmethod
    def value(self) -> Any:
        """The figures."""

    @classmethod
    def _made_with(cls, parameters: dict[str, Any]) -> Self:
        rules = Rules(parameters.pop("longest_gap", None), parameters.pop("half_life", None))
        return cls(rules, **parameters)

    @abstractmethod
    def _summarise(self, batch: Ticks, records: Records) -> None:
        """Fill in the records of a batch; the ends are already there."""

    @abstractmethod
    def _join(self, earlier: Records, later: Records) -> Records:
        """The records of items that are in both pieces; the ends are put right afterwards."""

    # What every summary does.

    def update(self, batch: Ticks) -> None:
        """Count a batch of ticks."""
        if len(batch):
            self._absorb(batch.names, self._piece(batch))

    def merge(self, later: Self) -> None:
        """Count what another summary has counted, which came after."""
        check_agreement(self, later)
        self._absorb(later.names, later.records)

    @property
    def names(self) -> tuple[str, ...]:
        """The items, in the order of the records."""
        return tuple(self._slots)

    def span(self) -> tuple[int, int] | None:
        """The first and the last moment counted, or None."""
        if len(self.records) == 0:
            return None
        return int(self.records["first_time"].min()), int(self.records["last_time"].max())

    def to_table(self) -> pa.Table:
        """A row for each item, in order of name."""
        order = self._by_name()
        items = pa.array(sorted(self.names), pa.string())
        return pa.table({"item": items, **encoding.columns_of(self.records[order])})

    @classmethod
    def from_table(cls, table: pa.Table, parameters: dict[str, Any]) -> Self:
        """The summary that such a table was made of."""
        summary = cls._made_with(dict(parameters))
        summary._slots = {name: slot for slot, name in enumerate(table.column("item").to_pylist())}
        summary.records = encoding.records_of(table, summary.records.dtype)
        return summary

    # What subclasses build on.

    def _piece(self, batch: Ticks) -> Records:
        records = np.zeros(len(batch.names), self.records.dtype)
        records["ticks"] = np.diff(batch.starts)
        records["first_time"], records["first_value"] = batch.times[batch.firsts], batch.values[batch.firsts]
        records["last_time"], records["last_value"] = batch.times[batch.lasts], batch.values[batch.lasts]
        self._summarise(batch, records)
        return records

    def _absorb(self, names: Sequence[str], later: Records) -> None:
        self._settle(self._meet(names, later))

    def _meet(self, names: Sequence[str], later: Records) -> Meeting:
        """Look up the items, refuse what overlaps, make room for what is new."""
        known = np.fromiter((self._slots.get(name, -1) for name in names), np.int64, len(names))
        both = known >= 0
        late = np.flatnonzero(both)[later["first_time"][both] < self.records["last_time"][known[both]]]
        if len(late):
            place = int(late[0])
            begins, counted = later["first_time"][place], self.records["last_time"][known[place]]
            raise StatisticsError(
                f"{self.kind}: item {names[place]!r} begins at {iso_time(begins)}, but is already counted up to "
                f"{iso_time(counted)}: merge pieces in order of time, each item's one after the other"
            )
        new = np.flatnonzero(~both)
        if len(self.records) + len(new) > MOST_ITEMS:
            raise StatisticsError(f"{self.kind}: a summary may hold at most {MOST_ITEMS} items")
        known[new] = len(self.records) + np.arange(len(new))
        if len(new):
            self.records = np.concatenate([self.records, np.zeros(len(new), self.records.dtype)])
            self._slots.update((names[place], int(known[place])) for place in new.tolist())
        return Meeting(known, self.records[known], later, both)

    def _settle(self, meeting: Meeting) -> None:
        both = meeting.both
        if not both.any():
            self.records[meeting.slots] = meeting.later
            return
        earlier, later = meeting.earlier[both], meeting.later[both]
        joined = self._join(earlier, later)
        joined["ticks"] = earlier["ticks"] + later["ticks"]
        joined["first_time"], joined["first_value"] = earlier["first_time"], earlier["first_value"]
        joined["last_time"], joined["last_value"] = later["last_time"], later["last_value"]
        self.records[meeting.slots[both]] = joined
        self.records[meeting.slots[~both]] = meeting.later[~both]

    def _by_name(self) -> Integers:
        names = self.names
        return np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)

    def _now(self) -> tuple[tuple[str, ...], Records, Floats]:
        """Items in order of name, their records, and by how much each has faded at the last tick of all."""
        order = self._by_name()
        records = self.records[order]
        last = records["last_time"]
        faded = self.rules.fading(last.max() - last) if len(last) else np.zeros(0)
        return tuple(sorted(self.names)), records, faded


def iso_time(at: int) -> str:
    """Format an instant for a message."""
    try:
        return moment(Instant(int(at))).isoformat()
    except OverflowError:
        return f"{at} µs"
