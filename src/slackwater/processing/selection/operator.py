"""Selection operator: `SELECT columns FROM table WHERE region`, every change.

Design
    The regions of a table's selections stand in one index. A batch asks it twice: whose regions the rows were in, and
    whose they are in now. Only in the first: the row left. Only in the second: it entered. In both: it is mentioned
    where a column that the query shows is another one now, which is a bit test: the columns that changed of a row, and
    the columns that a query shows, are words of 64 bits.

    No rows are kept: the published answer of a selection is the latest state, cut by its region.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.query import Selection, StandingQuery
from slackwater.core.types import Position
from slackwater.kinds.registry import plain_query, query_of
from slackwater.processing import state
from slackwater.processing.base import (
    Answer,
    Changes,
    Integers,
    Latest,
    Notifications,
    RowKind,
    Rows,
    TableOperator,
)
from slackwater.processing.changed_columns import Words, bits_of, differing, words_for
from slackwater.processing.regions import RegionIndex, Sheet, inside


@dataclass(slots=True)
class _TableSelections:
    """The selections of one table: where each stands, and by place its number, columns and last change."""

    index: RegionIndex = field(default_factory=RegionIndex)
    free: list[int] = field(default_factory=list)
    numbers: Integers = field(default_factory=lambda: np.zeros(16, np.int64))
    changed: Integers = field(default_factory=lambda: np.zeros(16, np.int64))
    shown: Words = field(default_factory=lambda: np.zeros((16, 1), np.uint64))
    top: int = 0

    def place(self) -> int:
        """A free place."""
        if self.free:
            return self.free.pop()
        if self.top == len(self.numbers):
            self.numbers = np.concatenate([self.numbers, np.zeros(self.top, np.int64)])
            self.changed = np.concatenate([self.changed, np.zeros(self.top, np.int64)])
            self.shown = np.concatenate([self.shown, np.zeros_like(self.shown)])
        self.top += 1
        return self.top - 1

    def show(self, place: int, columns: list[int]) -> None:
        """Note which columns a query shows."""
        words = words_for(columns)
        if words > self.shown.shape[1]:
            more = np.zeros((len(self.shown), words - self.shown.shape[1]), np.uint64)
            self.shown = np.concatenate([self.shown, more], axis=1)
        self.shown[place] = bits_of(columns, self.shown.shape[1])


class Selections(TableOperator):
    """Selections by incremental maintenance."""

    name = "Selections"

    def __init__(self) -> None:
        self._tables: dict[str, _TableSelections] = {}
        self._queries: dict[int, tuple[Selection, int]] = {}

    def accepts(self, query: StandingQuery) -> bool:
        """Selections of every kind."""
        return isinstance(query, Selection)

    def register(self, number: int, query: StandingQuery, latest: Latest, position: Position) -> Answer:
        """Keep a query from now on."""
        assert isinstance(query, Selection)
        self.unregister(number, position)
        columns = [latest.schema.index(name) for name in query.columns]
        self._keep(number, query, columns, position)
        return self.answer(number, latest)

    def unregister(self, number: int, position: Position) -> None:
        """Forget a query."""
        found = self._queries.pop(number, None)
        if found is None:
            return
        query, place = found
        kept = self._tables[query.table]
        kept.index.remove(place)
        kept.free.append(place)
        if not len(kept.index):
            del self._tables[query.table]

    def apply(self, changes: Changes, latest: Latest, position: Position) -> Notifications:
        """Find the rows that entered, changed or left."""
        kept = self._tables.get(changes.table)
        if kept is None or not len(changes):
            return Notifications(position)
        count = len(changes)
        before, after = Sheet(changes.before, changes.had), Sheet(changes.after, changes.has)
        was_rows, was_places = kept.index.match(before, latest.schema)
        rows, places = kept.index.match(after, latest.schema)
        was, now = was_places * count + was_rows, places * count + rows
        stays = np.isin(now, was, assume_unique=True)
        others = differing(latest.schema, before, after, kept.shown.shape[1])
        mentioned = ~stays | (others[rows] & kept.shown[places]).any(axis=1)
        left = was[~np.isin(was, now, assume_unique=True)]
        entered = now[mentioned]
        facts = np.concatenate([entered, left])
        if not len(facts):
            return Notifications(position)
        kinds = np.concatenate(
            [np.full(len(entered), RowKind.UPSERT, np.int8), np.full(len(left), RowKind.DELETE, np.int8)]
        )
        places, rows = facts // count, facts % count
        kept.changed[places] = position
        numbers = kept.numbers[places]
        order = np.lexsort((rows, numbers))
        needed, at = np.unique(rows[order], return_inverse=True)
        batch = changes.after.take(pa.array(needed))
        output = Rows(changes.table, numbers[order], at, kinds[order], batch, changes.slots[needed])
        return Notifications(position, rows=(output,))

    def answer(self, number: int, latest: Latest) -> Answer:
        """Everything published of a query so far."""
        query, place = self._queries[number]
        changed = Position(int(self._tables[query.table].changed[place]))
        rows = latest.rows
        chosen = inside(query.region, latest.schema, rows)
        return Answer(number, changed, rows=rows if chosen.all() else rows.filter(pa.array(chosen)))

    def snapshot(self) -> bytes:
        """The whole state."""
        kept: list[Any] = []
        for number in sorted(self._queries):
            query, place = self._queries[number]
            table = self._tables[query.table]
            columns = [at for at in range(64 * table.shown.shape[1]) if _bit(table.shown[place], at)]
            kept.append([number, plain_query(query), columns, int(table.changed[place])])
        return state.pack("selections", {"kept": kept})

    def restore(self, body: bytes) -> None:
        """Restore the state from a snapshot."""
        self._tables, self._queries = {}, {}
        for number, plain, columns, changed in state.unpack("selections", body)["kept"]:
            query = query_of(plain)
            assert isinstance(query, Selection)
            self._keep(number, query, columns, Position(changed))

    def _keep(self, number: int, query: Selection, columns: list[int], changed: Position) -> None:
        kept = self._tables.get(query.table)
        if kept is None:
            kept = self._tables[query.table] = _TableSelections()
        place = kept.place()
        kept.index.add(place, query.region)
        kept.numbers[place], kept.changed[place] = number, changed
        kept.show(place, columns)
        self._queries[number] = (query, place)


def _bit(words: Words, at: int) -> bool:
    return bool(int(words[at // 64]) >> (at % 64) & 1)
