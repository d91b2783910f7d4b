"""Spark host as a child process, and the killing of its executors."""

import os
import random
import signal
import subprocess
import sys
import uuid
from pathlib import Path

MARK = "SLACKWATER_TEST_RUN"


def marked(mark: str, word: bytes = b"") -> list[int]:
    """The processes of a host that are there, those with this word in their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                ours = f"{MARK}={mark}".encode() in (folder / "environ").read_bytes()
                if ours and word in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


class HostProcess:
    """`slackwater up-spark` in a process of its own, as `slackwater up` starts it."""

    def __init__(self, log: Path, folder: Path, master: str) -> None:
        self._command = [sys.executable, "-m", "slackwater", "up-spark", str(log), str(folder), "--master", master]
        self.mark = uuid.uuid4().hex
        self._reports = folder.with_suffix(".reports")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._reports.open("ab") as reports:
            self._process = subprocess.Popen(
                self._command, stdout=reports, stderr=reports, env={**os.environ, MARK: self.mark}
            )

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(60)
            finally:
                for pid in marked(self.mark):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        continue

    def report(self) -> str:
        return self._reports.read_text(errors="replace")


def kill_executor(host: HostProcess) -> bool:
    executors = marked(host.mark, b"CoarseGrainedExecutorBackend")
    assert executors, host.report()
    os.kill(random.choice(executors), signal.SIGKILL)
    return False
