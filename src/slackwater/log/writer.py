"""Log writer with group commit: concurrent appends share one flush to the disk.

A thread that appends puts its records into a queue. If no thread is writing, it takes the whole queue, writes it,
flushes once and notifies the others. Otherwise it waits until its records are durable or until it is the next
to write. So at most two groups are under way: one on its way to the disk and one gathering.

The records of one `append` never straddle two segments. That is why a failed write can be taken back whole.

Opening begins an incarnation of the log (`core.lineage`): a segment whose header lists it. Where the disk is full that
waits for the first append that has room; until then nothing is written under the incarnation, so nothing depends on it.
The same holds for the durable mark of a folder that has none.

An append fails in one of two ways. If its bytes are taken back whole, nothing of it was kept and the writer goes on.
If a flush fails, what the disk holds is unknown, and flushing again proves nothing: the system forgets pages that it
could not write. Then the writer takes no more. The failed bytes are cut off, as far as that succeeds, so that nothing
reads them from memory as if they were on the disk; recovery on opening decides.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition

from slackwater.core import disk
from slackwater.core.errors import LogCorrupt, LogError, LogFull, PositionGone, SlackwaterError, WriterBroken
from slackwater.core.lineage import Lineage
from slackwater.core.types import Instant, Position
from slackwater.log.catalog import Catalog
from slackwater.log.frame import Prepared, head_bytes, prepare
from slackwater.log.incarnation import new_incarnation
from slackwater.log.lock import WriterLock
from slackwater.log.mark import DurableMark, read_mark
from slackwater.log.records import Record, encode
from slackwater.log.segment import UNFINISHED, Segment, create, file_name, new_header, segment_files
from slackwater.log.tail import settle
from slackwater.log.view import View, chain

SEGMENT_BYTES = 64 * 1024 * 1024
MOST_APPEND = 1024 * 1024 * 1024
"""Bytes of the largest append: it is held in memory and written in one go."""


_UNKNOWN = "part of it may have been kept; close the log, open it again and look at its end"


def system_time() -> Instant:
    """The operating system's time."""
    return Instant(time.time_ns() // 1000)


@dataclass(slots=True, eq=False)
class _Append:
    """One call of `append`, from the queue to its outcome."""

    records: Sequence[Record]
    frames: list[Prepared]
    end: Position | None = None
    error: SlackwaterError | None = None

    @property
    def size(self) -> int:
        return sum(frame.size for frame in self.frames)

    @property
    def done(self) -> bool:
        return self.end is not None or self.error is not None

    def outcome(self) -> Position:
        if self.error is not None:
            raise self.error
        assert self.end is not None, "an append is over when it has an end or an error"
        return self.end


@dataclass(slots=True)
class _Group:
    """Appends that go into the last segment together: their bytes, and what is true once they are durable."""

    offset: int
    end: Position
    catalog: Catalog
    pieces: list[bytes | memoryview] = field(default_factory=list)
    places: list[tuple[Position, int, Position, int]] = field(default_factory=list)
    appends: list[tuple[_Append, Position]] = field(default_factory=list)


class Writer:
    """Appends to the segments of a folder under an exclusive lock."""

    def __init__(self, folder: Path, segment_bytes: int, now: Callable[[], Instant]) -> None:
        if segment_bytes < 1:
            raise LogError(f"segment_bytes must be 1 or more, not {segment_bytes}")
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._now = now
        self._turn = Condition()
        self._queue: list[_Append] = []
        self._busy = False
        self._broken: str | None = None
        self.recovered_bytes = 0
        try:
            _make_folder(folder)
            self._lock = WriterLock(folder)
            try:
                self._recover()
            except BaseException:
                self._lock.release()
                raise
        except OSError as error:
            raise LogError(f"the log at {folder} cannot be opened for writing: {error}") from error

    def _recover(self) -> None:
        for draft in self._folder.glob(f"*{UNFINISHED}"):
            draft.unlink()
        promised = read_mark(self._folder)
        files = segment_files(self._folder)
        made = False
        if not files:
            if promised:
                raise LogCorrupt(
                    f"all segments are missing from {self._folder}, which held positions before {promised}; "
                    f"put them back from a copy"
                )
            header = new_header(None, self._now(), Catalog(), Lineage().begin(new_incarnation(), Position(0)))
            create(self._folder, header)
            files = [self._folder / file_name(header.first)]
            made = True
        segments = chain(files)
        last = segments[-1]
        self._descriptor = os.open(last.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            # What a flush failed to write may still stand in memory and not on the disk.
            disk.forget_cached(self._descriptor)
            torn = settle(last, self._descriptor, last.path.stat().st_size, promised)
            if torn:
                disk.truncate(self._descriptor, last.size)
                self.recovered_bytes = torn
            # Complete records that a killed writer left are kept; from here on they are durable.
            disk.sync(self._descriptor)
            self._mark = DurableMark(self._folder, last.end)
            self._view = View(segments, last.end, last.catalog)
            self.lineage = self._view.lineage
            if not made:
                self.lineage = self.lineage.begin(new_incarnation(), last.end)
                self._begin()
        except BaseException:
            os.close(self._descriptor)
            raise

    def _begin(self) -> None:
        """Begin the incarnation of this writer, or leave it to the first append if the disk is full."""
        try:
            self._roll()
        except OSError as error:
            if not disk.is_full(error) or self._broken is not None:
                raise

    def look(self) -> View:
        """View of everything durable."""
        return self._view

    known = look

    def append(self, records: Sequence[Record]) -> Position:
        """Make the records durable, together with those of other threads; return the position after them."""
        return self.append_prepared(records, [prepare(encode(record)) for record in records])

    def append_prepared(self, records: Sequence[Record], prepared: list[Prepared]) -> Position:
        """The same for records whose frames are made already."""
        own = _Append(records, prepared)
        if own.size > MOST_APPEND:
            raise LogError(f"an append of {own.size} bytes is more than the {MOST_APPEND} allowed; split it")
        group: list[_Append] = []
        taken = False
        try:
            with self._turn:
                self._queue.append(own)
                try:
                    while self._busy and not own.done:
                        self._turn.wait()
                except BaseException:
                    # Interrupted while waiting: an append whose write has not begun must not be written later.
                    if own in self._queue:
                        self._queue.remove(own)
                    raise
                if own.done:
                    return own.outcome()
                # One statement, in which no signal can come: a turn that is taken is always given back below.
                self._busy = taken = True
                group, self._queue = self._queue, []
            self._commit(group)
        finally:
            if taken:
                self._finish_turn([append for append in group if append is not own and not append.done])
        return own.outcome()

    def drop_before(self, position: Position) -> Position:
        """Remove the segments that lie wholly before the position; return the new start."""
        taken = False
        try:
            with self._turn:
                while self._busy:
                    self._turn.wait()
                self._busy = taken = True
            view = self._view
            if position > view.end:
                raise PositionGone(f"cannot drop up to {position}: the log ends at {view.end}")
            self._check_usable()
            if position == view.end and not view.last.empty:
                # An empty segment that begins at the end remembers it when all others are gone.
                self._roll()
                view = self._view
            gone = [segment for segment in view.segments[:-1] if segment.end <= position]
            self._view = View(view.segments[len(gone) :], view.end, view.catalog)
            for segment in gone:
                # Oldest first: whenever this is interrupted, what is left has no hole.
                segment.path.unlink(missing_ok=True)
            if gone:
                disk.sync_folder(self._folder)
            return self._view.start
        except OSError as error:
            self._broken = str(error)
            raise LogError(f"segments of {self._folder} could not be dropped: {error}; open the log again") from error
        finally:
            if taken:
                self._finish_turn()

    def close(self) -> None:
        """Wait for appends under way, then let the next writer in."""
        with self._turn:
            while self._busy or self._queue:
                self._turn.wait()
            self._busy = True
            self._broken = "it is closed"
        os.close(self._descriptor)
        self._mark.close()
        self._lock.release()
        self._finish_turn()

    def _finish_turn(self, left: Sequence[_Append] = ()) -> None:
        """Let the next one write; what an interrupt left unwritten stands first in its queue."""
        with self._turn:
            self._queue[:0] = left
            self._busy = False
            self._turn.notify_all()

    def _check_usable(self) -> None:
        if self._broken is not None:
            raise WriterBroken(
                f"the log at {self._folder} takes no more records: {self._broken}; nothing of this append was kept: "
                f"close the log and open it again"
            )

    def _commit(self, appends: list[_Append]) -> None:
        """Write and flush appends in order; each has an end or an error afterwards."""
        try:
            self._check_usable()
            self._mark.begin()
            if self._view.lineage != self.lineage:
                self._roll()
            group = self._new_group()
            for append in appends:
                begun = group.places or not self._view.last.empty
                if begun and group.offset + append.size > self._segment_bytes:
                    self._flush(group)
                    self._roll()
                    group = self._new_group()
                self._stage(append, group)
            self._flush(group)
        except OSError as error:
            self._fail(appends, self._failure(error))
        except LogError as error:
            self._fail(appends, error)
        except BaseException as error:
            self._broken = f"writing was interrupted by {type(error).__name__}"
            self._fail(appends, WriterBroken(f"{self._broken}; {_UNKNOWN}"))
            raise

    def _new_group(self) -> _Group:
        view = self._view
        return _Group(view.last.size, view.end, view.catalog)

    def _stage(self, append: _Append, group: _Group) -> None:
        catalog = group.catalog
        try:
            for record in append.records:
                catalog = catalog.after(record)
        except SlackwaterError as error:
            append.error = error
            return
        group.catalog = catalog
        for frame in append.frames:
            head = head_bytes(frame, group.end, self._view.end, self._view.last.header.salt)
            group.pieces += (head, *frame.pieces)
            end, offset = Position(group.end + frame.encoded.rows), group.offset + frame.size
            group.places.append((group.end, group.offset, end, offset))
            group.end, group.offset = end, offset
        group.appends.append((append, group.end))

    def _flush(self, group: _Group) -> None:
        last = self._view.last
        if group.places:
            try:
                disk.write(self._descriptor, group.pieces, last.size)
            except OSError:
                self._take_back(last.size)
                raise
            try:
                disk.sync(self._descriptor)
            except OSError as error:
                # After a failed flush the content of the disk is unknown; only recovery on opening can find out.
                self._broken = f"flushing to the disk failed ({error})"
                self._take_back(last.size)
                raise
            try:
                self._mark.move(group.end)
            except OSError as error:
                if not disk.is_full(error):
                    self._broken = f"moving the durable mark failed ({error})"
                self._take_back(last.size)
                raise
            for place in group.places:
                last.grow(*place)
            self._view = View(self._view.segments, group.end, group.catalog)
        for append, end in group.appends:
            append.end = end

    def _take_back(self, size: int) -> None:
        try:
            disk.truncate(self._descriptor, size)
            disk.sync(self._descriptor)
        except OSError as error:
            self._broken = self._broken or f"a failed write could not be taken back ({error})"

    def _roll(self) -> None:
        """Begin a new segment."""
        view = self._view
        header = new_header(view.last, self._now(), view.catalog, self.lineage)
        path = self._folder / file_name(header.first)
        try:
            create(self._folder, header)
            segment = Segment.load(path)
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            if path.exists() and not os.path.samestat(path.stat(), os.fstat(self._descriptor)):
                self._broken = f"beginning a segment failed half way ({error})"
            raise
        os.close(self._descriptor)
        self._descriptor = descriptor
        before = view.segments
        if view.last.empty:
            before = before[:-1]
        else:
            view.last.seal(header)
        self._view = View((*before, segment), view.end, view.catalog)

    def _failure(self, error: OSError) -> LogError:
        what = f"the log at {self._folder} could not be written: {error}"
        if self._broken is not None:
            return WriterBroken(f"{what}; {_UNKNOWN}")
        if disk.is_full(error):
            return LogFull(f"{what}; nothing of it was kept; free some space, then append again")
        return LogError(f"{what}; nothing of it was kept; see what the disk has, then append again")

    @staticmethod
    def _fail(appends: list[_Append], error: LogError) -> None:
        for append in appends:
            if not append.done:
                append.error = error


def _make_folder(folder: Path) -> None:
    """Make the folder and the ones above it, durably."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    disk.sync_folder(folder.parent)
