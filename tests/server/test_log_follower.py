"""The log follower of a node over logs that are replaced at the worst moment."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from simulation.workload import TABLE
from slackwater.core.errors import HistoryReplaced
from slackwater.core.lineage import Lineage
from slackwater.core.types import Position
from slackwater.log import MemoryLog, MemoryStore, Record, TableDefined
from slackwater.server.log_follower import LogFollower
from slackwater.sessions.engine import NodeEngine
from tests.support.state_bench import Bench


def written(lineage: Lineage, rows: int, price: float) -> MemoryLog:
    """A log with the table and so many rows, of a history."""
    store = MemoryStore()
    log = MemoryLog(store)
    bench = Bench()
    records: list[Record] = [TableDefined(TABLE), *(bench.updates((key, price)) for key in range(rows))]
    log.append(records)
    store.lineage = lineage
    return log


class Swapped:
    """A log that another one replaces after so many looks at its end, entries or incarnations."""

    def __init__(self, before: MemoryLog, after: MemoryLog, looks: int) -> None:
        self._logs = (before, after)
        self._looks = looks

    def __getattr__(self, name: str) -> Any:
        self._looks -= 1
        return getattr(self._logs[self._looks < 0], name)


def follower(log: Any, position: int, lineage: Lineage) -> LogFollower:
    engine = NodeEngine()
    engine.lineage = lineage
    made = LogFollower(log, "the log", engine, {}, 1_000_000, writable=False, afar=False)
    first = written(lineage, 20, 1.0)
    for _ in engine.events(first.read(Position(0), Position(position))):
        pass
    return made


@pytest.mark.parametrize("rows", [10, 15, 30])
@pytest.mark.parametrize("looks", range(8))
async def test_rows_of_one_history_are_never_applied_in_another(rows: int, looks: int) -> None:
    seven = Lineage().begin(7, Position(0))
    nine = seven.begin(9, Position(11))
    before, after = written(seven, 20, 1.0), written(nine, max(rows, 10), 2.0)
    made = follower(Swapped(before, after, looks), 9, seven)
    applied: list[tuple[int, int]] = []
    made.told = lambda events: applied.append((int(made._engine.position), made._engine.lineage.current))
    running = asyncio.create_task(made.run())
    await until(lambda: running.done() or made._engine.position == after.end)
    running.cancel()
    (ended,) = await asyncio.gather(running, return_exceptions=True)
    if isinstance(ended, HistoryReplaced):
        assert all(number == 7 for _, number in applied), "it ended before it applied anything of the other"
        return
    assert isinstance(ended, asyncio.CancelledError), ended
    # Positions up to 11 are of both histories; what came after is of the second.
    assert all(number == 9 for position, number in applied if position > 11)
    latest = made._engine.host.latest("items").rows.to_pylist()
    assert {row["price"] for row in latest if row["id"] >= 10} <= {2.0}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)
