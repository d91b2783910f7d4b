"""kill -9 under load: what was acknowledged is there once, and clients that come back end with the right answers."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

import slackwater.client as client_library
from slackwater.core.types import Position
from slackwater.server.node import Node, NodeSettings
from tests.support.server_process import ServerProcess

LINES = {"content-type": "application/x-ndjson"}
KEYS = 20


@dataclass
class Sender:
    """Sends numbered rows one after the other, each until it is acknowledged."""

    name: str
    url: str
    acknowledged: int = 0
    latest: dict[str, float] = field(default_factory=dict)

    async def run(self, stop: asyncio.Event) -> None:
        rng = random.Random(self.name)
        async with httpx.AsyncClient(timeout=5) as web:
            while not stop.is_set():
                key, value = f"{self.name}{rng.randrange(KEYS)}", float(rng.randrange(1000))
                body = f'{{"k": "{key}", "v": {value}, "n": {self.acknowledged}}}\n'
                address = f"{self.url}/v1/tables/t/rows?source={self.name}&first={self.acknowledged}"
                if await self._until_acknowledged(web, address, body):
                    self.latest[key] = value
                    self.acknowledged += 1

    async def _until_acknowledged(self, web: httpx.AsyncClient, address: str, body: str) -> bool:
        while True:
            try:
                answer = await web.post(address, content=body, headers=LINES)
            except httpx.TransportError:
                await asyncio.sleep(0.02)
                continue
            if answer.status_code == 200:
                receipt = answer.json()
                assert receipt["accepted"] + receipt["repeats"] == 1, receipt
                return True
            assert answer.status_code in (429, 503), answer.text
            await asyncio.sleep(0.02)


class Supervised:
    """The same server under `slackwater up`, which starts it again by itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "server"
        self.url = ""
        self._deployment = folder / "slackwater.toml"
        self._reports = folder / "reports"
        self._starts = 0
        self._up: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._up is None:
            self._deployment.parent.mkdir(parents=True, exist_ok=True)
            self._deployment.write_text("[server]\nsnapshot_every = 100\nlease = 1.0\n")
            command = [sys.executable, "-m", "slackwater", "up", str(self._deployment), "--json"]
            with self._reports.open("wb") as reports:
                self._up = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=reports)
        self._starts += 1
        give_up = time.monotonic() + 60
        while (told := self._told())["starts"] < self._starts or told["url"] is None:
            assert time.monotonic() < give_up, self.report()
            time.sleep(0.02)
        self.url = told["url"]

    def kill(self) -> None:
        os.kill(self._told()["pid"], signal.SIGKILL)

    def stop(self) -> None:
        if self._up is not None:
            self._up.terminate()
            assert self._up.wait(timeout=60) == 0

    def report(self) -> str:
        return self._reports.read_text()

    def _told(self) -> dict[str, Any]:
        try:
            told: dict[str, Any] = json.loads((self._deployment.parent / "up.json").read_text())["processes"]["server"]
        except OSError:
            return {"starts": 0}
        return told


async def killed_under_load(server: ServerProcess | Supervised, kills: int) -> None:
    folder = server.folder
    await asyncio.to_thread(server.start)
    try:
        sql = "CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE, n BIGINT)"
        httpx.post(f"{server.url}/v1/tables", json={"sql": sql}).raise_for_status()
        senders = [Sender(name, server.url) for name in "abc"]
        stop = asyncio.Event()
        sending = [asyncio.create_task(sender.run(stop)) for sender in senders]
        async with client_library.connect(server.url) as client:
            total = client.subscribe("SUBSCRIBE SELECT SUM(v) FROM t WITHIN 50")
            rows = client.subscribe("SUBSCRIBE SELECT k, v FROM t WHERE v >= 500")
            for _ in range(kills):
                await asyncio.sleep(random.uniform(0.3, 0.8))
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await asyncio.sleep(0.5)
            stop.set()
            await asyncio.gather(*sending)
            latest = {key: value for sender in senders for key, value in sender.latest.items()}
            high = {(key, value) for key, value in latest.items() if value >= 500}

            def right() -> bool:
                if not (total.certain and rows.certain) or total.value is None:
                    return False
                held = {(row["k"], row["v"]) for row in rows.rows}
                return abs(total.value - sum(latest.values())) <= 50 and held == high

            await eventually(right, lambda: f"{total} {rows} {sum(latest.values())} {high}")
        _check_store(server, senders, latest)
    finally:
        await asyncio.to_thread(server.stop)
    assert "Traceback" not in server.report()
    _check_log(folder, senders)


async def eventually(true: Callable[[], bool], told: Callable[[], str], seconds: float = 20) -> None:
    give_up = asyncio.get_running_loop().time() + seconds
    while not true():
        assert asyncio.get_running_loop().time() < give_up, told()
        await asyncio.sleep(0.05)


def _check_store(server: ServerProcess | Supervised, senders: list[Sender], latest: dict[str, float]) -> None:
    answer = httpx.post(f"{server.url}/v1/query", json={"sql": "SELECT k, v FROM t"}).json()
    assert dict(answer["rows"]) == latest
    assert sum(sender.acknowledged for sender in senders) > 0


def _check_log(folder: Path, senders: list[Sender]) -> None:
    """Every acknowledged row is in the log, and each once."""
    from slackwater.log import LocalLog, Updates

    found: dict[str, list[int]] = {}
    with LocalLog(folder / "log", read_only=True) as log:
        for entry in log.read(Position(0)):
            if isinstance(entry.record, Updates):
                for row in entry.record.batch.to_pylist():
                    found.setdefault(row["$source"], []).append(row["$seq"])
    assert found == {sender.name: list(range(sender.acknowledged)) for sender in senders}


async def test_one_kill(folder: Path) -> None:
    await killed_under_load(ServerProcess(folder, "--snapshot-every", "100", "--lease", "1"), 1)


@pytest.mark.slow
async def test_twenty_kills_under_up(folder: Path) -> None:
    await killed_under_load(Supervised(folder), 20)


def test_snapshots_older_ones_and_the_log_alone_lead_to_the_same_state(folder: Path) -> None:
    with ServerProcess(folder, "--snapshot-every", "1") as server:
        httpx.post(f"{server.url}/v1/tables", json={"sql": "CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE)"})
        httpx.post(f"{server.url}/v1/subscriptions", json={"sql": "SUBSCRIBE s AS SELECT SUM(v) FROM t WITHIN 3"})
        for number in range(30):
            body = "".join(f'{{"k": "k{one}", "v": {number}}}\n' for one in range(10))
            httpx.post(f"{server.url}/v1/tables/t/rows?source=a&first={number * 10}", content=body, headers=LINES)
    states = []
    generations = []
    snapshots = sorted((folder / "snapshots").glob("*.snapshot"))
    assert snapshots
    for damaged in (None, snapshots[-1], snapshots[0]):
        if damaged is not None:
            damaged.write_bytes(damaged.read_bytes()[:-3])
        node = Node(NodeSettings(folder))
        try:
            states.append((node.engine.position, node.engine.host.latest("t").rows, dict(node.engine.registrations)))
            generations.append(node.generation)
        finally:
            node.close()
    assert states[0] == states[1] == states[2]
    assert generations == sorted(set(generations))
