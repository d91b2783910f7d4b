"""Log segment: one file of a local log; a header, then frames.

    offset  bytes  what
         0      8  magic `SLACKLOG`
         8      4  format version
        12      4  checksum of the header: CRC-32 of bytes 16 up to the first frame
        16      8  first position
        24      8  when the segment was begun (µs)
        32      8  first position of the segment before
        40      8  length in bytes of the segment before; 0 where there was none
        48      4  salt of the frames' checksums
        52      4  length of the catalog
        56      …  catalog and lineage as of the first position (JSON), zeros up to a multiple of 8

The file is called after its first position. It gets this name only when the header is on the disk, so a segment
with an unreadable header is damaged, never unfinished. Once the next segment exists the file does not change any
more; the next one's header says how long it is, so a file that is missing or was cut is noticed without reading it.

The catalog in the header is why old segments can be dropped without losing the definitions that stood in them. The
lineage lists the incarnations of the log (`core.lineage`); its last one wrote this segment. A writer that opens a log
begins a segment, so all records of a segment are of one incarnation. Segments of format 1 have the catalog alone.
"""

import os
import re
import struct
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from slackwater.core import disk
from slackwater.core.durable_file import write_draft
from slackwater.core.errors import LogCorrupt, LogError
from slackwater.core.lineage import Lineage, PlainLineage
from slackwater.core.types import Instant, Position
from slackwater.log.catalog import Catalog
from slackwater.log.frame import BadFrame, Head, frames, heads, stored
from slackwater.log.records import Record, decode, decode_tables, encode_tables

MAGIC = b"SLACKLOG"
VERSION = 2
_WITHOUT_LINEAGE = 1
"""The format before logs listed their incarnations."""
SUFFIX = ".segment"
UNFINISHED = ".segment.new"
_HEADER = struct.Struct("<8sIIQqQQII")
_CHECKED_FROM = 16
_NAME = re.compile(r"[0-9]{20}\.segment")
MOST_CATALOG = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """Header of a segment."""

    first: Position
    begun: Instant
    previous_first: Position
    previous_bytes: int
    salt: int
    catalog: Catalog
    lineage: Lineage = Lineage()  # noqa: RUF009  an immutable value

    def to_bytes(self) -> bytes:
        """The header as it is stored."""
        tables = msgspec.Raw(encode_tables(self.catalog.tables))
        catalog = msgspec.json.encode(_History(tables, self.lineage.plain()))
        if len(catalog) > MOST_CATALOG:
            raise LogError(f"the definitions of all tables take {len(catalog)} bytes, more than {MOST_CATALOG}")
        fixed = _HEADER.pack(
            MAGIC,
            VERSION,
            0,
            self.first,
            self.begun,
            self.previous_first,
            self.previous_bytes,
            self.salt,
            len(catalog),
        )
        checked = fixed[_CHECKED_FROM:] + catalog + bytes(-len(catalog) % 8)
        return fixed[:12] + zlib.crc32(checked).to_bytes(4, "little") + checked


def read_header(descriptor: int, name: str) -> tuple[SegmentHeader, int]:
    """Read a segment's header; return it and the offset of the first frame."""
    fixed = disk.read(descriptor, _HEADER.size, 0)
    if len(fixed) < _HEADER.size:
        raise LogCorrupt(f"{name} is damaged: it has {len(fixed)} bytes, fewer than a segment's header")
    magic, version, checksum, first, begun, previous_first, previous_bytes, salt, length = _HEADER.unpack(fixed)
    if magic != MAGIC:
        raise LogCorrupt(f"{name} is damaged: it does not begin with {MAGIC.decode()}")
    if version not in (VERSION, _WITHOUT_LINEAGE):
        raise LogError(f"{name} has format {version}, this version reads {VERSION}; use the version that wrote it")
    padded = min(length, MOST_CATALOG) + (-length % 8)
    catalog = disk.read(descriptor, padded, _HEADER.size)
    if len(catalog) < padded or zlib.crc32(fixed[_CHECKED_FROM:] + catalog) != checksum:
        raise LogCorrupt(f"{name} is damaged: the checksum of its header is wrong")
    if name != file_name(Position(first)):
        raise LogCorrupt(f"{name} begins at position {first}, so it should be called {file_name(Position(first))}")
    tables, lineage = _history(name, version, catalog[:length])
    header = SegmentHeader(
        first=Position(first),
        begun=Instant(begun),
        previous_first=Position(previous_first),
        previous_bytes=previous_bytes,
        salt=salt,
        catalog=Catalog(decode_tables(tables)),
        lineage=lineage,
    )
    return header, _HEADER.size + padded


class _History(msgspec.Struct):
    """Variable part of a header."""

    tables: msgspec.Raw
    lineage: PlainLineage


def _history(name: str, version: int, content: bytes) -> tuple[bytes, Lineage]:
    """The encoded tables of a header, and its lineage."""
    if version == _WITHOUT_LINEAGE:
        return content, Lineage()
    try:
        plain = msgspec.json.decode(content, type=_History)
        return bytes(plain.tables), Lineage.read(plain.lineage)
    except (msgspec.MsgspecError, ValueError) as error:
        raise LogCorrupt(f"{name} is damaged: its incarnations cannot be read: {error}") from error


def file_name(first: Position) -> str:
    """The name of the segment that begins at a position; names sort as positions do."""
    return f"{first:020d}{SUFFIX}"


def segment_files(folder: Path) -> list[Path]:
    """The segments of a folder in order."""
    try:
        return sorted(file for file in folder.iterdir() if _NAME.fullmatch(file.name))
    except OSError as error:
        raise LogError(f"there is no readable log at {folder}: {error.strerror}") from error


class _Index:
    """Offset index of a segment: first position and file offset of each frame."""

    __slots__ = ("firsts", "offsets")

    def __init__(self) -> None:
        self.firsts = array("Q")
        self.offsets = array("Q")

    def add(self, first: Position, offset: int) -> None:
        # The offset first: a reader that finds the position finds its offset too, also from another thread.
        self.offsets.append(offset)
        self.firsts.append(first)


class Segment:
    """A segment as a log knows it: its header, how far it reaches, and where its frames lie.

    `end` and `size` are the position and the byte after the last frame that may be read, `catalog` the tables by
    then. They are final in a segment that has a successor and grow in the last one.
    """

    def __init__(self, path: Path, header: SegmentHeader, data_offset: int, fixed: bytes) -> None:
        self.path = path
        self.header = header
        self._fixed = fixed
        self.data_offset = data_offset
        self.end = header.first
        self.size = data_offset
        self.catalog = header.catalog
        self._index = _Index()

    @classmethod
    def load(cls, path: Path) -> "Segment":
        """Read a segment's header from its file."""
        with disk.opened(path) as descriptor:
            header, data_offset = read_header(descriptor, path.name)
            fixed = disk.read(descriptor, _HEADER.size, 0)
        return cls(path, header, data_offset, fixed)

    @property
    def replaced(self) -> bool:
        """True if another file stands under its name, or less of it, as after a restore from a copy."""
        try:
            with disk.opened(self.path) as descriptor:
                return disk.read(descriptor, _HEADER.size, 0) != self._fixed or os.fstat(descriptor).st_size < self.size
        except FileNotFoundError:
            return True

    @property
    def first(self) -> Position:
        """The position of its first record."""
        return self.header.first

    @property
    def empty(self) -> bool:
        """Whether no record stands in it yet."""
        return self.end == self.first

    def seal(self, successor: SegmentHeader) -> None:
        """Take the final extent from the header of the next segment."""
        self.end = successor.first
        self.size = successor.previous_bytes
        self.forget_index()

    def grow(self, first: Position, offset: int, end: Position, size: int) -> None:
        """Note one more frame."""
        self._index.add(first, offset)
        self.end, self.size = end, size

    def define(self, record: Record) -> None:
        """Apply the next frame's record to the catalog."""
        self.catalog = self.catalog.after(record)

    def forget_index(self) -> None:
        """Give back the memory of the index; it is built again when needed."""
        self._index = _Index()

    def locate(self, descriptor: int, position: Position) -> tuple[Position, int]:
        """The first position and the offset of the frame that holds a position."""
        if position == self.first:
            return self.first, self.data_offset
        index = self._index
        if not index.firsts:
            index = _Index()
            for head in self.heads(descriptor):
                index.add(head.first, head.offset)
            self._index = index
        nth = bisect_right(index.firsts, position) - 1
        return Position(index.firsts[nth]), index.offsets[nth]

    def heads(self, descriptor: int) -> Iterator[Head]:
        """The heads of all frames, up to `size`."""
        try:
            yield from heads(descriptor, self.data_offset, self.size, self.first, self.header.salt)
        except BadFrame as bad:
            raise bad.corrupt(self.path.name) from None

    def record(self, descriptor: int, head: Head) -> Record:
        """The record of one frame."""
        try:
            for _, body in frames(descriptor, head.offset, head.next_offset, head.first, self.header.salt):
                return decode(stored(head, body))
        except BadFrame as bad:
            raise bad.corrupt(self.path.name) from None
        raise LogCorrupt(f"{self.path.name} holds no record at byte {head.offset}")


def create(folder: Path, header: SegmentHeader) -> None:
    """Make an empty segment, so that it is there whole or not at all, also after a power cut."""
    content = header.to_bytes()
    path = folder / file_name(header.first)
    draft = path.with_suffix(UNFINISHED)
    try:
        write_draft(draft, content)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    disk.rename(draft, path)


def new_header(after: Segment | None, begun: Instant, catalog: Catalog, lineage: Lineage) -> SegmentHeader:
    """The header of the segment that follows another one, or of the first."""
    salt = int.from_bytes(os.urandom(4), "little")
    if after is None:
        return SegmentHeader(Position(0), begun, Position(0), 0, salt, catalog, lineage)
    if after.empty:
        # It takes the place of a segment in which nothing stands.
        before = after.header
        first, size = before.previous_first, before.previous_bytes
        return SegmentHeader(after.end, begun, first, size, salt, catalog, lineage)
    return SegmentHeader(after.end, begun, after.first, after.size, salt, catalog, lineage)
