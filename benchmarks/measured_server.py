"""A server that measures how long its event loop is held: `python -m benchmarks.measured_server serve FOLDER …`.

A timer of 5 ms tells by how much it is late. A request that comes while the loop is held waits for the rest of that
time, so one late timer counts as all the timers that it kept from running: of 5, 10, 15 … ms. The counts, by
millisecond, are written to `held.json` in the server's folder once a second.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from slackwater.cli import main
from slackwater.server.node import Node

PERIOD = 0.005
FILE = "held.json"


async def measure(node: Node) -> None:
    """Count lateness until the process ends."""
    held: Counter[int] = Counter()
    path = node.settings.folder / FILE
    due = written = time.monotonic()
    while True:
        due += PERIOD
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        now = time.monotonic()
        while due < now:
            held[int(1000 * (now - due))] += 1
            due += PERIOD
        held[0] += 1
        if now - written > 1:
            written = now
            draft = path.with_suffix(".draft")
            draft.write_text(json.dumps({"snapshot": node.snapshot_position, "held": sorted(held.items())}))
            draft.replace(path)


def begin(start: Callable[..., None]) -> Callable[..., None]:
    """`Node.start` that begins to measure as well."""

    def measured(node: Node, *arguments: Any) -> None:
        start(node, *arguments)
        node._measuring = asyncio.get_running_loop().create_task(measure(node))  # type: ignore[attr-defined]

    return measured


if __name__ == "__main__":
    Node.start = begin(Node.start)  # type: ignore[method-assign]
    main()
