"""Restores of a real server's folder under live clients, and the truth in each history that came of it.

Rows are sent one at a time, so the receipts say which row stands where. A restore goes back to a copy of the folder, or
of the log's segments alone, and what is sent afterwards takes the positions of what was lost. What a client shows as
certain names its history by an incarnation; it is compared with the rows of that history.
"""

import asyncio
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import httpx

from slackwater.client.live.events import Shown
from slackwater.client.live.subscription import Subscription
from slackwater.log import LocalLog
from tests.support.server_process import ServerProcess

LINES = {"content-type": "application/x-ndjson"}
TABLE = "CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE)"
ROWS = "SUBSCRIBE SELECT k, v FROM t"
TOTAL = "SUBSCRIBE SELECT SUM(v) FROM t WITHIN 5"
BOUND = 5.0
KEYS = 12


class Copy(Enum):
    """What is put back."""

    FOLDER = "the whole folder"
    SEGMENTS = "the segments of the log alone"


@dataclass
class History:
    """The rows of a log, each with the position after it."""

    rows: list[tuple[int, str, float]] = field(default_factory=list)

    def upto(self, position: int) -> "History":
        return History([row for row in self.rows if row[0] <= position])

    def latest(self, position: int) -> dict[str, float]:
        """The rows by key as of a position."""
        return {key: value for at, key, value in self.rows if at <= position}


@dataclass
class Backup:
    """A copy of a server's folder, and what it holds."""

    folder: Path
    history: History
    end: int


class Restored:
    """A server whose folder is replaced now and then, and the truth in each of its histories."""

    def __init__(self, place: Path, rng: random.Random, lease: float = 1.0, *arguments: str) -> None:
        self.server = ServerProcess(place / "server", "--lease", str(lease), "--snapshot-every", "20", *arguments)
        self.place = place
        self.rng = rng
        self.history = History()
        self.histories: dict[int, History] = {}
        self.backups: list[Backup] = []
        self.copies = 0
        self.checks = 0
        self.sent = 0
        """Rows that were sent, in all histories: their numbers."""

    @property
    def log(self) -> Path:
        return self.server.folder / "log"

    @property
    def end(self) -> int:
        with LocalLog(self.log, read_only=True) as log:
            return int(log.end)

    async def start(self) -> None:
        await asyncio.to_thread(self.server.start)
        with LocalLog(self.log, read_only=True) as log:
            self.histories[log.lineage.current] = self.history

    async def define(self) -> None:
        async with httpx.AsyncClient() as web:
            (await web.post(f"{self.server.url}/v1/tables", json={"sql": TABLE})).raise_for_status()

    async def send(self, count: int) -> None:
        async with httpx.AsyncClient(timeout=30) as web:
            for _ in range(count):
                key, value = f"k{self.rng.randrange(KEYS)}", round(self.rng.uniform(0, 100), 3)
                body = f'{{"k": "{key}", "v": {value}}}\n'
                self.sent += 1
                address = f"{self.server.url}/v1/tables/t/rows?source=s&first={self.sent}"
                answer = await web.post(address, content=body, headers=LINES)
                answer.raise_for_status()
                assert answer.json()["accepted"] == 1, answer.text
                self.history.rows.append((answer.json()["position"], key, value))

    async def copy(self) -> Backup:
        """A cold copy: the server is stopped for it."""
        await asyncio.to_thread(self.server.stop)
        backup = self.copied()
        await self.start()
        return backup

    def copied(self) -> Backup:
        """A copy of the folder of a server that does not run."""
        self.copies += 1
        end = self.end
        backup = Backup(self.place / f"backup-{self.copies}", self.history.upto(end), end)
        shutil.copytree(self.server.folder, backup.folder)
        self.backups.append(backup)
        return backup

    async def restore(self, backup: Backup, what: Copy) -> None:
        """Kill the server and put a copy in the place of its folder; it starts on the same port."""
        await asyncio.to_thread(self.server.kill)
        await asyncio.to_thread(shutil.rmtree, self.server.folder)
        if what is Copy.FOLDER:
            shutil.copytree(backup.folder, self.server.folder)
        else:
            (self.log).mkdir(parents=True)
            for segment in sorted((backup.folder / "log").glob("*.segment")):
                shutil.copy2(segment, self.log)
        self.history = backup.history.upto(backup.end)
        await self.start()

    # What is shown.

    def check(self, rows: Subscription, total: Subscription, where: str) -> None:
        """What is certain is true in the history it names."""
        self._check(rows.shown, where)
        self._check(total.shown, where)

    def _check(self, shown: Shown, where: str) -> None:
        if not shown.certain:
            return
        assert shown.as_of is not None
        self.checks += 1
        history = self.histories.get(shown.incarnation)
        assert history is not None, f"{where}: certain in the history {shown.incarnation}, which no server had"
        truth = history.latest(shown.as_of)
        if shown.rows is not None:
            held = {str(row[0]): row[1] for row in shown.rows.values()}
            assert held == truth, f"{where}: as of {shown.as_of} in {shown.incarnation}: {held}, the truth is {truth}"
        else:
            value, there = shown.value or 0.0, sum(truth.values())
            assert abs(value - there) <= BOUND + 1e-6, f"{where}: {value} as of {shown.as_of}, the truth is {there}"

    def live(self, subscriptions: Sequence[Subscription]) -> bool:
        """All subscriptions are certain at the end of the present history."""
        last = self.history.rows[-1][0]
        return all(
            one.shown.certain and (one.as_of or 0) >= last and self.histories[one.shown.incarnation] is self.history
            for one in subscriptions
        )

    async def all_live(self, pairs: Sequence[tuple[Subscription, Subscription]], seconds: float = 60.0) -> None:
        """Wait until everybody is live again by itself, and check what is shown meanwhile."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + seconds
        everybody = [one for pair in pairs for one in pair]
        while not self.live(everybody):
            for number, (rows, total) in enumerate(pairs):
                self.check(rows, total, f"client {number}")
            assert loop.time() < give_up, f"not live again: {[_told(one) for one in everybody if not one.certain][:4]}"
            await asyncio.sleep(0.02)
        for number, (rows, total) in enumerate(pairs):
            self.check(rows, total, f"client {number}")


def _told(one: Subscription) -> Any:
    shown = one.shown
    return (one.sql, shown.as_of, shown.incarnation, shown.certain, shown.why)
