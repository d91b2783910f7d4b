"""Folder lock: one writer of a folder at a time. The system releases it when the process ends, however it ends."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from slackwater.core.errors import StoreError


class LockedFolder:
    """The exclusive right to write a folder, until `release`; `refusal` is the error where another writer has it."""

    def __init__(self, folder: Path, refusal: str) -> None:
        self.folder = folder
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise StoreError(refusal) from None
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let the next writer in."""
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
