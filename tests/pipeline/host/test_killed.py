"""A real Spark host behind a real server, killed under load: clients are never shown as certain what is not right."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import slackwater
from slackwater.client.live.subscription import Subscription
from slackwater.core.types import Position
from slackwater.hosting.publication_log import PublicationReader
from slackwater.log import LocalLog, Updates
from tests.support.server_process import ServerProcess
from tests.support.spark_processes import HostProcess, kill_executor

LEASE = 1.5
BOUND = 50.0
KEYS = 20


class Watch:
    """Notes what was shown as certain, and how long nothing was."""

    def __init__(self, total: Subscription) -> None:
        self._total = total
        self.shown: dict[int, set[float | None]] = {}
        self.uncertain = 0

    async def run(self) -> None:
        while True:
            shown = self._total.shown
            if shown.certain and shown.as_of is not None:
                self.shown.setdefault(shown.as_of, set()).add(shown.value)
            else:
                self.uncertain += 1
            await asyncio.sleep(0.005)


def check_all(watch: Watch, log: Path) -> None:
    """Every value that was shown as certain was within the bound of the truth at its position."""
    wanted = sorted(watch.shown)
    latest: dict[str, float] = {}
    with LocalLog(log, read_only=True) as opened:
        for entry in opened.read(Position(0)):
            for nth in range(entry.rows):
                while wanted and wanted[0] <= entry.first + nth:
                    compare(watch.shown[wanted.pop(0)], latest)
                if isinstance(entry.record, Updates):
                    batch = entry.record.batch
                    latest[batch.column("k")[nth].as_py()] = batch.column("v")[nth].as_py()
    for position in wanted:
        compare(watch.shown[position], latest)


def compare(values: set[float | None], latest: dict[str, float]) -> None:
    truth = sum(latest.values()) if latest else None
    for value in values:
        assert (value is None) == (truth is None)
        if value is not None and truth is not None:
            assert abs(value - truth) <= BOUND + 1e-6


async def load(url: str, stop: asyncio.Event, latest: dict[str, float]) -> None:
    """Rows one after the other, each acknowledged."""
    rng = random.Random(5)
    async with slackwater.connect(url) as client:
        while not stop.is_set():
            rows = [{"k": f"k{rng.randrange(KEYS)}", "v": float(rng.randrange(1000))} for _ in range(3)]
            await client.ingest("t", rows)
            latest.update({str(row["k"]): float(str(row["v"])) for row in rows})
            await asyncio.sleep(0.02)


async def killed(tmp_path: Path, master: str, kills: int, kill: Callable[[HostProcess], bool]) -> None:
    folder = tmp_path / "spark"
    server = ServerProcess(tmp_path / "server", "--lease", str(LEASE), "--spark", str(folder))
    server.start()
    host = HostProcess(tmp_path / "server" / "log", folder, master)
    latest: dict[str, float] = {}
    stop = asyncio.Event()
    try:
        async with slackwater.connect(server.url) as client:
            await client.execute("CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE)")
            host.start()
            total = client.subscribe(f"SUBSCRIBE SELECT SUM(v) FROM t WITHIN {BOUND:g}")
            rows = client.subscribe("SUBSCRIBE SELECT k, v FROM t WHERE v >= 500")
            watch = Watch(total)
            watching = asyncio.create_task(watch.run())
            loading = asyncio.create_task(load(server.url, stop, latest))
            await total.wait_until(lambda shown: shown.certain, 60)
            for _ in range(kills):
                await total.wait_until(lambda shown: shown.certain, 60)
                await asyncio.sleep(random.uniform(0.2, 1.0))
                before = watch.uncertain
                noticeable = kill(host)
                if noticeable:
                    await total.wait_until(lambda shown: not shown.certain, 30)
                    assert watch.uncertain > before or not total.certain
            stop.set()
            await loading
            high = {(key, value) for key, value in latest.items() if value >= 500}
            await total.wait_until(
                lambda shown: shown.certain and abs((shown.value or 0) - sum(latest.values())) <= BOUND, 60
            )
            async with asyncio.timeout(30):
                while not rows.certain or {(row["k"], row["v"]) for row in rows.rows} != high:
                    await asyncio.sleep(0.05)
            watching.cancel()
        check_all(watch, tmp_path / "server" / "log")
    finally:
        stop.set()
        await asyncio.to_thread(host.stop)
        await asyncio.to_thread(server.stop)
    assert "Traceback" not in server.report()
    reader = PublicationReader(folder)
    reader.catch_up()
    with LocalLog(tmp_path / "server" / "log", read_only=True) as log:
        assert reader.replica.position <= log.end


def kill_driver(host: HostProcess) -> bool:
    """The driver, and with it everything that is Spark's; started again as `slackwater up` would."""
    host.kill()
    host.start()
    return True


async def test_a_killed_driver(tmp_path: Path) -> None:
    await killed(tmp_path, "local[1]", 1, kill_driver)


@pytest.mark.slow
async def test_a_driver_killed_ten_times(tmp_path: Path) -> None:
    await killed(tmp_path, "local[1]", 10, kill_driver)


@pytest.mark.slow
async def test_an_executor_killed_ten_times(tmp_path: Path) -> None:
    await killed(tmp_path, "local-cluster[2,1,1024]", 10, kill_executor)
