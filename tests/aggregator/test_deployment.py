"""Aggregators in a deployment: found by name, started again when they die, and mistakes told before anything runs."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import slackwater.client as library
from slackwater.cli.up import up
from slackwater.core.errors import SlackwaterError
from tests.support.aggregators import eventually

DEPLOYMENT = """
folder = "data"
[server]
lease = 1.0
[aggregators.near]
lease = 1.0
[[aggregators.near.upstreams]]
name = "market"
nodes = ["server"]
[[aggregators.near.upstreams.items]]
table = "quotes"
value = "price"
keys = ["S000", "S001", "S002"]
within = 0.001
[feeds.shares]
generator = "market"
rate = 100
table = "quotes"
parameters = {items = 3}
"""
SUM = "SUBSCRIBE SELECT SUM(price) FROM quotes WHERE symbol IN ('S000', 'S001') WITHIN 0.01"


@contextmanager
def running(file: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "slackwater", "up", str(file), "--json"]
    with (file.parent / "reports").open("w") as reports:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=reports, text=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=60)


def state(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / "data" / "up.json").read_text())["processes"]
    except OSError:
        return {}
    return found


async def subscribed(client: library.Client) -> library.Subscription:
    """The table comes with the first rows of the feed, and the aggregator waits for it."""
    while True:
        try:
            return await client.subscribe(SUM).ready(30)
        except SlackwaterError:
            await asyncio.sleep(0.2)


async def test_an_aggregator_finds_its_upstream_by_name_and_lives_through_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "slackwater.toml"
    file.write_text(DEPLOYMENT)

    def near() -> dict[str, Any]:
        found: dict[str, Any] = state(tmp_path).get("near", {})
        return found

    def reports() -> str:
        return (tmp_path / "reports").read_text()

    with running(file) as process:
        await eventually(lambda: bool(near().get("url")), reports)
        url = near()["url"]
        async with library.connect(url, patience=60) as client:
            total = await asyncio.wait_for(subscribed(client), 60)
            await total.wait_until(lambda shown: shown.certain and shown.value is not None, 30)
            seen = total.as_of or 0
            os.kill(near()["pid"], signal.SIGKILL)
            await eventually(lambda: near().get("starts") == 2 and near().get("url") == url, reports)
            await total.wait_until(lambda shown: shown.certain and (shown.as_of or 0) > seen + 3, 30)
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.communicate, timeout=60)
        assert process.returncode == 0
    assert "Traceback" not in reports()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("within = 0.001", "within = -1"), r"aggregator near: line 14: Expected `float` >= 0"),
        (("nodes", "node"), r"aggregator near: line \d+: Object contains unknown field `node`"),
        (("[aggregators.near]", "[aggregators.server]"), "server is the name of two things"),
        (("[aggregators.near]", "[aggregators.'../up']"), "letters, digits"),
        (('"S001"', '"S000"'), "asked for twice"),
    ],
)
def test_mistakes_are_told_before_anything_runs(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    text = DEPLOYMENT.replace(*change)
    if "aggregators" in change[0]:
        text = text.replace("[[aggregators.near", "[[" + change[1].strip("[]"))
    file = tmp_path / "slackwater.toml"
    file.write_text(text)
    with pytest.raises(SlackwaterError, match=told):
        up(file)
