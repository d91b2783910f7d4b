"""Opening files: which format, and the bytes block by block; every failure with advice.

`.gz` is undone on the way for CSV and JSON-lines. A compressed file that ends in the middle gives the blocks that
are whole and then says what was wrong in `trouble`.
"""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO

from slackwater.core.errors import SourceError

BLOCK_BYTES = 1 << 20
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
class Trouble:
    """Why reading ended before the file did."""

    reason: str
    detail: str


def detect(path: Path) -> Format:
    """Tell the format by the name, and by the first bytes where the name says nothing.

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
    """Open a file for reading, or say why not."""
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
        self.trouble: Trouble | None = None
        self._block_bytes = block_bytes

    def __iter__(self) -> Iterator[bytes]:
        self.trouble = None
        with open_bytes(self.path) as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            if packed:
                with gzip.GzipFile(fileobj=raw, mode="rb") as unpacked:
                    yield from self._blocks(unpacked)
            else:
                yield from self._blocks(raw)

    def _blocks(self, file: "IO[bytes] | gzip.GzipFile") -> Iterator[bytes]:
        first = True
        while True:
            try:
                block = file.read(self._block_bytes)
            except EOFError:
                self.trouble = Trouble("truncated-file", "the compressed file ends in the middle")
                return
            except (gzip.BadGzipFile, zlib.error) as error:
                self.trouble = Trouble("damaged-file", f"the compressed file is damaged from here on: {error}")
                return
            except OSError as error:
                self.trouble = Trouble("unreadable-file", f"reading stopped: {error}")
                return
            if not block:
                return
            if first:
                first = False
                if block[:2] in _UTF16:
                    raise SourceError(f"{self.path} is encoded as UTF-16; convert it to UTF-8")
                block = block.removeprefix(UTF8_MARK)
            if block:
                yield block
