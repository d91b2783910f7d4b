"""A server, an aggregator of it and one stacked on that, all in processes of their own."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from slackwater.aggregator.process import AggregatorProcess
from slackwater.server.process import ServerProcess

SYMBOLS = tuple(f"S{n}" for n in range(8))
NEAR, FAR = 0.5, 2.0
"""What the two aggregators hold each symbol within."""
LEASE = "1.0"

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


def define(url: str) -> None:
    sql = "CREATE TABLE quotes (symbol TEXT PRIMARY KEY, price DOUBLE NOT NULL)"
    httpx.post(f"{url}/v1/tables", json={"sql": sql}).raise_for_status()


def aggregator(folder: Path, text: str) -> AggregatorProcess:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "aggregator.toml").write_text(text)
    return AggregatorProcess(folder)


@pytest.fixture
def deployed(tmp_path: Path) -> Iterator[Deployed]:
    server = ServerProcess(tmp_path / "server", "--lease", LEASE)
    near = aggregator(tmp_path / "near", configuration("server", "server", NEAR))
    far = aggregator(tmp_path / "far", configuration("near", "near", FAR))
    made = Deployed(server, near, far)
    try:
        server.start()
        define(server.url)
        near.start()
        far.start()
        yield made
    finally:
        for one in (far, near, server):
            one.stop()
    assert "Traceback" not in made.reports()


async def eventually(true: Callable[[], bool], told: Callable[[], str], seconds: float = 30) -> None:
    give_up = asyncio.get_running_loop().time() + seconds
    while not true():
        assert asyncio.get_running_loop().time() < give_up, told()
        await asyncio.sleep(0.02)
