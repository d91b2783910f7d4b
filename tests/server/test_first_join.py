"""The first join of a node: whatever has to be compiled for it is compiled where nobody waits for it."""

import threading
from pathlib import Path

import pytest
from tests.server.test_large_joins import ALL, OTHER

from slackwater.core import HostKind, Position
from slackwater.lab.workload import TABLE
from slackwater.log import LocalLog, Record, Registered, TableDefined
from slackwater.processing.queries import plain_query
from slackwater.server import node as module
from slackwater.server.engine import NodeEngine
from slackwater.server.node import Node, NodeSettings


class Rehearsals:
    """Where each took place: on the thread of the event loop or not, and with how many joins standing."""

    def __init__(self) -> None:
        self.seen: list[tuple[bool, int]] = []
        self.node: Node | None = None

    def __call__(self) -> None:
        standing = 0 if self.node is None else len(self.node.engine.host.joins)
        self.seen.append((threading.current_thread() is threading.main_thread(), standing))


@pytest.fixture
def rehearsals(monkeypatch: pytest.MonkeyPatch) -> Rehearsals:
    made = Rehearsals()
    monkeypatch.setattr(module, "rehearse", made)
    return made


def join(host: HostKind = HostKind.NODE) -> Record:
    engine = NodeEngine()
    for position, table in enumerate((TABLE, OTHER), start=1):
        engine.host.define(table, Position(position))
    query, text, _ = engine.bind(ALL)
    return Registered("items", text, "p", query=plain_query(query), host=host.value)


async def test_a_follower_is_given_a_join_by_the_log(tmp_path: Path, rehearsals: Rehearsals) -> None:
    with LocalLog(tmp_path / "log") as log:
        log.append([TableDefined(TABLE), TableDefined(OTHER)])
        node = rehearsals.node = Node(NodeSettings(tmp_path / "follower", follow=tmp_path / "log"))
        node.start(lambda: None)
        try:
            # What Spark keeps is matched on Spark.
            assert await node.reached(log.append([join(HostKind.SPARK)]), 10)
            assert not rehearsals.seen
            assert await node.reached(log.append([join()]), 10)
            assert rehearsals.seen == [(False, 0)]
            assert len(node.engine.host.joins) == 1
            assert await node.reached(log.append([join()]), 10)
            assert len(rehearsals.seen) == 1
        finally:
            await node.stop()


def test_a_node_is_opened_with_joins_that_stand(tmp_path: Path, rehearsals: Rehearsals) -> None:
    for records, times in (([TableDefined(TABLE), TableDefined(OTHER)], 0), ([join()], 1)):
        with LocalLog(tmp_path / "log") as log:
            log.append(records)
        Node(NodeSettings(tmp_path / "node", follow=tmp_path / "log")).close()
        assert len(rehearsals.seen) == times


def test_joins_that_stand_were_all_looked_at(tmp_path: Path, rehearsals: Rehearsals) -> None:
    """Of a hundred thousand that takes seconds, which nobody who asks for another join is to wait for."""
    with LocalLog(tmp_path / "log") as log:
        log.append([TableDefined(TABLE), TableDefined(OTHER), join(), join(HostKind.SPARK)])
    first = Node(NodeSettings(tmp_path / "node", follow=tmp_path / "log"))
    first.take_snapshot()
    first.close()
    again = Node(NodeSettings(tmp_path / "node", follow=tmp_path / "log"))
    assert again.snapshot_position == again.engine.position
    assert len(again.engine._standing.joins()) == 2
    assert not again.engine._standing._unread
    assert not again.engine.host.joins._restored
    again.close()
