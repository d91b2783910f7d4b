"""File format detection and block reading, with decompression; every failure with advice.

`.gz` is undone on the way for CSV and JSON-lines. A compressed file that ends in the middle gives the blocks that
are whole and then says what was wrong in `trouble`.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO

from slackwater.core.errors import SourceError

BLOCK_BYTES = 1 << 20
_PACKED_BYTES = 4_096
_GZIP = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
UTF8_MARK = b"\xef\xbb\xbf"


class Format(Enum):
    """The kinds of file that can be read."""

    CSV = "csv"
    JSON_LINES = "jsonl"
    PARQUET = "parquet"


_SUFFIXES = {
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
    ".txt": Format.CSV,
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".json": Format.JSON_LINES,
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
}


@dataclass(frozen=True, slots=True)
class ReadFailure:
    """Why reading ended before the file did."""

    reason: str
    detail: str


def detect(path: Path) -> Format:
    """Detect the format by the file name, and by the first bytes where the name has no known suffix.

    >>> detect(Path("no/such/file.csv"))
    Traceback (most recent call last):
    slackwater.core.errors.SourceError: there is no file no/such/file.csv; check the path
    """
    with open_bytes(path) as file:
        head = file.read(4)
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    if suffixes and suffixes[-1] in _SUFFIXES:
        return _SUFFIXES[suffixes[-1]]
    if head == b"PAR1":
        return Format.PARQUET
    if head[:1] == b"{":
        return Format.JSON_LINES
    raise SourceError(
        f"cannot tell the format of {path}: expected a name that ends in {', '.join(_SUFFIXES)} (or .gz after it); "
        f"say which format it is"
    )


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading; a `SourceError` with the reason where that fails."""
    try:
        if path.is_dir():
            raise SourceError(f"{path} is a folder; name a file in it")
        return path.open("rb")
    except FileNotFoundError:
        raise SourceError(f"there is no file {path}; check the path") from None
    except PermissionError:
        raise SourceError(f"{path} may not be read by this user; change its permissions") from None
    except (OSError, ValueError) as error:
        raise SourceError(f"{path} cannot be opened: {error}") from error


class TextBlocks:
    """The bytes of a text file in blocks, unpacked, without byte-order mark.

    After the last block, `trouble` says what cut the reading short, if anything did.
    """

    def __init__(self, path: Path, block_bytes: int = BLOCK_BYTES) -> None:
        self.path = path
        self.trouble: ReadFailure | None = None
        self._block_bytes = block_bytes

    def __iter__(self) -> Iterator[bytes]:
        self.trouble = None
        with open_bytes(self.path) as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            blocks = self._unpacked(file) if packed else self._read(file)
            first = next(blocks, b"")
            if first[:2] in _UTF16:
                raise SourceError(f"{self.path} is encoded as UTF-16; convert it to UTF-8")
            yield first.removeprefix(UTF8_MARK)
            yield from blocks

    def _read(self, file: IO[bytes], size: int | None = None) -> Iterator[bytes]:
        try:
            while block := file.read(size or self._block_bytes):
                yield block
        except OSError as error:
            self.trouble = ReadFailure("unreadable-file", f"reading stopped: {error}")

    def _unpacked(self, file: IO[bytes]) -> Iterator[bytes]:
        """Put what is unpacked together into blocks."""
        held = bytearray()
        for part in self._parts(file):
            held += part
            if len(held) >= self._block_bytes:
                yield bytes(held)
                held.clear()
        if held:
            yield bytes(held)

    def _parts(self, file: IO[bytes]) -> Iterator[bytes]:
        """Unpack by hand, a little at a time: `gzip` would throw away what it had before it met the damage."""
        unpacker = None
        for packed in self._read(file, _PACKED_BYTES):
            while packed:
                # 16 + 15: with a gzip header. Several members may follow each other.
                unpacker = unpacker or zlib.decompressobj(31)
                try:
                    yield unpacker.decompress(packed, self._block_bytes)
                except zlib.error as error:
                    self.trouble = ReadFailure("damaged-file", f"the compressed file is damaged from here on: {error}")
                    return
                packed = unpacker.unconsumed_tail
                if unpacker.eof:
                    # Members may be padded with zeros.
                    packed, unpacker = unpacker.unused_data.lstrip(b"\0"), None
        if unpacker is not None and self.trouble is None:
            self.trouble = ReadFailure("truncated-file", "the compressed file ends in the middle")
