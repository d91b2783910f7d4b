"""Aggregator processes: a server, an aggregator of it and one stacked on that, and access to their logs."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from slackwater.aggregator.upstream.state import ROOM
from slackwater.log import LocalLog, Updates
from tests.support.server_process import AggregatorProcess, ServerProcess

SYMBOLS = tuple(f"S{n}" for n in range(8))
NEAR, FAR = 0.5, 2.0
"""What the two aggregators hold each symbol within."""
LEASE = 1.0

CONFIGURATION = """
lease = {lease}
[[upstreams]]
name = "{upstream}"
nodes = ["{node}"]
[[upstreams.items]]
table = "quotes"
value = "price"
within = {within}
keys = {keys}
"""


def configuration(upstream: str, node: str, within: float, keys: tuple[str, ...] = SYMBOLS) -> str:
    return CONFIGURATION.format(upstream=upstream, node=node, within=within, keys=list(keys), lease=LEASE)


@dataclass
class Deployed:
    server: ServerProcess
    near: AggregatorProcess
    far: AggregatorProcess

    def reports(self) -> str:
        return "".join(one.report() for one in (self.server, self.near, self.far))


def define(url: str, token: str | None = None) -> None:
    sql = "CREATE TABLE quotes (symbol TEXT PRIMARY KEY, price DOUBLE NOT NULL)"
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    httpx.post(f"{url}/v1/tables", json={"sql": sql}, headers=headers).raise_for_status()


def aggregator(folder: Path, text: str) -> AggregatorProcess:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "aggregator.toml").write_text(text)
    return AggregatorProcess(folder)


@contextmanager
def deploy(folder: Path) -> Iterator[Deployed]:
    server = ServerProcess(folder / "server", "--lease", str(LEASE))
    near = aggregator(folder / "near", configuration("server", "server", NEAR))
    far = aggregator(folder / "far", configuration("near", "near", FAR))
    try:
        server.start()
        define(server.url)
        near.start()
        far.start()
        yield Deployed(server, near, far)
    finally:
        for one in (far, near, server):
            one.stop()


async def eventually(true: Callable[[], bool], told: Callable[[], str], seconds: float = 30) -> None:
    give_up = asyncio.get_running_loop().time() + seconds
    while not true():
        assert asyncio.get_running_loop().time() < give_up, told()
        await asyncio.sleep(0.02)


@dataclass
class Written:
    """The log of an aggregator: which position of its upstream was written up to which position of its own."""

    since: list[int] = field(default_factory=list)
    upstream: list[int] = field(default_factory=list)

    @staticmethod
    def read(folder: Path) -> "Written":
        found = Written()
        last = -1
        with LocalLog(folder / "log", read_only=True) as log:
            for entry in log.read(log.start):
                if isinstance(entry.record, Updates):
                    numbers = entry.record.batch.column("$seq").to_pylist()
                    assert numbers[0] > last, "no row is written twice, and none after a later one"
                    assert numbers == sorted(set(numbers))
                    last = numbers[-1]
                    found.since.append(entry.end)
                    found.upstream.append(last // ROOM)
        assert found.upstream == sorted(found.upstream), "the upstream never goes back"
        return found

    def position(self, here: int) -> int | None:
        """The position of the upstream that was written before a position of this log."""
        place = bisect_right(self.since, here) - 1
        return self.upstream[place] if place >= 0 else None


class Prices:
    """What is true at each position of the server's log."""

    def __init__(self, folder: Path) -> None:
        self._since: list[int] = [0]
        self._prices: list[dict[str, float]] = [{}]
        with LocalLog(folder / "log", read_only=True) as log:
            for entry in log.read(log.start):
                if isinstance(entry.record, Updates):
                    batch = entry.record.batch
                    rows = zip(batch.column("symbol").to_pylist(), batch.column("price").to_pylist(), strict=True)
                    for place, (symbol, price) in enumerate(rows, start=1):
                        self._since.append(entry.first + place)
                        self._prices.append(self._prices[-1] | {symbol: price})

    def at(self, position: int) -> dict[str, float]:
        return self._prices[bisect_right(self._since, position) - 1]
