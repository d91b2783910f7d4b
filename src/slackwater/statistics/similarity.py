"""Cosine similarity ρ of the changes of all pairs of items.

For what: what two items do together decides what a sum of them costs to follow (2ρᵢⱼwᵢwⱼRᵢRⱼ), and so which items one
aggregator should serve.

*The rule for ticks that do not coincide.* Time is cut into bins of `period` microseconds, counted from 1970-01-01
UTC. The change of an item in a bin is the sum of its changes whose later tick lies in the bin, that is, its last
value there minus its last value before; in a bin without an update it is 0. A change across a gap counts as 0. A
short period calls two items unlike when one merely ticks later than the other; a long one has fewer bins to learn
from.

Design
    Kept is the Gram matrix G = Σ_bins d dᵀ of the bins that are finished, 8·n² bytes for n items. A bin is unfinished
    while its row d can still change: the last bin, which a later piece may share, and the bins with some item's first
    tick, whose change appears only when an earlier piece is put before. Of these the entries (bin, item, change) are
    kept instead. Finished bins that are well filled go to G as dense blocks through BLAS, thinly filled ones entry by
    entry.

*How to cut the work.* Pieces must be consecutive stretches of time with all items of that time in them: a bin's row
must come together before it is multiplied out. A piece that begins in an earlier bin than that in which the present
one ends is refused. Pieces of the same time with different items cannot be merged: the products between them are in
neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from slackwater.core.errors import StatisticsError, TooManyItems
from slackwater.kernels.gram import add_outer
from slackwater.kernels.group_rows import group
from slackwater.statistics import encoding
from slackwater.statistics.base import check_agreement
from slackwater.statistics.neighbours import Similarities
from slackwater.statistics.peritem import PerItem, Records, iso_time
from slackwater.statistics.rules import Floats, Integers, Rules
from slackwater.statistics.ticks import Ticks

BLOCK = 1 << 20
"""Numbers in a dense block: 8 MB."""
SPARSE_COST = 16
"""One product entry by entry takes about as long as this many in BLAS."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Changes by bin and item; an item may occur more than once in a bin."""

    bins: Integers
    slots: Integers
    changes: Floats

    def where(self, kept: Any) -> "Entries":
        """Some of the entries."""
        return Entries(self.bins[kept], self.slots[kept], self.changes[kept])

    def __add__(self, other: "Entries") -> "Entries":
        return Entries(
            np.concatenate([self.bins, other.bins]),
            np.concatenate([self.slots, other.slots]),
            np.concatenate([self.changes, other.changes]),
        )

    def gathered(self) -> "Entries":
        """Every bin and item once, in order."""
        if len(self.bins) == 0:
            return self
        order = np.lexsort((self.slots, self.bins))
        bins, slots = self.bins[order], self.slots[order]
        first = np.append(True, (np.diff(bins) != 0) | (np.diff(slots) != 0))
        return Entries(bins[first], slots[first], np.add.reduceat(self.changes[order], np.flatnonzero(first)))


NOTHING = Entries(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


class Similarity(PerItem):
    """The Gram matrix of changes per bin.

    >>> similarity = Similarity(period=10)
    >>> similarity.update(Ticks.of(["a", "b"] * 3, [1, 2, 11, 12, 21, 22], [5.0, 9.0, 6.0, 7.0, 8.0, 3.0]))
    >>> similarity.value().cosine("a", "b")
    -1.0
    """

    kind: ClassVar[str] = "similarity"

    def __init__(self, rules: Rules | None = None, *, period: int, most_items: int = 4096) -> None:
        if period < 1:
            raise StatisticsError(f"period must be a positive number of microseconds, but came {period}")
        if most_items < 1:
            raise StatisticsError(f"most_items must be at least 1, but came {most_items}")
        self.period, self.most_items = period, most_items
        super().__init__(rules or Rules())
        self.gram: Floats = np.zeros((0, 0))
        self.unfinished = NOTHING

    def parameters(self) -> dict[str, Any]:
        """What the summary was made with."""
        return {**self.rules.parameters(), "period": self.period, "most_items": self.most_items}

    def value(self) -> Similarities:
        """The similarities."""
        gram = self.gram.copy()
        self._multiply_out(self.unfinished, gram)
        order = self._by_name()
        return Similarities(tuple(sorted(self.names)), gram[np.ix_(order, order)])

    def check_follows(self, begins: int | None) -> None:
        """Refuse what begins before the bin in which this ends."""
        span = self.span()
        if span is None or begins is None or begins // self.period >= span[1] // self.period:
            return
        raise StatisticsError(
            f"similarity: a piece begins at {iso_time(begins)}, before the bin of {self.period} µs in which the "
            f"counting stands ({iso_time(span[1])}): cut the history by time, all items in a piece, and merge in "
            f"order of time"
        )

    def check_room(self, names: Sequence[str]) -> None:
        """Refuse items for which there may not be the memory."""
        if len(self.records) + len(names) <= self.most_items:
            return
        count = len(set(self._slots).union(names))
        if count > self.most_items:
            raise TooManyItems(
                f"similarity: {count} items need a matrix of {count * count * 8 >> 20} MB, but most_items is "
                f"{self.most_items}: raise it where there is the memory, or learn fewer items together"
            )

    def update(self, batch: Ticks) -> None:
        """Count a batch of ticks."""
        if len(batch) == 0:
            return
        self.check_follows(int(batch.times.min()))
        step, change = np.diff(batch.times), np.diff(batch.values)
        items = batch.items
        counts = (np.diff(items) == 0) & (step <= self.rules.gap) & (change != 0.0)
        entries = Entries(batch.times[1:][counts] // self.period, items[1:][counts], change[counts])
        self._take(batch.names, self._piece(batch), entries, None)

    def merge(self, later: Self) -> None:
        """Count what another summary has counted, which came after."""
        check_agreement(self, later)
        span = later.span()
        self.check_follows(None if span is None else span[0])
        self._take(later.names, later.records, later.unfinished, later.gram)

    def to_table(self) -> pa.Table:
        """A row for each item, in order of name: its row of G, and its changes in unfinished bins as lists."""
        order = self._by_name()
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        entries = self.unfinished
        by_item = np.lexsort((entries.bins, place[entries.slots]))
        lengths = np.bincount(place[entries.slots], minlength=len(order)).astype(np.int64)
        rows = self.gram[np.ix_(order, order)]
        table = super().to_table()
        table = table.append_column(
            "gram", encoding.ragged(np.full(len(order), len(order)), pa.array(rows.reshape(-1)))
        )
        table = table.append_column("bins", encoding.ragged(lengths, pa.array(entries.bins[by_item])))
        return table.append_column("changes", encoding.ragged(lengths, pa.array(entries.changes[by_item])))

    @classmethod
    def from_table(cls, table: pa.Table, parameters: dict[str, Any]) -> Self:
        """The summary that such a table was made of."""
        summary = super().from_table(table, parameters)
        count = table.num_rows
        columns = {name: encoding.flat(table.column(name)) for name in ("gram", "bins", "changes")}
        gram, bins, changes = (column.flatten().to_numpy(zero_copy_only=False) for column in columns.values())
        if gram.size != count * count:
            raise StatisticsError(f"similarity: the matrix of {count} items has {gram.size} numbers")
        summary.gram = gram.reshape(count, count).copy()
        slots = np.repeat(np.arange(count), columns["bins"].value_lengths().to_numpy(zero_copy_only=False))
        summary.unfinished = Entries(bins, slots, changes).gathered()
        return summary

    def _summarise(self, batch: Ticks, records: Records) -> None:
        """The ends are all that the records hold."""

    def _join(self, earlier: Records, later: Records) -> Records:
        return later.copy()

    def _take(self, names: Sequence[str], records: Records, entries: Entries, gram: Floats | None) -> None:
        if len(names) == 0:
            return
        self.check_room(names)
        before = self.span()
        meeting = self._meet(names, records)
        self._settle(meeting)
        self._make_room()
        # A piece that comes after ends last, so that its own matrix needs no fading.
        if self.rules.half_life is not None and before is not None:
            self.gram *= self._faded(int(records["last_time"].max()), before[1])
        if gram is not None:
            self._add(gram, meeting.slots)
        entries = Entries(entries.bins, meeting.slots[entries.slots], entries.changes)
        near = meeting.both & (meeting.later["first_time"] - meeting.earlier["last_time"] <= self.rules.gap)
        across = Entries(
            meeting.later["first_time"][near] // self.period,
            meeting.slots[near],
            meeting.later["first_value"][near] - meeting.earlier["last_value"][near],
        )
        self._finish(self.unfinished + entries + across)

    def _make_room(self) -> None:
        count = len(self.records)
        if len(self.gram) < count:
            larger = np.zeros((count, count))
            larger[: len(self.gram), : len(self.gram)] = self.gram
            self.gram = larger

    def _add(self, gram: Floats, slots: Integers) -> None:
        if len(slots) == len(self.gram) and np.array_equal(slots, np.arange(len(slots))):
            self.gram += gram
        else:
            self.gram[np.ix_(slots, slots)] += gram

    def _finish(self, entries: Entries) -> None:
        """Multiply out the bins that nothing can be added to any more."""
        open_bins = np.unique(
            np.append(self.records["first_time"] // self.period, self.records["last_time"].max() // self.period)
        )
        still = np.isin(entries.bins, open_bins)
        self._multiply_out(entries.where(~still), self.gram)
        self.unfinished = entries.where(still).gathered()

    def _faded(self, now: int, then: int) -> float:
        """By how much what happened in the bin of `then` has faded in the bin of `now`."""
        bins = now // self.period - then // self.period
        return float(self.rules.fading(np.array([bins * self.period]))[0])

    def _multiply_out(self, entries: Entries, gram: Floats) -> None:
        """gram += Σ_bins d dᵀ, faded to the last bin."""
        if len(entries.bins) == 0:
            return
        bins, codes = np.unique(entries.bins, return_inverse=True)
        order, starts = group(codes.astype(np.int64), len(bins))
        amounts, columns = entries.changes[order], entries.slots[order]
        lengths = np.diff(starts)
        if self.rules.half_life is not None:
            last = self.records["last_time"].max() // self.period
            amounts *= np.repeat(np.sqrt(self.rules.fading((last - bins) * self.period)), lengths)
        count = len(gram)
        if SPARSE_COST * float(lengths.astype(np.float64) @ lengths) < float(len(bins)) * count * count:
            add_outer(starts, columns, amounts, gram)
            return
        height = max(1, BLOCK // count)
        product = np.empty_like(gram)
        for top in range(0, len(bins), height):
            bottom = min(top + height, len(bins))
            inside = slice(starts[top], starts[bottom])
            rows = np.repeat(np.arange(bottom - top), lengths[top:bottom])
            cells = rows * count + columns[inside]
            block = np.bincount(cells, weights=amounts[inside], minlength=(bottom - top) * count)
            block = block.reshape(bottom - top, count)
            np.matmul(block.T, block, out=product)
            gram += product
