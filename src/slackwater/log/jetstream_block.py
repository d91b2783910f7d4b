"""JetStream block: the wire format of one append, split into pieces that fit into messages.

    offset  bytes  a piece, the payload of one message
         0      4  marker `SWjs`
         4      4  CRC-32 of everything that follows
         8      8  first position of the block
        16      8  writer: a random number of the process that wrote it
        24      4  rows of the block
        28      4  which piece this is, from 0
        32      4  how many there are
        36      …  its part of the block

    offset  bytes  a record in a block
         0      4  rows
         4      4  length of the body
         8      2  kind
        10      2  length of the subject
        12      …  subject, UTF-8, then body

Integers are little-endian. A block is there when its last piece is: what a crash left of a block without that is
passed over, and the next block begins at the same position. So an append of one block is kept whole or not at all.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slackwater.core.errors import LogCorrupt, LogError
from slackwater.core.types import Position
from slackwater.log.records import EncodedRecord, RecordKind, StoredRecord

MARKER = b"SWjs"
_PIECE = struct.Struct("<4sIQQIII")
_RECORD = struct.Struct("<IIHH")
_CHECKED_FROM = 8
PIECE_HEAD = _PIECE.size
BLOCK_BYTES = 8 * 1024 * 1024
"""Records of one append share a block up to this size; a larger record has one for itself."""


@dataclass(frozen=True, slots=True)
class StreamPiece:
    """One message of a stream, by its place there."""

    sequence: int
    first: Position
    writer: int
    rows: int
    number: int
    count: int
    body: memoryview

    @property
    def last(self) -> bool:
        """Whether the block is whole with it."""
        return self.number == self.count - 1

    @property
    def end(self) -> Position:
        """The position after what is whole with it."""
        return Position(self.first + self.rows) if self.last else self.first


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Records that are kept together."""

    rows: int
    tables: bool
    """True if it defines or drops tables."""
    content: bytes

    def pieces(self, first: Position, writer: int, most: int) -> list[bytes]:
        """The messages that it becomes, each of at most so many bytes."""
        share = most - PIECE_HEAD
        count = max(1, -(-len(self.content) // share))
        return [
            _checked(first, writer, self.rows, number, count, self.content[number * share : (number + 1) * share])
            for number in range(count)
        ]


def _checked(first: Position, writer: int, rows: int, number: int, count: int, body: bytes) -> bytes:
    message = bytearray(_PIECE.pack(MARKER, 0, first, writer, rows, number, count) + body)
    message[4:8] = zlib.crc32(memoryview(message)[_CHECKED_FROM:]).to_bytes(4, "little")
    return bytes(message)


def read_piece(sequence: int, payload: bytes) -> StreamPiece:
    """Check and decode a message."""
    if len(payload) < PIECE_HEAD or not payload.startswith(MARKER):
        raise LogCorrupt(f"message {sequence} of the stream is no part of a log: another program wrote there")
    _, checksum, first, writer, rows, number, count = _PIECE.unpack_from(payload)
    if zlib.crc32(memoryview(payload)[_CHECKED_FROM:]) != checksum:
        raise LogCorrupt(f"message {sequence} of the stream is damaged: its checksum is wrong; put back a copy")
    return StreamPiece(sequence, Position(first), writer, rows, number, count, memoryview(payload)[PIECE_HEAD:])


def blocks(encoded: Sequence[EncodedRecord], catalog_kinds: frozenset[RecordKind]) -> list[RecordBlock]:
    """Records as blocks, in their order."""
    made: list[RecordBlock] = []
    parts: list[bytes] = []
    rows = length = 0
    tables = False
    for nth, one in enumerate(encoded):
        subject, size = one.subject.encode(), sum(len(piece) for piece in one.body)
        if size >= 2**32:
            raise LogError(f"a record of {size} bytes is too large for a log on JetStream; append smaller batches")
        parts += (_RECORD.pack(one.rows, size, one.kind, len(subject)), subject, *(bytes(piece) for piece in one.body))
        rows, length, tables = rows + one.rows, length + size, tables or one.kind in catalog_kinds
        if nth == len(encoded) - 1 or length >= BLOCK_BYTES or rows >= 2**31:
            made.append(RecordBlock(rows, tables, b"".join(parts)))
            parts, rows, length, tables = [], 0, 0, False
    return made


def records(first: Position, content: memoryview | bytes) -> Iterator[StoredRecord]:
    """The records of a whole block that begins at a position."""
    content, at = memoryview(content), 0
    while at < len(content):
        try:
            rows, size, kind, subject_length = _RECORD.unpack_from(content, at)
            body_at = at + _RECORD.size + subject_length
            subject = str(content[at + _RECORD.size : body_at], "utf-8")
            known = RecordKind(kind)
        except (struct.error, ValueError) as error:
            raise LogError(
                f"the record at position {first} cannot be read ({error}); a newer Slackwater may have written it"
            ) from None
        yield StoredRecord(first, rows, known, subject, content[body_at : body_at + size])
        first, at = Position(first + rows), body_at + size


class Assembly:
    """Puts pieces together that come in the order of the stream."""

    def __init__(self) -> None:
        self._pieces: list[StreamPiece] = []

    def add(self, piece: StreamPiece) -> tuple[Position, memoryview | bytes] | None:
        """The block that is whole with this piece: where it begins, and its content."""
        before = self._pieces[-1] if self._pieces else None
        if piece.number == 0:
            if before is not None and before.first != piece.first:
                raise LogCorrupt(f"a block that begins at position {before.first} is not whole")
            self._pieces = []
        elif before is None or (before.writer, before.first, before.number + 1, before.sequence + 1) != (
            piece.writer,
            piece.first,
            piece.number,
            piece.sequence,
        ):
            raise LogCorrupt(f"message {piece.sequence} of the stream does not follow the one before it")
        self._pieces.append(piece)
        if not piece.last:
            return None
        whole, self._pieces = self._pieces, []
        return piece.first, whole[0].body if len(whole) == 1 else b"".join(one.body for one in whole)
