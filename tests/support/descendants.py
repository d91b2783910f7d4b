"""Processes that carry a mark: everything that a test started, and what was started by that, however deep."""

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_MARK = "SLACKWATER_TEST_MARK"


@dataclass(frozen=True, slots=True)
class Marked:
    """A mark in the environment, which is inherited."""

    mark: str

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, _MARK: self.mark}

    def alive(self) -> dict[int, str]:
        """The processes that carry it, with their command lines; none that have ended and wait to be reaped."""
        found = {}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                carries = f"{_MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
                if carries:
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return found

    def gone(self, seconds: float) -> dict[int, str]:
        """Wait until none is left; those that are, after so many seconds."""
        give_up = time.monotonic() + seconds
        while (left := self.alive()) and time.monotonic() < give_up:
            time.sleep(0.05)
        return left


@contextmanager
def marked() -> Iterator[Marked]:
    """A mark of its own; whatever carries it at the end is killed."""
    mark = Marked(uuid.uuid4().hex)
    try:
        yield mark
    finally:
        for pid in mark.alive():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
