"""Server process: a node as a child process; start, discovery by endpoint file, stop, kill."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from slackwater.core.errors import SlackwaterError
from slackwater.deployment.endpoint_file import STATE_FILE, Listening, read_state

START_SECONDS = 60.0
STOP_SECONDS = 20.0


class ServerProcess:
    """`slackwater serve FOLDER …` in a process of its own; what it reports goes to the file `reports`."""

    command = "serve"
    program: tuple[str, ...] = ("-m", "slackwater")
    """Arguments of Python before the command."""
    environment: Mapping[str, str] = {}
    """Variables of the process, beside those of this one."""
    descriptors: int | None = None
    """Files that the process may have open, as its soft and its hard limit; as this process, if None."""

    def __init__(self, folder: Path, *arguments: str, port: int = 0) -> None:
        self.folder = folder
        self.arguments = arguments
        self.port = port
        self.reports = folder.with_name(folder.name + ".reports")
        self._process: subprocess.Popen[bytes] | None = None
        self._file: IO[bytes] | None = None

    def start(self) -> Listening:
        """Start it and wait until it listens."""
        (self.folder / STATE_FILE).unlink(missing_ok=True)
        self._file = self.reports.open("ab")
        command = [sys.executable, *self.program, self.command, str(self.folder), "--port", str(self.port)]
        environment = {**os.environ, **self.environment}
        self._process = subprocess.Popen(
            [*command, *self.arguments],
            stdout=self._file,
            stderr=self._file,
            env=environment,
            preexec_fn=self._limit,
        )
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up:
            listening = read_state(self.folder)
            if listening is not None:
                # The port stays the same when it is started again: clients come back to it.
                self.port = listening.port
                return listening
            if self._process.poll() is not None:
                break
            time.sleep(0.01)
        self.kill()
        raise SlackwaterError(f"the server did not start: {self.report()[-2000:]}")

    def _limit(self) -> None:
        if self.descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors, self.descriptors))

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def live_url(self) -> str:
        """Where its live connections are made."""
        return f"ws://127.0.0.1:{self.port}/v1/live"

    def report(self) -> str:
        """All that it reported so far."""
        return self.reports.read_text(errors="replace") if self.reports.exists() else ""

    def wait(self) -> int:
        """Wait until it ends by itself; returns its exit code."""
        assert self._process is not None
        self._process.wait(STOP_SECONDS)
        return self._ended()

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._ended()

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        return self._ended()

    def _ended(self) -> int:
        assert self._process is not None
        code = self._process.wait()
        self._process = None
        if self._file is not None:
            self._file.close()
        return code

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class AggregatorProcess(ServerProcess):
    """`slackwater aggregate FOLDER …` in a process of its own; arguments as those of the command."""

    command = "aggregate"
