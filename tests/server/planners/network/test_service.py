"""What aggregators say that cannot be, or too much, and a log that is away: the node goes on, and says so."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import msgspec
import pytest

from slackwater.core.errors import ProtocolError
from slackwater.core.hosts import HostKind, Placement
from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType
from slackwater.log import Registered, TableDefined
from slackwater.planning.aggregation.movement import MovementModel
from slackwater.server.lanes.network import NetworkLane, PlanState
from slackwater.server.lanes.views import EngineView
from slackwater.server.node import Node, NodeSettings
from slackwater.server.planners.network import service as desk
from slackwater.server.planners.network.base import AggregatorReport, NetworkRules
from slackwater.server.planners.network.configuration import KnownAggregator, NetworkSettings
from slackwater.server.planners.network.service import NetworkPlanner
from slackwater.server.session_host import Sessions
from slackwater.sessions.engine import NodeEngine
from slackwater.sessions.registrar import Registrar
from slackwater.sessions.router import Router
from slackwater.sessions.rules import SessionRules

QUOTES = TableSchema(
    "quotes", (Column("symbol", DataType.TEXT, nullable=False), Column("price", DataType.DOUBLE)), ("symbol",)
)
Answer = Callable[[httpx.Request], httpx.Response]


def offers(keys: list[Any], within: list[float], **counts: int) -> bytes:
    items = [{"table": "quotes", "column": "price", "keys": keys, "within": within}]
    body = {"node": "a", "generation": 1, "doubt": None, "items": items, "notifications": counts}
    return msgspec.json.encode(body)


def settings_of(url: str = "http://near:1") -> NetworkSettings:
    return NetworkSettings((KnownAggregator("near", (url,)),), NetworkRules(), MovementModel(), poll=0.001)


def made(url: str = "http://near:1") -> NetworkPlanner:
    engine = NodeEngine()
    router = Router(lambda: engine.registry, Placement(), frozenset({HostKind.NODE, HostKind.NETWORK}))
    around = cast(Any, SimpleNamespace(generation=1, said=lambda text: None))
    view = EngineView(engine, Registrar(engine, router=router))
    state = PlanState("n", 1, SessionRules(host=HostKind.NETWORK), view)
    lane = NetworkLane(Sessions(state, lambda append: None), state)
    return NetworkPlanner(settings_of(url), around, engine, router, lane, lambda append: None, lambda name: None)


async def asked(one: NetworkPlanner, answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask until there was time for several answers."""
    client = httpx.AsyncClient
    monkeypatch.setattr(
        httpx, "AsyncClient", lambda **options: client(transport=httpx.MockTransport(answer), **options)
    )
    [asking] = [asyncio.create_task(one._ask(known)) for known in one.settings.aggregators]
    await asyncio.wait([asking], timeout=0.1)
    assert not asking.done(), asking.exception()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def test_what_an_aggregator_offers_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    one = made()
    answer = httpx.Response(200, content=offers([["A"], ["B"]], [0.0, 1.5], text=3))
    await asked(one, lambda request: answer, monkeypatch)
    assert one.state.held(("quotes", "price")) == {"near": {("A",): 0.0, ("B",): 1.5}}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (offers([["A"]], [-1.0]), "no bound"),
        (offers([["A"]], [1.0]).replace(b"1.0", b"1e999"), ""),
        (offers([[["A"]]], [1.0]), "no key"),
        (offers([[None]], [1.0]), "no key"),
        (offers([["A"]], [1.0, 2.0]), "1 items of quotes within 2 bounds"),
        (offers([["A"]], [1.0], text=-1), "cannot be"),
        (offers([["A"]], [1.0], text=2**60), "cannot be"),
        (b"{}", "missing required field"),
        (b"\xff", ""),
    ],
)
async def test_an_aggregator_that_says_what_cannot_be_is_not_used(
    body: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = made()
    await asked(one, lambda request: httpx.Response(200, content=body), monkeypatch)
    assert not one.state.aggregators["near"].usable
    assert said in one.state.aggregators["near"].why
    assert one.state.aggregators["near"].why != "it has not answered yet"


@pytest.mark.parametrize("url", ["http://[near", "http://near:70000", "http://\x00", "://"])
async def test_an_address_that_is_none_does_not_end_the_node(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = made(url)
    await asked(one, lambda request: httpx.Response(404), monkeypatch)
    assert not one.state.aggregators["near"].usable
    assert one.state.aggregators["near"].why != "it has not answered yet"


async def test_no_more_is_read_of_an_answer_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "LARGEST_ANSWER", 1000)
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(1000):
            read += 100
            yield b" " * 100

    async with httpx.AsyncClient(
        transport=httpx.MockTransport(lambda request: httpx.Response(200, content=endless()))
    ) as http:
        with pytest.raises(ProtocolError, match="more than the 1000 bytes"):
            await desk._offers(http, "http://near:1", counts=False)
    assert read <= 1100


async def test_a_log_that_is_away_is_told_to_those_who_have_plans_too(tmp_path: Path) -> None:
    node = Node(NodeSettings(tmp_path / "node", network=settings_of()))
    try:
        network = node.planner(NetworkPlanner)
        assert network is not None
        node.follower.away_since = time.monotonic() - 1 - node.settings.rules.lease / 1_000_000
        node.follower.judge("the bus does not answer")
        assert [one.sessions.state._doubt for one in node.lanes.values()] == ["the bus does not answer"] * 2
        node.follower.judge(None)
        assert [one.sessions.state._doubt for one in node.lanes.values()] == [None, None]
    finally:
        node.close()


@pytest.mark.parametrize("within", ["1e300", "1e-200", "3"])
async def test_a_query_in_the_log_ends_neither_this_life_of_a_node_nor_the_next(tmp_path: Path, within: str) -> None:
    sql = f"SUBSCRIBE SELECT SUM(price) FROM quotes WHERE symbol IN ('A', 'B') WITHIN {within}"
    settings = NodeSettings(tmp_path / "node", network=settings_of())
    for life in range(2):
        node = Node(settings)
        try:
            network = node.planner(NetworkPlanner)
            assert network is not None
            network.state.heard("near", AggregatorReport(1, {("quotes", "price"): {("A",): 0.1, ("B",): 0.1}}), 0)
            if life == 0:
                node.log.append([TableDefined(QUOTES), Registered("quotes", sql, "p", None, host="network")])
                node._catch_up()
            else:
                network.start()
            network._do(network.state.tick(1))
            [kept] = [one for one in node.engine.registrations.values() if one.host is HostKind.NETWORK]
            lane = network.sessions.state.subscriptions.queries.get(kept.number)
            assert lane is not None
            assert (lane.suspended is None) == (within == "3" and life == 0), lane.suspended
            assert network.could_take(lane.query) == (within == "3"), "who asks now is given it by the node"
        finally:
            node.close()
