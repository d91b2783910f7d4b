"""The first join of a node: whatever has to be compiled for it is compiled where nobody waits for it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from simulation.workload import TABLE
from slackwater.core import HostKind, Position
from slackwater.dissemination.encoding import Encoding, decode_from_node, encode
from slackwater.dissemination.messages import (
    VERSION,
    Ack,
    Fact,
    Frame,
    FromClient,
    Open,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from slackwater.dissemination.transports import TransportLimits
from slackwater.dissemination.transports.memory import MemoryConnection, pair
from slackwater.kinds.registry import plain_query
from slackwater.log import LocalLog, Record, Registered, TableDefined
from slackwater.processing.joined import operator
from slackwater.server.access import Caller
from slackwater.server.live import Live
from slackwater.server.node import Node, NodeSettings
from slackwater.sessions.engine import NodeEngine
from tests.support.join_bench import ALL, OTHER
from tests.support.joins import joins


class Rehearsals:
    """Where each took place: on the thread of the event loop or not, and with how many joins standing."""

    def __init__(self) -> None:
        self.seen: list[tuple[bool, int]] = []
        self.node: Node | None = None

    def __call__(self) -> None:
        standing = 0 if self.node is None else len(joins(self.node.engine.host))
        self.seen.append((threading.current_thread() is threading.main_thread(), standing))

    def cache_info(self) -> SimpleNamespace:
        """As that of a function that is called once."""
        return SimpleNamespace(currsize=len(self.seen))


@pytest.fixture
def rehearsals(monkeypatch: pytest.MonkeyPatch) -> Rehearsals:
    made = Rehearsals()
    monkeypatch.setattr(operator, "rehearse", made)
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
            assert len(joins(node.engine.host)) == 1
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
    first.schedule.take()
    first.close()
    again = Node(NodeSettings(tmp_path / "node", follow=tmp_path / "log"))
    assert again.snapshot_position == again.engine.position
    assert len(again.engine._standing.on_several_tables()) == 2
    assert not again.engine._standing._unread
    assert not joins(again.engine.host)._restored
    again.close()


class SlowRehearsal:
    """Takes as long as it is told to."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.may_end.wait(60)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.005)


async def told(client: MemoryConnection, enough: Callable[[list[Fact]], bool]) -> list[Fact]:
    facts: list[Fact] = []
    async with asyncio.timeout(20):
        while not enough(facts):
            message = decode_from_node(await client.receive(), Encoding.MESSAGEPACK)
            facts += message.facts if isinstance(message, Frame) else ()
    return facts


@asynccontextmanager
async def served(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[SlowRehearsal, Node, MemoryConnection, "asyncio.Task[None]"]]:
    """A node that takes long for its first join, and a connection to it."""
    slow = SlowRehearsal()
    monkeypatch.setattr(operator, "rehearse", slow)
    with LocalLog(folder / "node" / "log") as log:
        log.append([TableDefined(TABLE), TableDefined(OTHER)])
    node = Node(NodeSettings(folder / "node"))
    node.start(lambda: None)
    ours, client = pair(TransportLimits())
    serving = asyncio.create_task(Live(node).serve(ours, Caller(), Encoding.MESSAGEPACK, node.sessions))
    try:
        yield slow, node, client, serving
    finally:
        slow.may_end.set()
        serving.cancel()
        await node.stop()


async def test_a_connection_is_heard_while_its_first_join_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, monkeypatch) as (slow, node, client, serving):

        def say(*messages: FromClient) -> None:
            for message in messages:
                client.send(encode(message, Encoding.MESSAGEPACK))

        say(Open(VERSION, 0, 5), Subscribe(1, ALL))
        await until(slow.begun.is_set)
        [session] = node.sessions.state.sessions.values()
        # What is asked after it waits its turn; that the client is there is heard at once.
        say(Unsubscribe(1), Subscribe(2, "SUBSCRIBE SELECT id FROM items"), Ack(0, 777), Ack(0, 778))
        await until(lambda: session.heard == 778)
        assert not session.subscriptions
        slow.may_end.set()
        facts = await told(client, lambda facts: any(isinstance(one, Subscribed) for one in facts))
        [subscribed] = [one for one in facts if isinstance(one, Subscribed)]
        assert subscribed.ref == 2
        assert [one.ref for one in facts if isinstance(one, Refused)] == [1]
        assert list(session.subscriptions) == [2]
        # Afterwards nothing waits any more.
        say(Ack(session.sequence, 779), Unsubscribe(2))
        await until(lambda: not session.subscriptions)
        await client.close()
        await serving
        assert not node.sessions.state.sessions


async def test_what_was_asked_before_the_end_of_a_connection_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, monkeypatch) as (slow, node, client, serving):
        for message in (Open(VERSION, 0, 5), Subscribe(1, ALL.replace("SUBSCRIBE", "SUBSCRIBE pairs AS"))):
            client.send(encode(message, Encoding.MESSAGEPACK))
        await until(slow.begun.is_set)
        await client.close()
        slow.may_end.set()
        await serving
        await until(lambda: node.engine.named("pairs") is not None)
