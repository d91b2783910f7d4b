"""How long the event loop of a server is held while it serves live subscriptions and takes snapshots.

    python -m benchmarks.held_loop --seconds 600

The load is that of `live_subscriptions`: 10 000 sums over 2 000 connections, 1 000 rows a second. Beside it the server
holds a table of a million rows, and a snapshot of everything is due every 30 000 rows. A request that comes at a random
moment waits for at most the figures given; snapshots are counted by their files.
"""

import argparse
import asyncio
import json
import resource
import tempfile
import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from benchmarks import report
from benchmarks.live_subscriptions import LEASE_SECONDS, _listening, dial, live
from benchmarks.measured_server import FILE
from tests.support.server_process import ServerProcess

ROWS, EVERY, A_REQUEST = 1_000_000, 30_000, 50_000
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


class MeasuredServer(ServerProcess):
    """The server in a process that measures itself."""

    program = ("-m", "benchmarks.measured_server")


def load(url: str) -> None:
    """A table of a million rows, which stay as they are."""
    with httpx.Client(base_url=url, timeout=120) as web:
        sql = "CREATE TABLE readings (sensor TEXT PRIMARY KEY, celsius DOUBLE, room BIGINT)"
        web.post("/v1/tables", json={"sql": sql}).raise_for_status()
        for start in range(0, ROWS, A_REQUEST):
            numbers = np.arange(start, start + A_REQUEST)
            batch = pa.record_batch(
                {"sensor": [f"sensor {n}" for n in numbers], "celsius": numbers / 7, "room": numbers % 1000}
            )
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            path = f"/v1/tables/readings/rows?source=load&first={start}"
            web.post(path, content=sink.getvalue().to_pybytes(), headers=ARROW).raise_for_status()


def share(held: list[tuple[int, int]], wanted: float) -> int:
    """The milliseconds that so large a share of all moments stays within."""
    total, seen = sum(count for _, count in held), 0
    for milliseconds, count in sorted(held):
        seen += count
        if seen >= wanted * total:
            return milliseconds + 1
    return 0


class SnapshotCount(threading.Thread):
    """Counts the snapshots of a folder by their names."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.names: set[str] = set()
        self.over = threading.Event()

    def run(self) -> None:
        """Look twice a second."""
        while not self.over.wait(0.5):
            if self.folder.is_dir():
                self.names |= {one.name for one in self.folder.iterdir() if one.name.endswith(".snapshot")}


def main(seconds: float = 60.0) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    figures: dict[str, Any] = {"command": f"python -m benchmarks.held_loop --seconds {seconds:g}"}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        arguments = ("--lease", str(LEASE_SECONDS), "--snapshot-every", str(EVERY))
        with MeasuredServer(Path(folder) / "live", *arguments) as server:
            load(server.url)
            counting = SnapshotCount(server.folder / "snapshots")
            counting.start()
            port, pid = server.port, int(_listening(server).pid)
            looks: list[dict[int, int]] = []

            def look() -> dict[str, float]:
                looks.append(dict(json.loads((server.folder / FILE).read_text())["held"]))
                return {}

            # It looks when all have subscribed, and when the last row is sent.
            figures["live"] = asyncio.run(live(lambda *how: dial(port, *how), pid, server.url, seconds, look))
            counting.over.set()
        before, after = looks
        held = [(at, count - before.get(at, 0)) for at, count in after.items()]
        figures["rows"], figures["snapshots"] = ROWS, len(counting.names)
        figures["held_ms"] = {
            name: share(held, part) for name, part in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("most", 1.0))
        }
    report.write("held_loop", figures)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--seconds", type=float, default=60.0, help="how long rows are sent")
    main(arguments.parse_args().seconds)
