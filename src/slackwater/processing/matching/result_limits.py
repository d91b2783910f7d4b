"""Result limits: rows processed in slices, with counted results and steps, and queries halted beyond their share.

A *step* is a pair of row and query that is looked at, or a row across that is looked at for one. A query whose join
condition allows very many rows, and whose ranges none of them, has no results and takes all the time: so steps are
counted, query by query, and where they are too many the queries that took most are left out. Steps and not seconds: the
same rows and queries are treated alike on every machine.
"""

from collections.abc import Iterator

import numpy as np

from slackwater.processing.base import Flags, Integers

_PAIRS = 1 << 20
"""Pairs of row and query that are in memory at once, about."""
_FEW_ROWS = 16
"""Of very many queries so many rows are looked at first; then it is known how many pairs a row makes."""
_GATHERED = 1 << 20
"""Numbers of steps that are kept one by one before they are added up."""
_PATIENCE = 4
"""So many times the steps that are allowed are taken altogether; then whatever would take more is left out."""
_ENDLESS = (1 << 63) - 1


class Slices:
    """Rows cut into slices, each as large as what the slices before it found lets it be."""

    def __init__(self, rows: int, queries: int) -> None:
        self._rows, self._done, self._pairs = rows, 0, 0
        self._size = rows if rows * queries <= _PAIRS else max(_PAIRS // queries, _FEW_ROWS)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        while self._done < self._rows:
            start, self._done = self._done, min(self._done + self._size, self._rows)
            yield start, self._done
            self._size = max(min(8 * self._size, _PAIRS * self._done // max(self._pairs, 1)), 1)

    def found(self, pairs: int) -> None:
        """How many pairs the last slice made."""
        self._pairs += pairs


class Parts:
    """Results as they are found: the row, the query and the partner of each."""

    def __init__(self) -> None:
        nothing = np.zeros(0, np.int64)
        self._parts: list[tuple[Integers, Integers, Integers]] = [(nothing, nothing, nothing)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Integers, queries: Integers, partners: Integers) -> None:
        """Some more, of later rows or queries."""
        self._parts.append((rows, queries, partners))
        self._count += len(rows)

    def drop(self, queries: Integers) -> None:
        """Without those of these queries."""
        for at, part in enumerate(self._parts):
            others: Flags = ~np.isin(part[1], queries)
            self._parts[at] = part[0][others], part[1][others], part[2][others]
        self._count = sum(len(part[0]) for part in self._parts)

    def heaviest(self, most: int) -> Integers:
        """The queries with most results, without which half of `most` are left at most."""
        numbers, counts = np.unique(np.concatenate([part[1] for part in self._parts]), return_counts=True)
        return numbers[_heaviest(numbers, counts, most)]

    def all(self) -> tuple[Integers, Integers, Integers]:
        """All of them."""
        rows, queries, partners = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return rows, queries, partners


class Labour:
    """The steps that queries have taken, of as many as they may take together; None: as many as they need."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.steps = 0
        """Of all queries that were not left out."""
        self.left_out: dict[int, int] = {}
        """Queries that take too many steps, by number, and the steps they had taken."""
        self.given_up = False
        """Whether leaving out those that took most did not help: then all that would take steps are left out."""
        self._taken = 0
        self._parts: list[tuple[Integers, Integers]] = []
        self._kept = 0

    @property
    def left(self) -> int:
        """Steps that may be taken."""
        return _ENDLESS if self.most is None else max(self.most - self.steps, 0)

    def add(self, slots: Integers, steps: Integers) -> None:
        """Queries, by slot, took these steps; the same query may be there many times."""
        taken = int(steps.sum())
        self.steps += taken
        self._taken += taken
        if self.most is not None:
            self._parts.append((slots, steps))
            self._kept += len(slots)
            if self._kept > _GATHERED:
                self._gather()

    def leave_out(self, numbers: Integers) -> Integers:
        """Leave out queries with most steps, so that half of the limit is left at most; return them.

        `numbers` are those of the slots.
        """
        assert self.most is not None
        if self._taken > _PATIENCE * self.most:
            self.given_up = True
            return np.zeros(0, np.int64)
        slots, steps = self._gather()
        heavy = _heaviest(numbers[slots], steps, self.most)
        others = np.ones(len(slots), np.bool_)
        others[heavy] = False
        self._parts = [(slots[others], steps[others])]
        self.steps = int(steps[others].sum())
        found = numbers[slots[heavy]]
        self.left_out.update(zip(found.tolist(), steps[heavy].tolist(), strict=True))
        return found

    def leave_all_out(self, queries: Integers) -> Integers:
        """Leave out all of these, by number; return them, each once."""
        found = np.unique(queries)
        self.left_out.update(dict.fromkeys(found.tolist(), 0))
        return found

    def _gather(self) -> tuple[Integers, Integers]:
        """The steps of each query."""
        nothing = np.zeros(0, np.int64)
        slots, steps = (np.concatenate([nothing, *(part[which] for part in self._parts)]) for which in (0, 1))
        sums = np.bincount(slots, weights=steps).astype(np.int64)
        slots = np.flatnonzero(sums)
        self._parts, self._kept = [(slots, sums[slots])], len(slots)
        return self._parts[0]


def _heaviest(numbers: Integers, counts: Integers, most: int) -> Integers:
    """The places of those with most, without which half of `most` are left at most; of equals the lower number."""
    by = np.lexsort((numbers, -counts))
    left = counts.sum() - np.cumsum(counts[by])
    return by[: 1 + int(np.argmax(left <= most // 2))]
