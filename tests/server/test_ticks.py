"""A real server keeps the clock of its log: from when a query needs ticks, through a restart, and not without need."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import slackwater
from slackwater.client import Shown
from slackwater.core import Position
from slackwater.extensions import extended
from slackwater.log import Registered, TimePassed
from slackwater.log.local import LocalLog
from tests.support.server_process import ServerProcess

MODULE = "tests.support.ticks"
PERIOD = 20_000
COUNTS = f"SUBSCRIBE SELECT TICKS({PERIOD}) FROM t"
PLAIN = "SUBSCRIBE SELECT COUNT(*) FROM t"


@pytest.fixture(autouse=True)
def with_ticks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SLACKWATER_EXTENSIONS", MODULE)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
    with extended(MODULE):
        yield


def ticks(folder: Path, start: int = 0) -> list[tuple[int, int]]:
    """Time and end of each tick in the log of a server."""
    with LocalLog(folder / "log", read_only=True) as log:
        entries = log.read(Position(start))
        return [(int(one.record.time), int(one.end)) for one in entries if isinstance(one.record, TimePassed)]


def registered(folder: Path) -> int:
    """Where the query that counts was registered."""
    with LocalLog(folder / "log", read_only=True) as log:
        entries = log.read(Position(0))
        [end] = [int(one.end) for one in entries if isinstance(one.record, Registered) and "TICKS" in one.record.text]
    return end


def at_least(count: int) -> Callable[[Shown], bool]:
    """Whether so many ticks were counted."""
    return lambda shown: shown.value is not None and shown.value >= count


async def test_ticks_come_when_a_query_needs_them_and_go_on_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    server = ServerProcess(folder)
    await asyncio.to_thread(server.start)
    try:
        async with slackwater.connect(server.url) as client:
            await client.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v DOUBLE)")
            assert (await client.subscribe(PLAIN).ready(20)).value == 0
            await client.ingest("t", [{"k": 1, "v": 1.0}])
            assert ticks(folder) == []
            assert httpx.get(f"{server.url}/v1/metrics").json()["log_time"] == 0
            counted = await client.subscribe(COUNTS).ready(20)
            await counted.wait_until(at_least(3), 20)
            shown = httpx.get(f"{server.url}/v1/metrics").json()["log_time"]
            assert shown in [time for time, _ in ticks(folder)]
            await asyncio.to_thread(server.kill)
            before = ticks(folder)
            await asyncio.to_thread(server.start)
            last = await counted.wait_until(at_least(len(before) + 3), 20)
    finally:
        await asyncio.to_thread(server.stop)
    found = ticks(folder)
    times = [time for time, _ in found]
    assert found[: len(before)] == before
    assert times == sorted(set(times))
    assert all(time % PERIOD == 0 for time in times)
    assert last.as_of is not None
    assert last.value == sum(registered(folder) < end <= last.as_of for _, end in found)
