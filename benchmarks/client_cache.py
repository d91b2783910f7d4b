"""Fifty clients with caches against one server: messages as planned, and every answer compared with the truth.

The replay is static and without faults: data messages by kind against the plan's cost. The load asks until there are a
million answers or `SLACKWATER_CACHE_SECONDS` (900) have passed, whichever comes first; the count is in the result, with
how many questions there were of each kind (`experiments.live_caches.Habits`) and how they were answered. How
long one question takes at home, asked live and as a request is measured in one process against one server.
"""

import asyncio
import os
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from benchmarks import report
from experiments.live_caches import TABLE, Range, load, replay
from slackwater.client import Cache, connect
from tests.support.server_process import ServerProcess

QUERIES = 1_000_000
SECONDS = float(os.environ.get("SLACKWATER_CACHE_SECONDS", "900"))


def replayed(folder: Path) -> dict[str, Any]:
    with ServerProcess(folder / "replay", "--relabel", "0", "--lease", "60") as server:
        made = asyncio.run(replay(server.url))
    return {**asdict(made), "wrong": len(made.wrong)}


def loaded(folder: Path) -> dict[str, Any]:
    with ServerProcess(folder / "load", "--relabel", "200", "--lease", "10") as server:
        made = asyncio.run(load(server.url, QUERIES, seconds=SECONDS))
    return {
        "clients": 50,
        "answers": made.answers,
        "distinct_questions_and_states": made.distinct,
        "questions": dict(sorted(made.asked.items())),
        "answered": {
            "at home": made.counts["answered at home"],
            "in part at home": made.counts["answered in part"],
            "by the server": made.counts["asked"] - made.counts["answered in part"] + made.counts["left to the server"],
        },
        "wrong": len(made.wrong),
        "first_wrong": list(made.wrong[:3]),
        "before_what_was_delivered": made.back,
        "updates": made.updates,
        "seconds": round(made.seconds, 1),
        "updates_a_second": round(made.updates / made.seconds, 1),
        "clients_an_update_was_pushed_to": round(made.counts["pushed"] / made.updates, 1),
        "label_changes": made.epochs,
        "messages": dict(sorted(made.counts.items())),
    }


async def _compared(url: str) -> dict[str, Any]:
    """The same question at home, asked live in part, and as a request: microseconds each, the median."""
    random, asked = Random(3), Range(100.0, 140.0)
    async with connect(url) as plain, connect(url, cache=Cache(name="compared")) as client:
        await plain.execute(TABLE)
        await plain.ingest("cars", [{"id": n, "price": random.uniform(0, 1000), "year": 1990} for n in range(1_000)])
        times: dict[str, list[float]] = {"request": [], "asked live": [], "at home": []}
        for _ in range(100):
            began = time.perf_counter()
            await plain.query(asked.sql)
            times["request"].append(time.perf_counter() - began)
        for _ in range(2_000):
            home = client.cache.counts["answered at home"]
            began = time.perf_counter()
            await client.query(asked.sql)
            kind = "at home" if client.cache.counts["answered at home"] > home else "asked live"
            times[kind].append(time.perf_counter() - began)
            if len(times["at home"]) >= 500:
                break
            await asyncio.sleep(0.002)
    return {kind: round(1e6 * sorted(some)[len(some) // 2]) for kind, some in times.items() if some}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ServerProcess(folder / "compared", "--relabel", "100") as server:
            compared = asyncio.run(_compared(server.url))
        report.write(
            "client_cache",
            {"replay": replayed(folder), "median_microseconds": compared, "load": loaded(folder)},
        )


if __name__ == "__main__":
    main()
