"""Many subscriptions of one shape over one connection: how long until the last of them has its first answer.

    python -m benchmarks.subscribing --counts 1000 10000 100000

A server in a process of its own holds a table; the real client asks for bounded sums of five items each, all at once,
over one WebSocket, and waits until each has its first answer. The answers are compared with the truth. *Once more* is
one named query more by REST, at so many standing. `--each` sends the statements in forms that share no shape, so that
each is read by the parser.
"""

import argparse
import asyncio
import os
import random
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import report
from slackwater.client import Client, connect
from tests.support.server_process import ServerProcess

ITEMS, A_QUERY = 100_000, 5
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def statement(items: list[int], each: int | None = None) -> str:
    """A sum of five items; with `each` in a form that no other statement has."""
    values = ", ".join(f"({item}, 1.0)" for item in items)
    name = "p" if each is None else f"p{each}"
    return (
        f"SUBSCRIBE SELECT SUM(w * price) FROM items JOIN (VALUES {values}) AS {name}(item, w) USING (item) WITHIN 5.0"
    )


def processor_seconds(pid: int) -> float:
    """Processor time of another process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_bytes(pid: int) -> int:
    """Memory of another process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


async def filled(client: Client, generator: random.Random) -> list[float]:
    """The prices of all items, sent to the server."""
    await client.execute("CREATE TABLE items (item BIGINT PRIMARY KEY, price DOUBLE)")
    prices = [round(generator.uniform(50.0, 150.0), 2) for _ in range(ITEMS)]
    await client.ingest("items", ({"item": item, "price": price} for item, price in enumerate(prices)))
    return prices


async def subscribe(server: ServerProcess, pid: int, count: int, each: bool) -> dict[str, Any]:
    """Ask for so many sums at once, over one connection."""
    generator = random.Random(7)
    async with connect(server.url) as client:
        prices = await filled(client, generator)
        # One before the others: what a server compiles and imports once is not what is measured.
        first = await client.subscribe(statement([0, 1, 2, 3, 4])).ready(60)
        wanted = [generator.sample(range(ITEMS), A_QUERY) for _ in range(count)]
        texts = [statement(items, place if each else None) for place, items in enumerate(wanted)]
        memory, before = resident_bytes(pid), processor_seconds(pid)
        own, began = time.process_time(), time.perf_counter()
        kept = [client.subscribe(text) for text in texts]
        for one in kept:
            await one.ready(600)
        seconds, own = time.perf_counter() - began, time.process_time() - own
        wrong = 0
        for items, one in zip(wanted, kept, strict=True):
            assert one.value is not None
            wrong += abs(one.value - sum(prices[item] for item in items)) > 1e-6
        figures = {
            "subscriptions": count,
            "wrong answers": wrong,
            "seconds": round(seconds, 2),
            "server CPU seconds": round(processor_seconds(pid) - before, 2),
            "client CPU seconds": round(own, 2),
            "server bytes each": (resident_bytes(pid) - memory) // count,
        }
        assert wrong == 0, figures
        del first
        return figures


async def once_more(server: ServerProcess, pid: int, standing: int) -> dict[str, Any]:
    """Name one query more over REST, fifty times."""
    generator = random.Random(11)
    async with connect(server.url) as client:
        seconds, before = [], processor_seconds(pid)
        for place in range(50):
            text = statement(generator.sample(range(ITEMS), A_QUERY)).replace("SUBSCRIBE", f"SUBSCRIBE more{place} AS")
            began = time.perf_counter()
            await client.execute(text)
            seconds.append(time.perf_counter() - began)
        return {
            "standing": standing,
            "p50 ms": round(1e3 * statistics.median(seconds), 2),
            "server CPU ms each": round(1e3 * (processor_seconds(pid) - before) / 50, 2),
        }


def measured(count: int, each: bool) -> dict[str, Any]:
    """One server, so many subscriptions, and then the price of one query more."""
    with tempfile.TemporaryDirectory() as folder:
        limits = ("--limit", "subscriptions_a_token=2000000", "--limit", "registrations_a_token=2000000")
        with ServerProcess(Path(folder) / "node", *limits) as server:
            assert server._process is not None
            pid = server._process.pid
            figures = asyncio.run(subscribe(server, pid, count, each))
            return figures | {"one more by REST": asyncio.run(once_more(server, pid, count))}


def main() -> None:
    """Measure each size by itself, and write the curve."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--counts", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    options.add_argument("--each", action="store_true", help="statements of different shapes")
    options.add_argument("--write", action="store_true", help="into benchmarks/results")
    chosen = options.parse_args()
    curve = [measured(count, chosen.each) for count in chosen.counts]
    figures = {"items": ITEMS, "items a query": A_QUERY, "curve": curve}
    figures["peak client MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    if chosen.write:
        report.write("subscribing" + ("_each" if chosen.each else ""), figures)
    else:
        print(figures)


if __name__ == "__main__":
    main()
