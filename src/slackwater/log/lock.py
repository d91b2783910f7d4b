"""Writer lock: mutual exclusion of writers by a file lock, and a probe for readers.

The writer holds an exclusive lock on the file `lock` for as long as it lives; the system releases it when the
process ends, however it ends. The file says whose it is. A reader asks by trying for a shared lock and giving it
back at once, so it can never keep a writer out for longer than that.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slackwater.core import disk
from slackwater.core.errors import LogError, LogLocked

LOCK_FILE = "lock"
_SIGNATURE = 16
_PATIENCE = 5.0
"""Seconds for which a writer waits while readers, who hold the lock for microseconds, keep asking."""


class WriterLock:
    """The exclusive right to write a folder."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK_FILE
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LogError(f"the log at {folder} cannot be opened for writing: {error.strerror}") from error
        try:
            self._acquire(folder)
            self._sign()
        except BaseException:
            os.close(self._descriptor)
            raise

    def _sign(self) -> None:
        """Say whose it is, in place and where there is room: the lock itself is the system's."""
        try:
            os.pwrite(self._descriptor, f"{os.getpid()}\n".ljust(_SIGNATURE).encode(), 0)
        except OSError as error:
            if not disk.is_full(error):
                raise

    def _acquire(self, folder: Path) -> None:
        give_up = time.monotonic() + _PATIENCE
        while not _try(self._descriptor, fcntl.LOCK_EX):
            if not _try(self._descriptor, fcntl.LOCK_SH) or time.monotonic() > give_up:
                raise LogLocked(
                    f"the log at {folder} is being written by {_holder(self._descriptor)}; "
                    f"end that one, or open the log with read_only=True"
                )
            # Only readers are asking: make room for them and try again.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            time.sleep(0.001)

    def release(self) -> None:
        """Let another writer in."""
        os.close(self._descriptor)


@contextmanager
def writers_shut_out(folder: Path) -> Iterator[bool]:
    """True if there is no writer; then none can begin inside the with statement: keep it short."""
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        yield True
        return
    try:
        yield _try(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _try(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    text = os.pread(descriptor, 32, 0).partition(b"\n")[0]
    if not text.isdigit():
        return "another process"
    return "this process already" if int(text) == os.getpid() else f"process {int(text)}"
