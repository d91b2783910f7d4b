"""Frame: the on-disk format of one record in a segment.

    offset  bytes  what
         0      4  marker `SWfr`
         4      4  checksum of the head: CRC-32 of bytes 8 up to the body, begun with the segment's salt
         8      4  length of the body
        12      4  checksum of the body: CRC-32, padding included
        16      8  first position
        24      8  settled: every position below it was durable before this frame was written
        32      8  earliest event time   (µs; greater than the latest where the record has none)
        40      8  latest event time
        48      4  rows
        52      2  kind
        54      2  length of the subject
        56      …  subject, UTF-8, zeros up to a multiple of 8
         …      …  body, zeros up to a multiple of 8

Integers are little-endian. The head's checksum covers the body's, so the two together cover everything, and heads
can be trusted without reading bodies: that is what makes lookups and summaries cheap.

*Settled* tells damage from an interrupted write. Frames are written in groups, and a group only after the one
before is on the disk. Suppose a frame is unreadable and a readable one follows. If the follower's `settled` lies
beyond the unreadable frame, that frame had been durable: the disk lost it. If not, both belong to the one group
that a power cut interrupted, whose pages reach the disk in any order: no append of it was acknowledged.

*Salt* is a random number of the segment. Without it a row of text could be made to look like a frame.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from slackwater.core import disk
from slackwater.core.errors import LogCorrupt, LogError
from slackwater.core.types import Instant, Position
from slackwater.log.records import MOST_SUBJECT, EncodedRecord, RecordKind, StoredRecord

MARKER = b"SWfr"
_HEAD = struct.Struct("<4sIIIQQqqIHH")
_CHECKED_FROM = 8
_LARGEST_HEAD = _HEAD.size + MOST_SUBJECT + 7
_WINDOW = 256 * 1024
_SMALL_WINDOW = 4096
_NO_EARLIEST, _NO_LATEST = 2**63 - 1, -(2**63)


class BadFrame(Exception):
    """No readable frame where one was expected; never leaves the room."""

    def __init__(self, offset: int, position: Position, why: str) -> None:
        super().__init__(why)
        self.offset = offset
        self.position = position
        self.why = why

    def corrupt(self, file: str) -> LogCorrupt:
        """The same as an error for the user."""
        return LogCorrupt(
            f"{file} is damaged at byte {self.offset}, position {self.position}: {self.why}; "
            f"`slackwater log verify` lists all damage, docs/log.md says what to do"
        )


@dataclass(frozen=True, slots=True)
class Head:
    """Header of a frame, and the frame's place in the file."""

    offset: int
    first: Position
    rows: int
    kind: int
    subject: str
    settled: Position
    earliest: Instant | None
    latest: Instant | None
    body_offset: int
    body_length: int
    body_checksum: int

    @property
    def end(self) -> Position:
        """The position after the record."""
        return Position(self.first + self.rows)

    @property
    def next_offset(self) -> int:
        """Where the next frame begins."""
        return self.body_offset + _padded(self.body_length)


def stored(head: Head, body: memoryview | bytes) -> StoredRecord:
    """Put head and body together, for decoding."""
    try:
        kind = RecordKind(head.kind)
    except ValueError:
        raise LogError(
            f"the record at position {head.first} is of kind {head.kind}, which this version does not know; "
            f"a newer Slackwater wrote it: use that version"
        ) from None
    return StoredRecord(head.first, head.rows, kind, head.subject, body)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A record's frame but for what is known only when it is written: position, settled and salt."""

    encoded: EncodedRecord
    subject: bytes
    pieces: tuple[memoryview, ...]
    body_length: int
    checksum: int

    @property
    def size(self) -> int:
        """Bytes of the whole frame."""
        return _HEAD.size + len(self.subject) + _padded(self.body_length)


def prepare(encoded: EncodedRecord) -> Prepared:
    """Do the expensive part of making a frame: the body's checksum."""
    subject = encoded.subject.encode()
    pieces = [memoryview(piece) for piece in encoded.body]
    length = sum(len(piece) for piece in pieces)
    if length % 8:
        pieces.append(memoryview(bytes(-length % 8)))
    checksum = 0
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
    padded_subject = subject + bytes(-len(subject) % 8)
    return Prepared(encoded, padded_subject, tuple(pieces), length, checksum)


def head_bytes(prepared: Prepared, first: Position, settled: Position, salt: int) -> bytes:
    """Finish a frame: the bytes that come before the body."""
    encoded = prepared.encoded
    head = _HEAD.pack(
        MARKER,
        0,
        prepared.body_length,
        prepared.checksum,
        first,
        settled,
        _NO_EARLIEST if encoded.earliest is None else encoded.earliest,
        _NO_LATEST if encoded.latest is None else encoded.latest,
        encoded.rows,
        encoded.kind,
        len(encoded.subject.encode()),
    )
    checked = head[_CHECKED_FROM:] + prepared.subject
    return MARKER + zlib.crc32(checked, salt).to_bytes(4, "little") + checked


def parse_head(window: memoryview, at: int, offset: int, salt: int) -> Head | str:
    """Read the head that starts at `window[at]` and at `offset` in the file, or raise `BadFrame`."""
    if len(window) - at < _HEAD.size:
        return "the file ends inside a frame's head"
    marker, checksum, length, body_checksum, first, settled, earliest, latest, rows, kind, subject_length = (
        _HEAD.unpack_from(window, at)
    )
    if marker != MARKER:
        return "no frame begins here"
    if subject_length > MOST_SUBJECT:
        return "the frame's head cannot be right"
    body_at = at + _HEAD.size + _padded(subject_length)
    if len(window) < body_at:
        return "the file ends inside a frame's head"
    if zlib.crc32(window[at + _CHECKED_FROM : body_at], salt) != checksum:
        return "the checksum of the frame's head is wrong"
    timed = earliest <= latest
    return Head(
        offset=offset,
        first=Position(first),
        rows=rows,
        kind=kind,
        subject=str(window[at + _HEAD.size : at + _HEAD.size + subject_length], "utf-8", "replace"),
        settled=Position(settled),
        earliest=Instant(earliest) if timed else None,
        latest=Instant(latest) if timed else None,
        body_offset=offset + body_at - at,
        body_length=length,
        body_checksum=body_checksum,
    )


def heads(descriptor: int, offset: int, stop: int, position: Position, salt: int) -> Iterator[Head]:
    """Yield the heads of the frames between two offsets, bodies unread and unchecked; raise `BadFrame`."""
    for head, _, _ in _walk(descriptor, offset, stop, position, salt, _SMALL_WINDOW):
        yield head


def frames(descriptor: int, offset: int, stop: int, position: Position, salt: int) -> Iterator[tuple[Head, memoryview]]:
    """Yield the frames between two offsets, heads with their checked bodies; raise `BadFrame`."""
    for head, window, window_offset in _walk(descriptor, offset, stop, position, salt, _WINDOW):
        at, length = head.body_offset - window_offset, _padded(head.body_length)
        if at + length <= len(window):
            body = window[at : at + length]
        else:
            body = memoryview(disk.read(descriptor, length, head.body_offset))
        if len(body) < length:
            raise BadFrame(head.offset, head.first, "the file ends inside a record")
        if zlib.crc32(body) != head.body_checksum:
            raise BadFrame(head.offset, head.first, "the checksum of the record is wrong")
        yield head, body[: head.body_length]


def _walk(
    descriptor: int, offset: int, stop: int, position: Position, salt: int, size: int
) -> Iterator[tuple[Head, memoryview, int]]:
    """Go from head to head, reading `size` bytes of the file at a time: yield the head and the window it is in."""
    window, window_offset = memoryview(b""), offset
    while offset < stop:
        at = offset - window_offset
        head = parse_head(window, at, offset, salt) if at < len(window) else ""
        if isinstance(head, str):
            # Not wholly in the window, or damaged: a fresh window holds every head whole, and tells.
            window, window_offset = memoryview(disk.read(descriptor, min(size, stop - offset), offset)), offset
            head = parse_head(window, 0, offset, salt)
        if isinstance(head, str):
            raise BadFrame(offset, position, head)
        if head.first != position:
            raise BadFrame(offset, position, f"a record of position {head.first} stands here")
        if head.rows == 0:
            raise BadFrame(offset, position, "a record without rows stands here")
        if head.next_offset > stop:
            raise BadFrame(offset, position, "the file ends inside a record")
        yield head, window, window_offset
        offset, position = head.next_offset, head.end


def find_heads(descriptor: int, offset: int, stop: int, salt: int) -> Iterator[Head]:
    """Yield every readable head that lies anywhere from the offset on: how reading goes on after damage."""
    offset += -offset % 8
    while offset < stop:
        window = disk.read(descriptor, _WINDOW + _LARGEST_HEAD, offset)
        limit = min(_WINDOW, stop - offset)
        at = window.find(MARKER)
        while 0 <= at < limit:
            head = parse_head(memoryview(window), at, offset + at, salt) if at % 8 == 0 else ""
            if isinstance(head, Head):
                yield head
            at = window.find(MARKER, at + 1)
        offset += _WINDOW


def _padded(length: int) -> int:
    return length + (-length % 8)
