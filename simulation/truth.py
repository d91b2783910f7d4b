"""Simulation oracle: the truth at each position of the log, computed from scratch."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from slackwater.core.arrow import to_batch
from slackwater.core.lineage import Lineage
from slackwater.core.query import StandingQuery
from slackwater.core.schema import TableSchema
from slackwater.core.types import Key, Position, Row
from slackwater.core.update import Operation, Update
from slackwater.kinds.registry import kind_of, query_of
from slackwater.log.base import Entry, cut
from slackwater.log.records import Record, Registered, TableDefined, TimePassed, Unregistered, Updates

_UNKNOWN = object()


@dataclass(slots=True)
class _Versions:
    """The rows that a key has had, None where it had none, and the positions from which on."""

    since: list[int] = field(default_factory=list)
    rows: list[Row | None] = field(default_factory=list)
    rank: tuple[int, str, int] | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A query under an epoch, in force from a position on; without a query it was dropped there."""

    since: int
    epoch: int
    query: StandingQuery | None


class Truth:
    """The log itself, held in memory for all nodes to read, and the truth at each of its positions."""

    def __init__(self, table: TableSchema, bind: Callable[[str], StandingQuery]) -> None:
        self.table = table
        self.lineage = Lineage()
        """The incarnations of the log: none where no node writes it alone."""
        self.writable = True
        """Whether its writer is there; nothing is appended otherwise."""
        self.end = Position(0)
        self._bind = bind
        self._entries: list[Entry] = []
        self._firsts: list[int] = []
        self._versions: dict[Key, _Versions] = {}
        self._standing: dict[int, list[Standing]] = {}
        self._ticks: list[tuple[int, int]] = []
        """Where each tick of the log clock ends, and its time."""
        self._answers: dict[tuple[StandingQuery, int], object] = {}
        self._updates: dict[int, list[Update]] = {}
        """The updates of each batch, by its first position."""
        self.append([TableDefined(table)])

    def copy(self, upto: int) -> "Truth":
        """The log as a copy has it that was made when it ended there."""
        made = Truth(self.table, self._bind)
        made.lineage = self.lineage.upto(Position(upto))
        for entry in self._entries[1:]:
            if entry.first >= upto:
                break
            if isinstance(entry.record, Updates):
                made.change(self._updates[entry.first][: upto - entry.first])
            else:
                made.append([entry.record])
        return made

    def append(self, records: list[Record]) -> None:
        """Append to the log anything but updates."""
        for record in records if self.writable else ():
            entry = Entry(self.end, record)
            self._entries.append(entry)
            self._firsts.append(entry.first)
            self.end = entry.end
            match record:
                case Registered():
                    number = entry.first if record.number is None else record.number
                    known = self._standing.setdefault(number, [])
                    if not known or (known[-1].query is not None and known[-1].epoch < record.epoch):
                        query = self._bind(record.text) if record.query is None else query_of(record.query, record.text)
                        known.append(Standing(entry.end, record.epoch, query))
                case Unregistered():
                    known = self._standing.get(record.number, [])
                    if known and known[-1].query is not None:
                        known.append(Standing(entry.end, known[-1].epoch, None))
                case TimePassed(time):
                    self._ticks.append((entry.end, time))
                case _:
                    pass

    def change(self, updates: list[Update]) -> None:
        """Append updates."""
        if not self.writable:
            return
        self._updates[self.end] = updates
        for place, update in enumerate(updates):
            self._update(self.end + place + 1, update)
        self.append([Updates(self.table.name, to_batch(self.table, updates))])

    def read(self, start: int, end: int) -> list[Entry]:
        """The entries between two positions, batches cut to fit."""
        first = bisect_right(self._firsts, start) - 1
        found = []
        for entry in self._entries[first:]:
            if entry.first >= end:
                break
            found.append(cut(entry, Position(start), Position(end)))
        return found

    def ticks(self, position: int) -> tuple[int, int]:
        """The times of the last two ticks of the log up to a position; 0 where there are none."""
        place = bisect_right(self._ticks, position, key=lambda tick: tick[0])
        before, last = [0, 0, *(time for _, time in self._ticks[:place][-2:])][-2:]
        return before, last

    def standing(self, number: int, position: int) -> Standing | None:
        """The form in which a query was in force at a position."""
        known = self._standing.get(number, [])
        place = bisect_right(known, position, key=lambda one: one.since) - 1
        return known[place] if place >= 0 else None

    def standing_now(self) -> dict[int, Standing]:
        """All queries that are in force at the end."""
        return {number: known[-1] for number, known in self._standing.items() if known[-1].query is not None}

    def value(self, query: StandingQuery, position: int) -> float | None:
        """The true value of a query for one number."""
        value = self._answer(query, position)
        assert value is None or isinstance(value, float)
        return value

    def column(self, name: str, position: int) -> dict[Key, float]:
        """What stands in a column of numbers, by key, where it is not null."""
        place = self.table.index(name)
        cells = {self.table.key_of(row): row[place] for row in self._rows(position)}
        return {key: cell for key, cell in cells.items() if isinstance(cell, float)}

    def rows(self, query: StandingQuery, position: int) -> dict[Row, Row]:
        """The true rows of a query for rows, by key."""
        rows = self._answer(query, position)
        assert isinstance(rows, dict)
        return rows

    def _answer(self, query: StandingQuery, position: int) -> object:
        answer = self._answers.get((query, position), _UNKNOWN)
        if answer is _UNKNOWN:
            names = [column.name for column in self.table.columns]
            rows = {self.table.key_of(row): dict(zip(names, row, strict=True)) for row in self._rows(position)}
            answer = self._answers[query, position] = kind_of(query).recompute(query, {self.table.name: rows})
        return answer

    def _rows(self, position: int) -> list[Row]:
        rows = []
        for versions in self._versions.values():
            place = bisect_right(versions.since, position) - 1
            row = versions.rows[place] if place >= 0 else None
            if row is not None:
                rows.append(row)
        return rows

    def _update(self, end: int, update: Update) -> None:
        versions = self._versions.setdefault(self.table.key_of(update.row), _Versions())
        if versions.rank is None or update.rank > versions.rank:
            versions.rank = update.rank
            versions.since.append(end)
            versions.rows.append(None if update.operation is Operation.DELETE else update.row)
