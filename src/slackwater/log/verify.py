"""Log verification: reads a whole local log and lists every damage in it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slackwater.core import disk
from slackwater.core.errors import LogError
from slackwater.core.types import Position
from slackwater.log.frame import BadFrame, find_heads, frames, stored
from slackwater.log.lock import writers_shut_out
from slackwater.log.mark import read_mark
from slackwater.log.records import decode
from slackwater.log.segment import SegmentHeader, file_name, read_header, segment_files

Progress = Callable[[int, int], None]
"""Callback with the bytes done, and the total."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is wrong: in which file, at which byte, and the position that should stand there."""

    file: str
    offset: int
    position: Position
    what: str


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of a verification.

    `unfinished_bytes` at the end are no damage: a write under way, or one that a crash interrupted.
    """

    segments: int
    records: int
    rows: int
    size: int
    start: Position
    end: Position
    unfinished_bytes: int
    damage: tuple[Damage, ...]

    @property
    def sound(self) -> bool:
        """True if everything that was durable can be read."""
        return not self.damage


def verify(path: str | Path, progress: Progress | None = None) -> Verification:
    """Read and check every byte of the log in a folder; never raises because of damage in it.

    The log may be written meanwhile: what becomes durable after the beginning is not looked at.
    """
    try:
        return _SegmentCheck(Path(path), progress or (lambda done, total: None)).run()
    except OSError as error:
        raise LogError(f"the log at {path} cannot be read: {error}") from error


class _SegmentCheck:
    """The state of one verification."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        with writers_shut_out(folder) as self._alone:
            self._mark = read_mark(folder)
            self._files = segment_files(folder)
            if not self._files:
                raise LogError(f"there is no log at {folder}: it holds no segments")
            self._lengths = [_length(file) for file in self._files]
        self._progress = progress
        self._total = sum(self._lengths)
        self._done = 0
        self._records = 0
        self._rows = 0
        self._unfinished = 0
        self._damage: list[Damage] = []
        self._position = Position(int(self._files[0].name[:20]))
        self._start = self._position

    def run(self) -> Verification:
        before: tuple[Position, int] | None = None
        for file, length in zip(self._files, self._lengths, strict=True):
            last = file is self._files[-1]
            try:
                self._segment(file, length, before, last=last)
            except FileNotFoundError:
                pass  # dropped by the writer while we were reading
            except OSError as error:
                self._note(file, 0, f"the file cannot be read: {error.strerror}")
            before = (Position(int(file.name[:20])), length)
            self._done += length
            self._progress(self._done, self._total)
        if self._alone and self._mark is not None and self._mark > self._position and not self._damage:
            self._note(self._files[-1], self._lengths[-1], f"everything before {self._mark} had been written durably")
        return Verification(
            segments=len(self._files),
            records=self._records,
            rows=self._rows,
            size=self._total,
            start=self._start,
            end=self._position,
            unfinished_bytes=self._unfinished,
            damage=tuple(self._damage),
        )

    def _note(self, file: Path, offset: int, what: str, position: Position | None = None) -> None:
        at = self._position if position is None else position
        self._damage.append(Damage(file.name, offset, at, what))

    def _segment(self, file: Path, length: int, before: tuple[Position, int] | None, *, last: bool) -> None:
        first = Position(int(file.name[:20]))
        with disk.opened(file) as descriptor:
            try:
                header, offset = read_header(descriptor, file.name)
            except LogError as error:
                self._note(file, 0, str(error), first)
                return
            self._check_link(file, header, before)
            self._position = first
            stop = length
            while offset < stop:
                try:
                    offset = self._frames(file, descriptor, offset, stop, header.salt)
                    break
                except BadFrame as bad:
                    if last and self._may_be_unfinished(descriptor, bad, stop, header.salt):
                        self._unfinished = stop - bad.offset
                        return
                    self._note(file, bad.offset, bad.why)
                    offset = self._resume(descriptor, bad, stop, header.salt)

    def _check_link(self, file: Path, header: SegmentHeader, before: tuple[Position, int] | None) -> None:
        """Compare the header's record of the segment before with that segment."""
        if before is None:
            return
        first, length = before
        if header.previous_first != first:
            missing = header.previous_first
            self._damage.append(Damage(file_name(missing), 0, missing, f"missing: {file.name} follows it"))
        elif header.previous_bytes != length:
            what = f"{length} bytes where {header.previous_bytes} were written"
            self._damage.append(Damage(file_name(first), min(length, header.previous_bytes), self._position, what))

    def _frames(self, file: Path, descriptor: int, offset: int, stop: int, salt: int) -> int:
        """Check frames in order; return the offset after the last that counts."""
        for head, body in frames(descriptor, offset, stop, self._position, salt):
            if not self._alone and self._mark is not None and head.first >= self._mark:
                self._unfinished = stop - head.offset  # being written just now
                return stop
            try:
                decode(stored(head, body))
            except LogError as error:
                self._note(file, head.offset, str(error))
            self._records += 1
            self._rows += head.rows
            self._position = head.end
            offset = head.next_offset
            self._progress(self._done + offset, self._total)
        return offset

    def _may_be_unfinished(self, descriptor: int, bad: BadFrame, stop: int, salt: int) -> bool:
        if self._mark is not None and self._mark > self._position:
            return False
        return all(later.settled <= self._position for later in find_heads(descriptor, bad.offset + 8, stop, salt))

    def _resume(self, descriptor: int, bad: BadFrame, stop: int, salt: int) -> int:
        """Find where reading can go on after damage."""
        for later in find_heads(descriptor, bad.offset + 8, stop, salt):
            if later.first >= self._position and later.next_offset <= stop:
                self._position = later.first
                return later.offset
        return stop


def _length(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
