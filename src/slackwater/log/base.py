"""Log protocol: one ordered, durable input; all other state is a function of it.

Contract (kept by every implementation, tested in `tests/contracts/test_log.py`)

1.  *Positions.* A record occupies as many positions as it has rows, a record that is no batch one. The first
    record ever stands at 0; there are no holes. `end` is the position after the last durable record, `start` the
    first position still held.
2.  *Durable before acknowledged.* When `append` returns, the records survive a crash of the process and of the
    machine. They become visible to readers together with or after that, never before.
3.  *Atomic in order.* The records of one `append` are contiguous and in order. A crash in the middle may keep a
    prefix of them; it never keeps part of one record, and never keeps a later one without an earlier.
4.  *Reading* from a position inside a batch begins with the rest of that batch. Reading does not block appending,
    and what a position holds never changes.
5.  *Retention.* `drop_before(position)` may forget what lies wholly before the position; reading a forgotten
    position raises `PositionGone`. The end never moves back, not even when everything is dropped and the log is
    opened again.
6.  *Damage* is never read as data: a record whose bytes changed raises `LogCorrupt`. Only an unfinished record at
    the very end, which cannot have been acknowledged, is removed when a log is opened for writing.
7.  *One writer.* A second writer is refused with `LogLocked` while the first lives; readers are never refused.
8.  *Catalog.* The log always knows which tables there are, also when retention has dropped the records that
    defined them. A definition that may not follow the present ones (`TableSchema.check_change`), or the dropping
    of a table that is not there, is refused with `SchemaError`, and nothing of that `append` is kept.
9.  *Lineage.* Each opening for writing begins an incarnation of its own where the log ends then (`core.lineage`), and
    the log lists them. A log that was restored from a copy lists another one than the log that went on without it; so
    a place, an incarnation with a position, never stands for two histories.

An `append` that raises was not acknowledged: the message says whether anything of it may have been kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol, Self

from slackwater.core.errors import LogError, PositionGone
from slackwater.core.lineage import Lineage
from slackwater.core.types import Position
from slackwater.log.catalog import Catalog
from slackwater.log.records import Quarantined, Record, Updates


@dataclass(frozen=True, slots=True)
class Entry:
    """A record at its place in the log."""

    first: Position
    record: Record

    @property
    def rows(self) -> int:
        """How many positions it occupies."""
        match self.record:
            case Updates(_, batch) | Quarantined(_, batch):
                return int(batch.num_rows)
            case _:
                return 1

    @property
    def end(self) -> Position:
        """The position after it."""
        return Position(self.first + self.rows)


class Log(Protocol):
    """Ordered, durable sequence of records; the module states its contract."""

    @property
    def start(self) -> Position:
        """The first position still held."""
        ...

    @property
    def end(self) -> Position:
        """The position after the last durable record."""
        ...

    @property
    def lineage(self) -> Lineage:
        """The incarnations, the present one last."""
        ...

    def append(self, records: Sequence[Record]) -> Position:
        """Make the records durable and return the position after them."""
        ...

    def read(self, start: Position, end: Position | None = None) -> Iterator[Entry]:
        """Yield entries from `start` up to `end` (by default the end as it is now), batches cut to fit."""
        ...

    def catalog(self, upto: Position | None = None) -> Catalog:
        """The tables as of a position, by default as of the end; cheap at any length of the log."""
        ...

    def drop_before(self, position: Position) -> Position:
        """Forget what lies wholly before the position; return the new start."""
        ...

    def close(self) -> None:
        """Release resources and locks; a later append is an error."""
        ...

    def __enter__(self) -> Self:
        """Use the log in a with statement."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the log."""
        ...


def check_range(start: Position, end: Position, held_from: Position, held_to: Position) -> None:
    """Refuse a read outside the positions that a log holds."""
    if start < held_from:
        raise PositionGone(f"position {start} is no longer in the log, which now starts at {held_from}")
    if start > held_to or end > held_to:
        raise PositionGone(f"position {max(start, end)} is not written yet; the log ends at {held_to}")
    if end < start:
        raise LogError(f"cannot read from {start} back to {end}: the end must not lie before the start")


def cut(entry: Entry, start: Position, end: Position) -> Entry:
    """The part of an entry that lies between two positions."""
    if start <= entry.first and entry.end <= end:
        return entry
    first = Position(max(start, entry.first))
    rows = min(end, entry.end) - first
    match entry.record:
        case Updates(_, batch) | Quarantined(_, batch) as record:
            return Entry(first, replace(record, batch=batch.slice(first - entry.first, rows)))
        case _:
            return entry
