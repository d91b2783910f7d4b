"""Refusals of the operating system in background work: reported, tried again, and never the end of a running node."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from simulation.workload import TABLE
from slackwater.core import durable_file
from slackwater.core.errors import LogCorrupt, LogError, StoreError
from slackwater.core.types import Position
from slackwater.hosting.publication_log import PublicationReader
from slackwater.log import Entry, LocalLog, Log, Record, Registered, TableDefined
from slackwater.server import log_follower, node_record
from slackwater.server import node as nodes
from slackwater.server.lanes import spark
from slackwater.server.node import Node, NodeSettings
from slackwater.server.store import Store
from tests.support.state_bench import Bench

REFUSALS = [errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOSPC, errno.EDQUOT]
PATIENCE = 60.0
STANDING = "SUBSCRIBE SELECT * FROM items WHERE id < 3"


def refusal(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def caused_by(cause: OSError) -> LogError:
    """A failure of the log that was raised from a refusal."""
    failure = LogError("the log cannot be read")
    failure.__cause__ = cause
    return failure


class Refusing:
    """Stands before a function and fails a number of times."""

    def __init__(self, real: Callable[..., Any], failure: Exception, times: int = 2) -> None:
        self._real = real
        self._failure = failure
        self._times = times
        self.tries = 0

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        self.tries += 1
        if self.tries <= self._times:
            raise self._failure
        return self._real(*arguments, **more)


class UnsteadyLog:
    """A log whose reading fails: at its end, at opening a segment, and after each number of entries."""

    def __init__(self, log: Log, failure: Exception) -> None:
        self._log = log
        self._failure = failure
        self._end = Refusing(lambda: log.end, failure)
        self._read = Refusing(log.read, failure)
        self._stops = [0, 1, 2, 1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    @property
    def end(self) -> Position:
        found: Position = self._end()
        return found

    def read(self, start: Position, end: Position | None = None) -> Iterator[Entry]:
        entries = self._read(start, end)
        return self._some(entries, self._stops.pop(0)) if self._stops else entries

    def _some(self, entries: Iterator[Entry], stop: int) -> Iterator[Entry]:
        for nth, entry in enumerate(entries):
            if nth == stop:
                raise self._failure
            yield entry


@asynccontextmanager
async def started(settings: NodeSettings) -> AsyncIterator[Node]:
    node = Node(settings)
    failed: list[str] = []
    node.start(lambda: failed.append("failed"))
    yield node
    failure = node.failure
    await node.stop()
    assert failed == []
    assert failure is None


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is tried again soon."""
    monkeypatch.setattr(log_follower, "AWAY_SECONDS", 0.01)
    monkeypatch.setattr(nodes, "UPKEEP_SECONDS", 0.02)
    monkeypatch.setattr(spark, "TROUBLE_SECONDS", 0.01)


def history() -> list[Record]:
    bench = Bench()
    rows = [bench.updates((key, float(key))) for key in range(4)]
    queries = [Registered("items", f"{STANDING} OR id = {nth}", "ann", f"q{nth}") for nth in range(3)]
    return [*rows[:2], *queries, *rows[2:]]


@pytest.mark.parametrize("failure", [*map(refusal, REFUSALS), caused_by(refusal(errno.EMFILE))], ids=repr)
@pytest.mark.parametrize("follows", [False, True], ids=["writer", "follower"])
async def test_a_log_that_cannot_be_read_for_a_while(tmp_path: Path, failure: Exception, follows: bool) -> None:
    """Wherever reading fails, in the end all was applied, and the sessions know all queries."""
    with LocalLog(tmp_path / "node" / "log") as log:
        log.append([TableDefined(TABLE)])
        if follows:
            async with started(NodeSettings(tmp_path / "other", follow=tmp_path / "node" / "log")) as node:
                node.follower.log = UnsteadyLog(node.log, failure)
                end = log.append(history())
                await check_applied(node, end)
            return
    async with started(NodeSettings(tmp_path / "node")) as node:
        node.follower.log = UnsteadyLog(node.log, failure)
        end = await node.change(lambda target: target.log.append(history()))
        await check_applied(node, end)


async def check_applied(node: Node, end: Position) -> None:
    await until(lambda: node.engine.position >= end)
    queries = node.sessions.state.subscriptions.queries
    assert len(node.engine.registrations) == 3
    assert all(queries.get(number) is not None for number in node.engine.registrations)
    assert node.engine.host.latest("items").rows.num_rows == 4


async def test_a_damaged_log_still_ends_the_node(tmp_path: Path) -> None:
    failed: list[str] = []
    node = Node(NodeSettings(tmp_path / "node"))
    node.start(lambda: failed.append("failed"))
    node.follower.log = UnsteadyLog(node.log, LogCorrupt("damaged"))
    node.follower.more.set()
    await until(lambda: bool(failed))
    await node.stop()


async def test_the_view_of_registrations_is_brought_up_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(NodeSettings(tmp_path / "node")) as node:
        opened = Refusing(Store, StoreError("no space"))
        monkeypatch.setattr(node_record, "Store", opened)
        await node.change(lambda target: target.log.append([TableDefined(TABLE), *history()]))
        await until(lambda: len(node.store.registrations()[0]) == 3)
        assert opened.tries > 2


async def test_upkeep_goes_on_after_a_store_that_cannot_be_read(tmp_path: Path) -> None:
    async with started(NodeSettings(tmp_path / "node", snapshot_every=1)) as node:
        failures = [StoreError("no descriptor"), refusal(errno.EMFILE), RuntimeError("can't start new thread")]
        looks = [Refusing(node.store.any_token, failure) for failure in failures]
        for look in looks:
            node.store.any_token = look  # type: ignore[method-assign]
            await until(lambda look=look: look.tries > 2)  # type: ignore[misc]
        end = await node.change(lambda target: target.log.append([TableDefined(TABLE)]))
        await until(lambda: node.snapshot_position == end)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
async def test_a_snapshot_is_tried_again_not_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A full disk: rows go on, and the sockets are not stopped for a snapshot at each upkeep."""
    real, tries = durable_file.write_draft, 0

    def write_draft(draft: Path, content: bytes) -> None:
        nonlocal tries
        if draft.parent.name == "snapshots":
            tries += 1
            if tries == 1:
                raise refusal(number)
        real(draft, content)

    monkeypatch.setattr(durable_file, "write_draft", write_draft)
    async with started(NodeSettings(tmp_path / "node", snapshot_every=1)) as node:
        await node.change(lambda target: target.log.append([TableDefined(TABLE)]))
        await until(lambda: tries == 1)
        looks = Refusing(node.store.any_token, StoreError(""), times=0)
        node.store.any_token = looks  # type: ignore[method-assign]
        await until(lambda: looks.tries > 10)
        assert tries == 1
        end = await node.change(lambda target: target.log.append(history()))
        await until(lambda: node.engine.position == end)
        node.schedule.not_before = 0.0
        await until(lambda: node.snapshot_position == end)


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
async def test_a_publication_log_that_cannot_be_read_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    async with started(NodeSettings(tmp_path / "node", spark=tmp_path / "spark")):
        real = PublicationReader.next
        looks = 0

        def look(reader: PublicationReader) -> Any:
            nonlocal looks
            looks += 1
            if looks <= 3:
                raise refusal(number)
            return real(reader)

        monkeypatch.setattr(PublicationReader, "next", look)
        await until(lambda: looks > 10)
