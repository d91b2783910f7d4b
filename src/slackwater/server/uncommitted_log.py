"""Log overlay of group commit: records that are appended but not durable yet, as if they were in the log.

Requests run one after the other against this overlay, and each sees the records before it. The second of two requests
that create the same table is refused, though nothing is on the disk yet. `flush` writes all records with one append;
only after it may a caller be answered. If the append fails, all uncommitted records are forgotten.
"""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from slackwater.core.errors import OutcomeUnknown
from slackwater.core.lineage import Lineage
from slackwater.core.types import Position
from slackwater.log import Catalog, Entry, Log, Quarantined, Record, Updates
from slackwater.log.base import check_range, cut
from slackwater.log.records import encode


class UncommittedLog:
    """A `Log` in front of another one, for one thread."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._gathered: list[Entry] = []
        self._end = log.end
        self._catalog = log.catalog()
        self.flushed: tuple[Entry, ...] = ()
        """What the latest flush has made durable."""

    @property
    def start(self) -> Position:
        """The first position still held."""
        return self._log.start

    @property
    def end(self) -> Position:
        """The position after the last record, gathered ones included."""
        return self._end

    @property
    def lineage(self) -> Lineage:
        """The incarnations, the present one last."""
        return self._log.lineage

    def append(self, records: Sequence[Record]) -> Position:
        """Gather the records; they are not durable before `flush` has returned."""
        catalog, end, entries = self._catalog, self._end, []
        for record in records:
            catalog = catalog.after(record)
            if not isinstance(record, Updates | Quarantined):
                # What cannot be stored must be refused here, where it is known whose it is. Batches come from
                # admission, which makes no others.
                encode(record)
            entries.append(Entry(end, record))
            end = entries[-1].end
        self._catalog, self._end = catalog, end
        self._gathered += entries
        return end

    def flush(self) -> Position:
        """Make everything gathered durable."""
        self.flushed = ()
        if self._gathered:
            end = self._log.append([entry.record for entry in self._gathered])
            gathered, self._gathered = self._gathered, []
            if end != self._end:
                expected, self._end = self._end, end
                raise OutcomeUnknown(f"the log ends at {end} and not at {expected}: another program wrote to it")
            self.flushed = tuple(gathered)
        return self._end

    def forget(self) -> None:
        """Drop what was gathered, as after a failed flush."""
        self._gathered = []
        self._end, self._catalog = self._log.end, self._log.catalog()

    def read(self, start: Position, end: Position | None = None) -> Iterator[Entry]:
        """Yield entries from `start` up to `end`, gathered ones included."""
        end = self._end if end is None else end
        check_range(start, end, self.start, self._end)
        durable = self._gathered[0].first if self._gathered else self._end
        if start < durable:
            yield from self._log.read(start, Position(min(end, durable)))
        for entry in self._gathered:
            if start < entry.end and entry.first < end:
                yield cut(entry, start, end)

    def catalog(self, upto: Position | None = None) -> Catalog:
        """The tables as of a position, by default as of the end, gathered records included."""
        return self._catalog if upto is None or upto == self._end else self._log.catalog(upto)

    def drop_before(self, position: Position) -> Position:
        """Forget what lies wholly before the position."""
        return self._log.drop_before(position)

    def close(self) -> None:
        """Nothing is held; the log behind stays open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
