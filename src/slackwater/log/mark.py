"""Durable mark: the high-water mark of the log on disk, for readers in other processes and the next writer.

After the records are on the disk and before `append` returns, the writer puts the new end into the small file
`durable`. The mark itself is not forced to the disk: after a power cut an older one may come back, but never one
that promises too much. So it is always true that everything before the mark was durable.

    offset  bytes  what
         0      8  the end of what is durable
         8      4  CRC-32 of bytes 0 to 7
"""

import os
import struct
import zlib
from pathlib import Path

from slackwater.core import disk
from slackwater.core.types import Position

MARK_FILE = "durable"
_MARK = struct.Struct("<QI")


class DurableMark:
    """The writer's side: moves the mark.

    Where the disk is full, setting the mark for the first time waits for `begin`.
    """

    def __init__(self, folder: Path, end: Position) -> None:
        self._end, self._behind = end, False
        self._descriptor = os.open(folder / MARK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self.move(end)
        except OSError as error:
            if not disk.is_full(error):
                os.close(self._descriptor)
                raise

    def begin(self) -> None:
        """Set the mark again if that failed: afterwards moving it needs no more space."""
        if self._behind:
            self.move(self._end)

    def move(self, end: Position) -> None:
        """Advance the mark: everything before this position is durable."""
        self._behind = True
        disk.write(self._descriptor, [_MARK.pack(end, zlib.crc32(end.to_bytes(8, "little")))], 0)
        self._end, self._behind = end, False

    def close(self) -> None:
        """Leave the mark where it is."""
        os.close(self._descriptor)


def read_mark(folder: Path) -> Position | None:
    """Read the mark; None where there is none, or where a power cut or a concurrent write tore it."""
    try:
        with disk.opened(folder / MARK_FILE) as descriptor:
            content = disk.read(descriptor, _MARK.size, 0)
    except FileNotFoundError:
        return None
    if len(content) < _MARK.size:
        return None
    end, checksum = _MARK.unpack(content)
    return Position(end) if zlib.crc32(content[:8]) == checksum else None
