"""The client against a real server over real sockets."""

import asyncio
import gc
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

import slackwater
from slackwater.client import Client, Forbidden, Refused, Shown, Unauthorized
from slackwater.core.errors import NotSupported, SchemaError, SlackwaterError, SqlError
from slackwater.core.types import instant
from slackwater.dissemination.transports import Unreachable
from slackwater.server.store import STORE_FILE, Scope, Store
from tests.support.server_process import ServerProcess

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def certain(shown: Shown) -> bool:
    return shown.certain


async def test_values_and_rows(client: Client, table: str) -> None:
    first = await client.ingest(table, [{"symbol": "A", "price": 1.0, "at": NOON}, {"symbol": "B", "price": 2.0}])
    assert (first.accepted, first.quarantined, first.repeats) == (2, 0, 0)
    total = await client.subscribe(f"SUBSCRIBE SELECT SUM(price) FROM {table} WITHIN 0.5").ready(10)
    cheap = await client.subscribe(f"SUBSCRIBE SELECT * FROM {table} WHERE price < 10").ready(10)
    await cheap.wait_until(certain, 10)
    assert (total.value, total.bound, total.certain, total.why) == (3.0, 0.5, True, "")
    assert total.as_of is not None
    assert total.as_of >= first.position
    assert cheap.value is None
    assert sorted(cheap.rows, key=lambda row: row["symbol"]) == [
        {"symbol": "A", "price": 1.0, "at": NOON},
        {"symbol": "B", "price": 2.0, "at": None},
    ]
    assert (await anext(total)).value == 3.0
    assert len((await anext(cheap)).upserts) == 2

    # Within the bound nothing is said, and what is shown is right as of the new position all the same.
    second = await client.ingest(table, [{"symbol": "B", "price": 2.25}])
    shown = await total.reached(second.position, 10)
    assert shown.value is not None
    assert abs(shown.value - 3.25) <= 0.5
    third = await client.ingest(table, [{"symbol": "B", "price": 20.0}, {"symbol": "C", "price": 3.0}])
    shown = await total.reached(third.position, 10)
    assert shown.value is not None
    assert abs(shown.value - 24.0) <= 0.5
    await cheap.reached(third.position, 10)
    change = await anext(cheap)
    # Two changes that came before the program looked are one.
    assert change.upserts == ({"symbol": "C", "price": 3.0, "at": None},)
    assert change.deletes == ({"symbol": "B"},)
    assert change.as_of == third.position


async def test_deleted_rows_leave(client: Client, table: str) -> None:
    await client.ingest(table, [{"symbol": "A", "price": 1.0}])
    async with client.subscribe(f"SUBSCRIBE SELECT symbol FROM {table}") as every:
        await every.ready(10)
        receipt = await client.ingest(table, [{"symbol": "A"}], delete=True)
        await every.reached(receipt.position, 10)
        assert every.rows == []
    assert not every.certain
    assert every.why == "it was closed"
    # What was known stays known.
    assert every.as_of is not None


async def test_an_average_of_nothing(client: Client, table: str) -> None:
    average = await client.subscribe(f"SUBSCRIBE SELECT AVG(price) FROM {table} WITHIN 1").ready(10)
    await average.wait_until(certain, 10)
    assert average.value is None
    assert (await anext(average)).value is None


async def test_one_shot_answers(client: Client, table: str) -> None:
    receipt = await client.ingest(table, [{"symbol": "A", "price": 1.5, "at": NOON}, {"symbol": "B", "price": 2.0}])
    answer = await client.query(f"SELECT * FROM {table} ORDER BY symbol", after=receipt.position)
    assert answer.as_of >= receipt.position
    assert list(answer) == [{"symbol": "A", "price": 1.5, "at": NOON}, {"symbol": "B", "price": 2.0, "at": None}]
    assert (await client.query(f"SELECT COUNT(*) AS n FROM {table}")).value == 2
    with pytest.raises(ValueError, match="one row with one column"):
        _ = answer.value
    frame = answer.to_pandas()
    assert list(frame["price"]) == [1.5, 2.0]
    assert str(answer.to_arrow().schema.field("at").type) == "timestamp[us, tz=UTC]"
    assert any(table in str(row) for row in await client.query("SHOW TABLES"))


async def test_rows_as_tables(client: Client, table: str) -> None:
    every = await client.subscribe(f"SUBSCRIBE SELECT * FROM {table}").ready(10)
    assert every.to_arrow().schema.names == ["symbol", "price", "at"]
    receipt = await client.ingest(table, [{"symbol": "A", "price": 1.5, "at": NOON}])
    await every.reached(receipt.position, 10)
    assert every.to_arrow().to_pylist() == [{"symbol": "A", "price": 1.5, "at": NOON}]
    assert list(every.to_pandas()["symbol"]) == ["A"]


async def test_explaining_and_listing(client: Client, table: str) -> None:
    sql = f"SUBSCRIBE SELECT MAX(price) FROM {table} WITHIN 2"
    explanation = await client.explain(sql)
    assert "MAX" in str(explanation)
    assert explanation.tree
    await client.execute(f"SUBSCRIBE top_{table} AS SELECT MAX(price) FROM {table} WITHIN 2")
    named = await client.subscribe(f"top_{table}").ready(10)
    assert named.bound == 2
    listed = [one for one in await client.subscriptions() if one.table == table]
    assert [one.name for one in listed] == [f"top_{table}"]
    with pytest.raises(Refused, match="drop them first"):
        await client.execute(f"DROP TABLE {table}")
    await client.execute(f"DROP SUBSCRIPTION top_{table}")
    with pytest.raises(Refused):
        await asyncio.wait_for(_drain(named), 10)
    await client.execute(f"DROP TABLE {table}")
    await client.execute(f"DROP TABLE IF EXISTS {table}")
    with pytest.raises(Refused, match="no table"):
        await client.execute(f"DROP TABLE {table}")


async def _drain(subscription: Any) -> None:
    async for _ in subscription:
        pass


async def test_bad_statements_say_where(client: Client, table: str) -> None:
    with pytest.raises(SqlError, match="SELEC") as wrong:
        await client.query("\n  SELEC 1")
    assert (wrong.value.line, wrong.value.column) == (2, 3)
    refused = client.subscribe(f"SUBSCRIBE SELECT nope FROM {table}")
    with pytest.raises(SqlError, match="no column 'nope'") as wrong:
        await asyncio.wait_for(anext(refused), 10)
    assert (wrong.value.line, wrong.value.column) == (1, 18)
    assert not refused.certain
    assert "nope" in refused.why
    with pytest.raises(SqlError, match="no column 'nope'"):
        await refused.ready(10)
    with pytest.raises(SqlError, match="EVERY is not possible yet"):
        await client.subscribe(f"SUBSCRIBE SELECT price FROM {table} EVERY 1 HOUR").ready(10)
    with pytest.raises(NotSupported, match="EVERY is not possible yet"):
        await client.explain(f"SUBSCRIBE SELECT price FROM {table} EVERY 1 HOUR")
    with pytest.raises(SqlError):
        await client.execute("CREATE TABLE broken (")
    with pytest.raises(NotSupported, match="use query"):
        await client.execute("SELECT 1 FROM quotes")
    with pytest.raises(SchemaError):
        await client.execute(f"CREATE TABLE {table} (symbol BIGINT PRIMARY KEY)")
    with pytest.raises(Refused, match="no table"):
        await client.ingest("absent", [{"a": 1}])


async def test_rows_sent_again_are_taken_once(client: Client, table: str) -> None:
    rows = [{"symbol": f"S{n % 50}", "price": float(n)} for n in range(25_000)]
    first = await client.ingest(table, rows, source="desk-7", first=0)
    assert (first.accepted, first.repeats) == (25_000, 0)
    again = await client.ingest(table, [*rows[-100:], {"symbol": "new", "price": 1.0}], source="desk-7", first=24_900)
    assert (again.accepted, again.repeats) == (1, 100)
    # Without numbers of the program's own the client gives them, and equal rows are not taken for repeats.
    for _ in range(2):
        receipt = await client.ingest(table, [{"symbol": "same", "price": 1.0}], source="desk-8")
        assert (receipt.accepted, receipt.repeats) == (1, 0)
    with pytest.raises(ValueError, match="name of their source"):
        await client.ingest(table, rows, first=0)


async def test_rows_that_cannot_be_sent(client: Client, table: str) -> None:
    with pytest.raises(ValueError, match="nan in column price"):
        await client.ingest(table, [{"symbol": "A", "price": math.nan}])
    with pytest.raises(ValueError, match="cannot be sent"):
        await client.ingest(table, [{"symbol": object()}])
    receipt = await client.ingest(table, [{"symbol": None, "price": 1.0}, {"symbol": "A", "price": 1.0}])
    assert (receipt.accepted, receipt.quarantined) == (1, 1)


async def test_a_subscription_nobody_holds_is_given_up(client: Client, table: str) -> None:
    subscription = await client.subscribe(f"SUBSCRIBE SELECT COUNT(*) FROM {table}").ready(10)
    assert [one.subscribers for one in await client.subscriptions() if one.table == table] == [1]
    del subscription
    gc.collect()
    async with asyncio.timeout(10):
        while [one.subscribers for one in await client.subscriptions() if one.table == table] not in ([0], []):
            await asyncio.sleep(0.02)


async def test_many_subscriptions_share_a_connection(client: Client, table: str) -> None:
    before = await _connections(client)
    many = [client.subscribe(f"SUBSCRIBE SELECT SUM(price) FROM {table} WITHIN {n}") for n in range(200)]
    await asyncio.gather(*(one.ready(20) for one in many))
    receipt = await client.ingest(table, [{"symbol": "A", "price": 1000.0}])
    for one in await asyncio.gather(*(one.reached(receipt.position, 10) for one in many)):
        assert one.value is not None
        assert abs(one.value - 1000.0) <= one.bound
    assert await _connections(client) <= max(before, 1)


async def _connections(client: Client) -> int:
    body = await client._requests.request("GET", "/v1/metrics")
    return int(httpx.Response(200, content=body).json()["connections"])


async def test_waiting_has_an_end(client: Client, table: str) -> None:
    subscription = await client.subscribe(f"SUBSCRIBE SELECT COUNT(*) FROM {table}").ready(10)
    with pytest.raises(TimeoutError):
        await subscription.wait_until(lambda shown: shown.value == 5, 0.05)
    with pytest.raises(ZeroDivisionError):
        await subscription.wait_until(lambda shown: 1 // 0 == 1)
    waiting = asyncio.create_task(subscription.wait_until(lambda shown: shown.value == 5))
    await asyncio.sleep(0)
    await subscription.close()
    with pytest.raises(SlackwaterError, match="closed"):
        await waiting
    assert [change async for change in subscription] != []


async def test_closing_ends_iterations(client_server: ServerProcess) -> None:
    async with slackwater.connect(client_server.url) as client:
        await client.execute("CREATE TABLE IF NOT EXISTS closing (k BIGINT PRIMARY KEY)")
        subscription = client.subscribe("SUBSCRIBE SELECT COUNT(*) FROM closing")
        draining = asyncio.create_task(_drain(subscription))
        await subscription.ready(10)
    await asyncio.wait_for(draining, 5)
    with pytest.raises(SlackwaterError, match="closed"):
        client.subscribe("SUBSCRIBE SELECT COUNT(*) FROM closing")
    with pytest.raises(SlackwaterError, match="connected before"):
        await client.__aenter__()
    await asyncio.sleep(0.05)
    assert len(asyncio.all_tasks()) == 1


async def test_nobody_there_says_where() -> None:
    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:9 cannot be reached .*server is running"):
        async with slackwater.connect("http://127.0.0.1:9", wait=0.1):
            pass
    with pytest.raises(ValueError, match="write it as http://localhost:8400"):
        slackwater.connect("localhost:8400")
    with pytest.raises(SlackwaterError, match="not connected yet"):
        slackwater.connect("http://localhost:8400").subscribe("SUBSCRIBE SELECT 1")


async def test_tokens_and_their_scopes(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    with Store(folder / STORE_FILE) as store:
        text = {scope: store.create_token(str(scope), [scope], instant(NOON))[1] for scope in Scope}
    with ServerProcess(folder) as server:
        async with slackwater.connect(server.url, token=text[Scope.ADMIN]) as admin:
            await admin.execute("CREATE TABLE t (k BIGINT PRIMARY KEY)")
        async with slackwater.connect(server.url, token=text[Scope.INGEST]) as writer:
            assert (await writer.ingest("t", [{"k": 1}])).accepted == 1
            with pytest.raises(Forbidden, match="scope"):
                await writer.execute("DROP TABLE t")
            with pytest.raises(Forbidden, match="scope"):
                await writer.subscribe("SUBSCRIBE SELECT COUNT(*) FROM t").ready(10)
        async with slackwater.connect(server.url, token=text[Scope.READ]) as reader:
            assert (await reader.subscribe("SUBSCRIBE SELECT COUNT(*) FROM t").ready(10)).value == 1
            with pytest.raises(Forbidden, match="scope"):
                await reader.ingest("t", [{"k": 2}])
        for wrong in ("sw_wrong", None):
            async with slackwater.connect(server.url, token=wrong) as stranger:
                with pytest.raises(Unauthorized, match="token"):
                    await stranger.query("SELECT * FROM t")
                refused = stranger.subscribe("SUBSCRIBE SELECT COUNT(*) FROM t")
                with pytest.raises(Unauthorized, match="token"):
                    await asyncio.wait_for(anext(refused), 10)
                # Once it is known that nobody lets us in, that is said at once.
                with pytest.raises(Unauthorized):
                    await stranger.subscribe("SUBSCRIBE SELECT COUNT(*) FROM t").ready(1)
