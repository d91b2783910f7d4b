"""Local log: a folder of segment files.

    lock                            who writes, see `lock`
    durable                         how far the log is on the disk, see `mark`
    00000000000000000000.segment    records from position 0 on, see `segment` and `frame`
    00000000000000731005.segment    …

A reader in another process sees what is durable and nothing else. While there is a writer it goes by the durable
mark. While there is none it takes every complete record, as the next writer will, and forces them to the disk
before it shows them.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

from slackwater.core.errors import LogError, PositionGone
from slackwater.core.lineage import Lineage
from slackwater.core.types import Instant, Position
from slackwater.log.base import Entry, check_range, cut
from slackwater.log.catalog import Catalog
from slackwater.log.follower import Follower
from slackwater.log.frame import BadFrame, frames, stored
from slackwater.log.records import CATALOG_KINDS, Record, decode
from slackwater.log.retention import SegmentSpan
from slackwater.log.segment import Segment
from slackwater.log.writer import SEGMENT_BYTES, Writer, system_time

_MOST_INDEXES = 8
"""Finished segments whose index is kept in memory; 16 bytes for each frame."""


class LocalLog:
    """A `Log` in a folder; made by opening it for writing.

    Any number of threads may use one `LocalLog`. Those that append at the same time share one flush to the disk.
    `read_only=True` follows a log that another process may be writing: `end` looks anew each time.

    >>> import tempfile
    >>> from slackwater.core import Column, DataType, TableSchema
    >>> from slackwater.log import TableDefined
    >>> quotes = TableSchema("quotes", (Column("symbol", DataType.TEXT, nullable=False),), key=("symbol",))
    >>> with tempfile.TemporaryDirectory() as folder, LocalLog(folder) as log:
    ...     end = log.append([TableDefined(quotes)])
    ...     [entry.record.schema.name for entry in log.read(log.start)], end
    (['quotes'], 1)
    """

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        segment_bytes: int = SEGMENT_BYTES,
        now: Callable[[], Instant] = system_time,
    ) -> None:
        self.path = Path(path)
        self._closed = False
        self._indexes: deque[Segment] = deque()
        self._guard = Lock()
        self._state: Writer | Follower
        if read_only:
            self._writer = None
            self._state = Follower(self.path)
        else:
            self._writer = self._state = Writer(self.path, segment_bytes, now)

    @property
    def start(self) -> Position:
        """The first position still held."""
        self._check_open()
        return self._state.look().start

    @property
    def end(self) -> Position:
        """The position after the last durable record."""
        self._check_open()
        return self._state.look().end

    @property
    def lineage(self) -> Lineage:
        """The incarnations of the log, the present one last."""
        self._check_open()
        return self._state.lineage

    @property
    def recovered_bytes(self) -> int:
        """Bytes of an unfinished write that were cut off when this log was opened for writing."""
        return 0 if self._writer is None else self._writer.recovered_bytes

    @property
    def spans(self) -> tuple[SegmentSpan, ...]:
        """The segments by position, size and age: what `Retention` decides on."""
        self._check_open()
        view = self._state.look()
        successors = [*view.segments[1:], None]
        return tuple(
            SegmentSpan(
                first=segment.first,
                end=segment.end if after else view.end,
                size=segment.size,
                sealed=after.header.begun if after else None,
            )
            for segment, after in zip(view.segments, successors, strict=True)
        )

    def append(self, records: Sequence[Record]) -> Position:
        """Make the records durable and return the position after them."""
        return self._writing().append(records)

    def read(self, start: Position, end: Position | None = None) -> Iterator[Entry]:
        """Yield entries from `start` up to `end` (by default the end as it is now), batches cut to fit."""
        self._check_open()
        view = self._state.look()
        end = view.end if end is None else end
        check_range(start, end, view.start, view.end)
        return self._entries(start, end)

    def catalog(self, upto: Position | None = None) -> Catalog:
        """The tables as of a position, by default as of the end; cheap at any length of the log."""
        self._check_open()
        view = self._state.look()
        if upto is None or upto == view.end:
            return view.catalog
        check_range(upto, upto, view.start, view.end)
        segment = view.holding(upto)
        catalog = segment.header.catalog
        with self._opened(segment, upto) as descriptor:
            for head in segment.heads(descriptor):
                if head.end > upto:
                    break
                if head.kind in CATALOG_KINDS:
                    catalog = catalog.after(segment.record(descriptor, head))
        return catalog

    def drop_before(self, position: Position) -> Position:
        """Remove the segments that lie wholly before the position; return the new start."""
        return self._writing().drop_before(position)

    def close(self) -> None:
        """Wait for appends under way, then let the next writer in."""
        if not self._closed:
            self._closed = True
            self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _entries(self, start: Position, end: Position) -> Iterator[Entry]:
        position = start
        while position < end:
            segment = self._state.known().holding(position)
            with self._opened(segment, position) as descriptor:
                first, offset = self._locate(segment, descriptor, position)
                stop = os.fstat(descriptor).st_size
                try:
                    for head, body in frames(descriptor, offset, stop, first, segment.header.salt):
                        position = head.end
                        yield cut(Entry(head.first, decode(stored(head, body))), start, end)
                        if position >= min(end, segment.end):
                            break
                    else:
                        raise BadFrame(stop, position, "the file ends before the segment does")
                except BadFrame as bad:
                    raise bad.corrupt(segment.path.name) from None

    def _locate(self, segment: Segment, descriptor: int, position: Position) -> tuple[Position, int]:
        place = segment.locate(descriptor, position)
        with self._guard:
            if segment not in self._indexes and segment is not self._state.known().last:
                self._indexes.append(segment)
                if len(self._indexes) > _MOST_INDEXES:
                    self._indexes.popleft().forget_index()
        return place

    @contextmanager
    def _opened(self, segment: Segment, position: Position) -> Iterator[int]:
        try:
            descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise PositionGone(
                f"position {position} was dropped while it was being read; the log now starts at {self.start}"
            ) from None
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _writing(self) -> Writer:
        self._check_open()
        if self._writer is None:
            raise LogError(f"the log at {self.path} was opened with read_only=True: it cannot be changed")
        return self._writer

    def _check_open(self) -> None:
        if self._closed:
            raise LogError(f"the log at {self.path} is closed; open it again")
