"""Disk primitives: positioned write, fsync, truncate, durable rename. Durable files touch the disk only here.

Everything that can fail because a disk is full or broken goes through these functions, so a test can make any of
them fail. All of them raise `OSError`; what that means is decided by the caller.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL})
"""Errors of a file system that cannot take room without writing, as some network file systems."""
_MOST_PIECES = 512
"""Pieces handed to the system in one call; the least that POSIX systems in use accept is 1024."""


def write(descriptor: int, pieces: Sequence[bytes | memoryview], offset: int) -> None:
    """Write the pieces one after the other from the offset on, without joining them first."""
    rest = [memoryview(piece) for piece in pieces]
    done = 0
    while done < len(rest):
        written = os.pwritev(descriptor, list(islice(rest, done, done + _MOST_PIECES)), offset)
        offset += written
        while done < len(rest) and written >= len(rest[done]):
            written -= len(rest[done])
            done += 1
        if written:
            # A short write: a disk that is nearly full, or a signal. Go on in the middle of a piece.
            rest[done] = rest[done][written:]


def sync(descriptor: int) -> None:
    """Return when what was written to the file, and its length, would survive a power cut."""
    _flush(descriptor)


_flush = getattr(os, "fdatasync", os.fsync)


def truncate(descriptor: int, size: int) -> None:
    """Cut the file to this many bytes."""
    os.ftruncate(descriptor, size)


def forget_cached(descriptor: int) -> None:
    """Have the file read from the disk again, where the system can: pages that wait to be written stay."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def reserve(descriptor: int, length: int) -> None:
    """Take room for so many bytes from the beginning of the file on, where nothing is written yet."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, length)
            return
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    write(descriptor, [bytes(length)], 0)


def is_full(error: OSError) -> bool:
    """True where the error is a lack of space: a full disk, a quota, a limit on the size of files."""
    return error.errno in _FULL


def sync_folder(folder: Path) -> None:
    """Return when the names in the folder would survive a power cut."""
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def rename(old: Path, new: Path) -> None:
    """Give a file its final name, and make that durable."""
    old.rename(new)
    sync_folder(new.parent)


@contextmanager
def opened(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Open a file for the length of a with statement."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read(descriptor: int, length: int, offset: int) -> bytes:
    """Read this many bytes, fewer only where the file ends."""
    got = os.pread(descriptor, length, offset)
    if not got or len(got) == length:
        return got
    pieces = [got]
    missing = length - len(got)
    while missing:
        # The system hands out at most 2 GiB at a time, and less when a signal comes.
        got = os.pread(descriptor, missing, offset + length - missing)
        if not got:
            break
        pieces.append(got)
        missing -= len(got)
    return b"".join(pieces)
