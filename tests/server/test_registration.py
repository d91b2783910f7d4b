"""One path of registration: what REST refuses a live session refuses too, in the same words."""

import asyncio
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

import slackwater
from slackwater.core.errors import SlackwaterError
from slackwater.dissemination.messages import FromClient, Subscribe, Unsubscribe
from slackwater.server.live import _QUICK_IN_A_ROW, _Statements
from slackwater.server.node import NodeSettings
from slackwater.sessions.limits import ServerLimits
from tests.support.node_server import served

TABLE = {"sql": "CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE)"}
LIMITS = ServerLimits(registrations_a_token=2)
SELECT = "SELECT SUM(v) FROM t WITHIN"
FIRST = f"SUBSCRIBE first AS {SELECT} 1"
REFUSALS = {
    "a name that is taken": (f"SUBSCRIBE FIRST AS {SELECT} 2", "exists"),
    "more than the limit": (f"SUBSCRIBE third AS {SELECT} 3", "limit"),
    "no such table": ("SUBSCRIBE other AS SELECT v FROM nowhere", "sql"),
    "no such column": ("SUBSCRIBE other AS SELECT w FROM t", "sql"),
    "no statement": ("SUBSCRIBE other AS", "sql"),
    "no subscription": ("SELECT v FROM t", "sql"),
    "no bound": (f"SUBSCRIBE other AS {SELECT} -1", "sql"),
    "a kind that is not known": ("SUBSCRIBE other AS SELECT v FROM t ORDER BY v", "not_supported"),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_rest_and_a_live_session_refuse_the_same_in_the_same_words(tmp_path: Path, case: str) -> None:
    sql, code = REFUSALS[case]
    async with (
        served(NodeSettings(tmp_path / "node", limits=LIMITS)) as server,
        httpx.AsyncClient(base_url=server.url) as web,
        slackwater.connect(server.url) as client,
    ):
        assert (await web.post("/v1/tables", json=TABLE)).status_code == 201
        assert (await web.post("/v1/subscriptions", json={"sql": FIRST})).status_code == 201
        if code == "limit":
            await client.subscribe(f"SUBSCRIBE second AS {SELECT} 2").ready(10)
        over_rest = (await web.post("/v1/subscriptions", json={"sql": sql})).json()
        with pytest.raises(SlackwaterError) as live:
            await client.subscribe(sql).ready(10)
        place = f"line {over_rest['line']}, column {over_rest['column']}: " if "line" in over_rest else ""
        assert over_rest["error"] == code
        assert place + over_rest["message"] in str(live.value)


async def test_a_limit_over_all_counts_every_owner(tmp_path: Path) -> None:
    limits = ServerLimits(registrations=1)
    async with (
        served(NodeSettings(tmp_path / "node", limits=limits)) as server,
        httpx.AsyncClient(base_url=server.url) as web,
    ):
        await web.post("/v1/tables", json=TABLE)
        assert (await web.post("/v1/subscriptions", json={"sql": FIRST})).status_code == 201
        refused = await web.post("/v1/subscriptions", json={"sql": f"SUBSCRIBE second AS {SELECT} 2"})
        assert (refused.status_code, refused.json()["error"]) == (409, "limit")


async def test_messages_keep_their_order_where_some_statements_are_quick() -> None:
    read: list[str] = []
    handed: list[FromClient] = []
    statements = _Statements(read.append, lambda sql: "quick" in sql, handed.append)
    messages: list[FromClient] = [
        Subscribe(1, "quick 1"),
        Subscribe(2, "slow 2"),
        Subscribe(3, "quick 3"),
        Unsubscribe(1),
        Subscribe(4, "slow 4"),
        Subscribe(5, "quick 5"),
    ]
    for message in messages:
        await statements.take(message, 10)
    assert handed == messages[:1]
    await statements.settled()
    assert handed == messages
    assert read == ["slow 2", "slow 4"]


async def test_others_have_their_turn_between_quick_statements() -> None:
    handed: list[FromClient] = []
    turns: list[int] = []
    statements = _Statements(lambda sql: None, lambda sql: sql == "quick", handed.append)

    async def other() -> None:
        while len(handed) < 5 * _QUICK_IN_A_ROW:
            turns.append(len(handed))
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(other())
        for ref in range(5 * _QUICK_IN_A_ROW):
            await statements.take(Subscribe(ref, "quick"), 10)
    assert {later - earlier for earlier, later in pairwise(turns)} == {_QUICK_IN_A_ROW}
    assert len(turns) >= 4


async def test_many_subscriptions_go_to_the_log_in_few_appends_and_each_is_answered(tmp_path: Path) -> None:
    async with served(NodeSettings(tmp_path / "node")) as server, slackwater.connect(server.url) as client:
        await client.execute(TABLE["sql"])
        await client.ingest("t", [{"k": str(key), "v": float(key)} for key in range(50)])
        before = server.node.appends
        sums = "SUBSCRIBE SELECT SUM(v) FROM t WHERE k = '{}' WITHIN 0.5"
        wanted = [client.subscribe(sums.format(key)) for key in range(300)]
        for key, one in enumerate(wanted):
            await one.ready(30)
            assert one.value == (float(key) if key < 50 else None)
        assert len(server.node.engine.registrations) == 300
        assert server.node.appends - before < 100
        assert server.node.engine.is_quick(sums.format("another"))


async def test_a_node_that_starts_from_a_snapshot_knows_its_queries(tmp_path: Path) -> None:
    settings = NodeSettings(tmp_path / "node")
    rows = "SUBSCRIBE rows AS SELECT k FROM t WHERE v > 1"
    async with served(settings) as server, slackwater.connect(server.url) as client:
        await client.execute(TABLE["sql"])
        await client.execute(FIRST)
        await client.execute(rows)
        await client.ingest("t", [{"k": "a", "v": 1.0}, {"k": "b", "v": 2.0}])
    async with served(settings) as server, slackwater.connect(server.url) as client:
        assert server.node.snapshot_position == server.node.engine.position
        first = await client.subscribe(FIRST.replace("first AS ", "")).ready(10)
        named = await client.subscribe("rows").ready(10)
        assert (first.value, named.rows) == (3.0, [{"k": "b"}])
        receipt = await client.ingest("t", [{"k": "c", "v": 5.0}])
        await first.reached(receipt.position, 10)
        await named.reached(receipt.position, 10)
        assert (first.value, named.rows) == (8.0, [{"k": "b"}, {"k": "c"}])
        assert len(server.node.engine.registrations) == 2
        await client.execute("DROP SUBSCRIPTION rows")
        await client.execute("DROP SUBSCRIPTION first")
