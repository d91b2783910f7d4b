"""Pulls foretold and measured, asked of a real aggregator in every way there is."""

import asyncio
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import slackwater
from slackwater.client import Client
from slackwater.statistics import Statistics, Ticks
from tests.support.aggregators import aggregator
from tests.support.item_servers import ItemServer, item_server
from tests.support.server_process import AggregatorProcess

TICK = 0.03
STEPS = {"A": 0.1, "B": 0.3, "C": 0.1}
PART = """
[[pulls]]
name = "{name}"
define = "CREATE TABLE {table} (symbol TEXT PRIMARY KEY, price DOUBLE)"
value = "price"
url = "{url}/item/{{key}}"
keys = {keys}
tick = {tick}
longest = 40
rate = 500
{more}
"""
SUM = "SELECT SUM(price) FROM known WHERE symbol IN ('A', 'B') WITHIN {} FIDELITY 95%"


def statistics(folder: Path) -> None:
    made, chance = Statistics("known", "price"), np.random.default_rng(3)
    for key in ("A", "B"):
        times = np.arange(2_000) * round(TICK * 1e6)
        made.update(Ticks.of([key] * 2_000, times, 100 + np.cumsum(chance.normal(size=2_000) * STEPS[key])))
    folder.mkdir()
    made.write(folder / "known.price.parquet")


async def move(server: ItemServer) -> None:
    chance = random.Random(3)
    while True:
        for key in server.values:
            server.values[key] += chance.gauss(0, STEPS[key])
        await asyncio.sleep(TICK)


def pulls_of(tree: dict[str, Any]) -> dict[str, Any]:
    [found] = [part for part in tree["parts"] if part["name"] == "pulls foretold"]
    return dict(found)


async def explained(client: Client, within: float) -> dict[str, Any]:
    return pulls_of((await client.explain(f"EXPLAIN SUBSCRIBE {SUM.format(within)}")).tree)


async def test_asked_before_during_and_after(tmp_path: Path) -> None:
    statistics(tmp_path / "learnt")
    with item_server(dict.fromkeys(STEPS, 100.0)) as server:
        known = PART.format(
            name="k", table="known", url=server.url, keys=["A", "B"], tick=TICK, more=f'learnt = "{tmp_path}/learnt"'
        )
        fresh = PART.format(name="f", table="fresh", url=server.url, keys=["C"], tick=TICK, more="")
        node = aggregator(tmp_path / "near", f"lease = 2.0\n{known}{fresh}")
        await asyncio.to_thread(node.start)
        moving = asyncio.create_task(move(server))
        try:
            async with slackwater.connect(node.url) as client:
                await _asked(node, client)
                await _not_held_up(node, client)
                await _measured(client)
            await asyncio.to_thread(node.stop)
            await asyncio.to_thread(node.start)
            async with slackwater.connect(node.url) as client:
                after = await explained(client, 2.0)
                assert after["details"]["at this bound and fidelity"]["value"] > 0
                fresh = "SUBSCRIBE SELECT SUM(price) FROM fresh WITHIN 1 FIDELITY 90%"
                told = pulls_of((await client.explain(fresh)).tree)
                assert "what was pulled in" in told["details"]["by"], "by an earlier life"
        finally:
            moving.cancel()
            await asyncio.gather(moving, return_exceptions=True)
            await asyncio.to_thread(node.stop)
        report = node.report()
        assert "Traceback" not in report
        assert "cannot be foretold" not in report


async def _asked(node: AggregatorProcess, client: Client) -> None:
    # Nothing was pulled yet: by statistics, or not at all.
    found = await explained(client, 2.0)
    assert found["details"]["by"] == "statistics, 36 seconds drawn by them"
    table = found["table"]
    assert table["fidelity"] == [0.9, 0.95, 0.98, 0.99, 0.995]
    assert table["within"] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert table["figures"][2][1] == found["details"]["at this bound and fidelity"]["value"]
    wider = await explained(client, 4.0)
    assert wider["table"]["figures"][1][1] == pytest.approx(table["figures"][2][1], rel=0.3)
    assert found == await explained(client, 2.0), "who asks twice is told the same"
    fresh = "SUBSCRIBE c AS SELECT SUM(price) FROM fresh WITHIN 1 FIDELITY 90%"
    tree = pulls_of((await client.explain(f"EXPLAIN {fresh}")).tree)
    assert "C was pulled 0 times over 0 ticks; 20 times over 120 are needed" in tree["details"]["not yet"]
    assert "table" not in tree
    lowest = pulls_of((await client.explain("SUBSCRIBE SELECT MIN(price) FROM known WITHIN 1 FIDELITY 90%")).tree)
    assert "MIN is none" in lowest["details"]["not yet"]
    always = pulls_of((await client.explain("SUBSCRIBE SELECT SUM(price) FROM known WITHIN 1")).tree)
    assert "FIDELITY 95%" in always["details"]["not yet"]
    # As text: over REST, as rows of a question, and by the command.
    lines = [str(row["explanation"]) for row in await client.query(f"EXPLAIN SUBSCRIBE {SUM.format(2.0)}")]
    [head] = [line for line in lines if line.strip().startswith("pulls/hour ")]
    assert head.split() == ["pulls/hour", "90", "%", "95", "%", "98", "%", "99", "%", "99.5", "%"]
    [own] = [line for line in lines if line.strip().startswith("WITHIN 2 ")]
    assert own.split()[3] == ">"
    said = await _command(f"EXPLAIN SUBSCRIBE {SUM.format(2.0)}", "--server", node.url)
    assert said.splitlines() == lines
    both = f"EXPLAIN SUBSCRIBE {SUM.format(2.0)}; SHOW SUBSCRIPTIONS"
    told = json.loads(await _command(both, "--server", node.url, "--json"))
    assert pulls_of(told[0]["meaning"]) == found
    assert told[1]["rows"] == []
    await client.execute(fresh)
    await client.execute(f"SUBSCRIBE ab AS {SUM.format(2.0)}")


async def _not_held_up(node: AggregatorProcess, client: Client) -> None:
    """While explanations are made, small requests are answered: nothing thinks in the thread that serves."""
    async with httpx.AsyncClient(base_url=node.url, timeout=60) as web:
        asked = asyncio.gather(*(explained(client, 3.0 + k) for k in range(3)))
        answered = 0
        while not asked.done():
            assert (await web.get("/v1/health")).status_code == 200
            answered += 1
        await asked
        assert answered > 3, "more than one for each explanation"


async def _measured(client: Client) -> None:
    async with asyncio.timeout(30):
        while True:
            standing = await client.subscriptions()
            rates = [(one.pulls_an_hour, one.predicted_pulls_an_hour, one.delivered) for one in standing]
            if all(rate is not None for rates in rates for rate in rates):
                break
            await asyncio.sleep(0.25)
    [shown] = [row for row in await client.query("SHOW SUBSCRIPTIONS") if row["name"] == "ab"]
    assert shown["pulls_an_hour"] > 0
    assert shown["predicted_pulls_an_hour"] > 0
    assert 0.0 < shown["delivered"] <= 1.0
    # The item began without statistics, so by now it is foretold from what was pulled.
    sql = "EXPLAIN SUBSCRIBE SELECT SUM(price) FROM fresh WITHIN 1 FIDELITY 90%"
    assert "what was pulled in" in pulls_of((await client.explain(sql)).tree)["details"]["by"]


async def _command(*arguments: str) -> str:
    command = [sys.executable, "-m", "slackwater", "sql", *arguments]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)
