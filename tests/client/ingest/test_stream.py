"""Streams of rows to real servers: every form, back-pressure, servers that die, servers that take no streams."""

import asyncio
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slackwater
from slackwater.client import Client, Forbidden, Refused
from slackwater.core.errors import SlackwaterError
from slackwater.core.types import Instant
from slackwater.server.store import STORE_FILE, Scope, Store
from tests.support.server_process import ServerProcess

COLUMNS = ("symbol", "price")
PAIRS = [("a", 1.5), ("b", None), ("c", 3.0)]
ARROW = pa.table({"symbol": ["a", "b", "c"], "price": [1.5, None, 3.0]})
FORMS: dict[str, Any] = {
    "mappings": [dict(zip(COLUMNS, pair, strict=True)) for pair in PAIRS],
    "mappings without nulls": [{"symbol": "a", "price": 1.5}, {"symbol": "b"}, {"symbol": "c", "price": 3.0}],
    "tuples": PAIRS,
    "lists": [list(pair) for pair in PAIRS],
    "arrow table": ARROW,
    "arrow table in chunks": pa.concat_tables([ARROW.slice(0, 1), ARROW.slice(1)]),
    "record batch": ARROW.to_batches()[0],
    "record batch reader": ARROW,
    "dictionaries": pa.table({"symbol": ARROW["symbol"].dictionary_encode(), "price": ARROW["price"]}),
    "views": pa.table({"symbol": ARROW["symbol"].cast(pa.string_view()), "price": ARROW["price"]}),
    "pandas": pd.DataFrame({"symbol": ["a", "b", "c"], "price": [1.5, float("nan"), 3.0]}, index=[5, 7, 9]),
    "polars": pl.DataFrame({"symbol": ["a", "b", "c"], "price": [1.5, None, 3.0]}),
}


async def stored(client: Client, table: str, position: int) -> list[tuple[str, float | None]]:
    answer = await client.query(f"SELECT symbol, price FROM {table}", after=position)
    return sorted((row["symbol"], row["price"]) for row in answer.rows)


def made(form: str) -> Any:
    return FORMS[form].to_reader() if form == "record batch reader" else FORMS[form]


@pytest.mark.parametrize("form", FORMS)
async def test_every_form_by_stream_and_by_request(client: Client, table: str, form: str) -> None:
    async with client.stream(table, columns=COLUMNS) as stream:
        assert await stream.send(made(form)) == 3
        receipt = await stream.flush()
        assert stream.live
    assert (receipt.accepted, receipt.quarantined, receipt.promised.by_number) == (3, 0, 3)
    assert await stored(client, table, receipt.position) == PAIRS
    again = await client.ingest(table, made(form), source=stream.source, first=0, columns=COLUMNS)
    assert (again.accepted, again.repeats) == (0, 3)
    gone = await client.ingest(table, made(form), delete=True, columns=COLUMNS)
    assert await stored(client, table, gone.position) == []
    keyed = await client.ingest(table, made(form), key="night", columns=COLUMNS)
    assert await stored(client, table, keyed.position) == PAIRS
    assert (await client.ingest(table, made(form), key="night", columns=COLUMNS)).repeats == 3


async def test_tuples_are_in_the_order_of_the_table(client: Client, table: str) -> None:
    receipt = await client.ingest(table, [("a", 1.0, "2026-11-19T10:00:00Z")])
    assert await stored(client, table, receipt.position) == [("a", 1.0)]


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        ({"symbol": "a"}, TypeError, "goes into a list"),
        ("a,1", TypeError, "not str"),
        ([1, 2], TypeError, "the first one is of type int"),
        ([("a",)], ValueError, "2 values"),
        ([{"symbol": "a", "price": [1]}], ValueError, "price"),
        ([{"symbol": "a", "price": float("nan")}], ValueError, "price"),
        (pa.table({"symbol": [["a"]]}), ValueError, "symbol"),
    ],
)
async def test_what_are_no_rows_is_refused_by_name(
    client: Client, table: str, rows: Any, error: type[Exception], words: str
) -> None:
    async with client.stream(table, columns=COLUMNS) as stream:
        with pytest.raises(error, match=words):
            await stream.send(rows)
        if words != "price":
            with pytest.raises(error, match=words):
                await client.ingest(table, rows, columns=COLUMNS)
        await stream.send([("a", 1.0)])
        assert (await stream.flush()).accepted == 1


async def test_single_rows_are_gathered_and_stay_in_order(client: Client, table: str) -> None:
    async with client.stream(table, columns=COLUMNS, most=100) as stream:
        for number in range(1000):
            await stream.send([("a", float(number))], delete=number == 500)
            assert stream.unacknowledged <= 100
        await stream.send([("b", 1.0)])
    assert stream.receipt.accepted == 1001
    assert await stored(client, table, stream.receipt.position) == [("a", 999.0), ("b", 1.0)]


async def test_a_large_table_is_cut_to_the_window(client: Client, table: str) -> None:
    count = 60_000
    rows = pa.table(
        {"symbol": [f"k{n % 100}" + "x" * 60 for n in range(count)], "price": [float(n) for n in range(count)]}
    )
    async with client.stream(table) as stream:
        await stream.send(rows)
        await stream.send(rows.to_pylist()[:20_000])
        receipt = await stream.flush(60)
    assert receipt.accepted == count + 20_000


async def test_what_a_server_refuses_is_the_error_of_the_stream(client: Client, table: str) -> None:
    with pytest.raises(Refused, match="no table") as refused:
        async with client.stream("nowhere") as stream:
            await stream.send([{"symbol": "a"}])
    assert refused.value.code == "not_found"
    async with client.stream(table) as other:
        await other.send([{"symbol": "a", "price": "much"}])
        assert (await other.flush()).quarantined == 1


async def test_text_that_is_no_unicode_ends_the_stream(client: Client, table: str) -> None:
    stream = client.stream(table, columns=COLUMNS)
    await stream.send([("a", 1.0)])
    await stream.flush()
    await stream.send([("\ud800", 1.0)])
    with pytest.raises(UnicodeEncodeError):
        await stream.flush()
    with pytest.raises(UnicodeEncodeError):
        await stream.send([("b", 1.0)])
    await stream.close()


async def test_a_closed_client_ends_its_streams(client_server: ServerProcess) -> None:
    async with slackwater.connect(client_server.url) as client:
        stream = client.stream("nowhere")
    with pytest.raises(SlackwaterError, match="closed"):
        await stream.send([{"symbol": "a"}])


def test_without_async(client_server: ServerProcess) -> None:
    with slackwater.connect_sync(client_server.url) as client:
        client.execute("CREATE TABLE IF NOT EXISTS plain (symbol TEXT PRIMARY KEY, price DOUBLE)")
        with client.stream("plain", source="desk", first=7, columns=COLUMNS) as stream:
            assert stream.send(PAIRS) == 10
            assert stream.flush().accepted == 3
            assert (stream.acknowledged, stream.unacknowledged, stream.next, stream.live) == (10, 0, 10, True)
        assert client.ingest("plain", ARROW, source="desk", first=7).repeats == 3
        with client.stream("plain", columns=COLUMNS, most=50) as stream:
            for number in range(2_000):
                assert stream.send([("a", float(number))]) == number + 1
                assert stream.unacknowledged <= 50
            with pytest.raises(ValueError, match="2 values"):
                stream.send([("a",)])
        assert stream.receipt.accepted == 2_000
        rows = client.query("SELECT price FROM plain WHERE symbol = 'a'", after=stream.receipt.position)
        assert rows.value == 1_999.0
        with pytest.raises(SlackwaterError, match="closed"):
            stream.send(PAIRS)
        with client.stream("nowhere") as stream:
            stream.send([{"symbol": "a"}])
            with pytest.raises(Refused, match="no table"):
                stream.flush()
            with pytest.raises(Refused, match="no table"):
                stream.send([{"symbol": "a"}])
            stream.close()


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.slow)])
async def test_every_acknowledged_row_is_there_once_when_the_server_is_killed(tmp_path: Path, kills: int) -> None:
    rows = 2_000 * kills
    with ServerProcess(tmp_path / "node", "--lease", "1") as server:
        async with slackwater.connect(server.url, patience=60) as client:
            await client.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
            stream = client.stream("t", source="killed", first=0, columns=("k", "v"), most=500)
            async with stream:
                for number in range(rows):
                    await stream.send([(number, number)])
                    if number % (rows // (kills + 1)) == rows // (kills + 1) - 1:
                        acknowledged = stream.acknowledged
                        await asyncio.to_thread(server.kill)
                        await asyncio.to_thread(server.start)
                        answer = await client.query("SELECT k FROM t")
                        found = {row["k"] for row in answer.rows}
                        assert found >= set(range(acknowledged))
                receipt = await stream.flush(60)
            assert stream.live
            assert receipt.accepted + receipt.repeats == rows
            answer = await client.query("SELECT k, v FROM t", after=receipt.position)
            assert sorted(row["k"] for row in answer.rows) == list(range(rows))
            again = await client.ingest("t", [{"k": n, "v": n} for n in range(rows)], source="killed", first=0)
            assert (again.accepted, again.repeats) == (0, rows)
    # Every number stands in the log once, also where its acknowledgement was lost.
    assert again.position == receipt.position


async def test_without_a_window_rows_go_by_requests(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    with Store(folder / STORE_FILE) as store:
        tokens = {
            scope: store.create_token(scope, [scope], Instant(0))[1]
            for scope in (Scope.INGEST, Scope.READ, Scope.ADMIN)
        }
    with ServerProcess(folder) as server:
        async with slackwater.connect(server.url, token=tokens[Scope.ADMIN]) as client:
            await client.execute("CREATE TABLE t (symbol TEXT PRIMARY KEY, price DOUBLE)")
            async with client.stream("t", columns=COLUMNS) as stream:
                await stream.send(PAIRS)
            assert stream.live
        async with slackwater.connect(server.url, token=tokens[Scope.INGEST]) as client:
            async with client.stream("t", columns=COLUMNS) as stream:
                for _ in range(3):
                    await stream.send(PAIRS)
                    await stream.send(ARROW)
            assert not stream.live
            assert stream.receipt.accepted == 18
        async with slackwater.connect(server.url, token=tokens[Scope.READ]) as client:
            stream = client.stream("t", columns=COLUMNS)
            await stream.send(PAIRS)
            with pytest.raises(Forbidden):
                await stream.flush()
