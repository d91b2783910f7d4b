"""REST over a real socket: tables, rows, questions, subscriptions, and what is said when something is wrong."""

import io
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import httpx
import pyarrow as pa
import pytest

LINES = {"content-type": "application/x-ndjson"}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
_names = (f"t{number}" for number in count())


@pytest.fixture
def table(web: httpx.Client) -> str:
    """A new table (k, v, at)."""
    name = next(_names)
    made = web.post("/v1/tables", json={"sql": f"CREATE TABLE {name} (k TEXT PRIMARY KEY, v DOUBLE, n BIGINT)"})
    assert made.status_code == 201, made.text
    return name


def rows_of(web: httpx.Client, sql: str, after: int | None = None) -> list[list[Any]]:
    found = web.post("/v1/query", json={"sql": sql} | ({} if after is None else {"after": after}))
    assert found.status_code == 200, found.text
    rows: list[list[Any]] = found.json()["rows"]
    return rows


def stream(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema, **options) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def failed(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    problem: dict[str, Any] = answer.json()
    assert problem["error"] == code
    assert len(problem["message"]) > 10
    return problem


# ---- tables


def test_tables_are_made_by_sql_or_by_definition_and_dropped(web: httpx.Client) -> None:
    definition = {
        "name": "cars",
        "columns": [{"name": "id", "type": "BIGINT", "nullable": False}, {"name": "price", "type": "DOUBLE"}],
        "key": ["id"],
    }
    assert web.post("/v1/tables", json=definition).status_code == 201
    assert web.post("/v1/tables", json=definition).status_code == 200
    by_sql = {"sql": "CREATE TABLE cars (id BIGINT PRIMARY KEY, price DOUBLE)"}
    assert web.post("/v1/tables", json=by_sql).status_code == 200
    wider = definition | {"columns": [*definition["columns"], {"name": "year", "type": "BIGINT"}]}
    assert [one["name"] for one in web.post("/v1/tables", json=wider).json()["columns"]] == ["id", "price", "year"]
    failed(web.post("/v1/tables", json=definition), 409, "schema")
    assert web.get("/v1/tables/CARS").json()["name"] == "cars"
    assert "cars" in [one["name"] for one in web.get("/v1/tables").json()["tables"]]
    assert web.delete("/v1/tables/cars").status_code == 200
    failed(web.get("/v1/tables/cars"), 404, "not_found")
    failed(web.delete("/v1/tables/cars"), 404, "not_found")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"sql": 3}',
        b'{"sql": ""}',
        b'{"name": "x"}',
        b'{"name": "x", "columns": [], "key": ["a"]}',
        b'{"name": "x", "columns": [{"name": "a", "type": "INT"}], "key": ["a"]}',
        b'{"name": "x", "columns": [{"name": "a", "type": "TEXT", "nullable": false}], "key": ["b"]}',
        b'{"name": "$x", "columns": [{"name": "a", "type": "TEXT", "nullable": false}], "key": ["a"]}',
        b'{"name": "x", "columns": [{"name": "a", "type": "TEXT", "nullable": false}], "key": ["a"], "more": 1}',
        b'{"sql": "\xff"}',
        b'{"sql": "SHOW TABLES"}',
        b"[" * 100_000,
    ],
)
def test_definitions_that_make_no_sense(web: httpx.Client, body: bytes) -> None:
    failed(web.post("/v1/tables", content=body, headers={"content-type": "application/json"}), 400, "bad_request")


def test_errors_in_sql_say_where(web: httpx.Client, table: str) -> None:
    problem = failed(web.post("/v1/query", json={"sql": f"SELECT k,\n  nothing FROM {table}"}), 400, "sql")
    assert (problem["line"], problem["column"]) == (2, 3)
    failed(web.post("/v1/tables", json={"sql": "CREATE TABLE x (a TEXT"}), 400, "sql")
    failed(web.post("/v1/subscriptions", json={"sql": "SUBSCRIBE x AS SELECT k FROM nowhere"}), 400, "sql")
    failed(
        web.post("/v1/subscriptions", json={"sql": f"SUBSCRIBE x AS SELECT k FROM {table} EVERY 1 HOUR"}),
        400,
        "not_supported",
    )


# ---- rows


def test_json_lines_are_admitted_refused_and_known_again(web: httpx.Client, table: str) -> None:
    body = '{"k": "a", "v": 1.5}\n{"k": "b", "v": "no"}\n\n[1]\n{"k": "c", "v": 2, "odd": 1}\n'
    address = f"/v1/tables/{table}/rows?source=s&first=100"
    receipt = web.post(address, content=body, headers=LINES).json()
    assert {name: receipt[name] for name in ("accepted", "quarantined", "repeats")} == {
        "accepted": 2,
        "quarantined": 2,
        "repeats": 0,
    }
    assert receipt["ignored_columns"] == ["odd"]
    again = web.post(address, content=body, headers=LINES).json()
    assert (again["accepted"], again["quarantined"], again["repeats"]) == (0, 0, 4)
    assert rows_of(web, f"SELECT k, v FROM {table} ORDER BY k", receipt["position"]) == [["a", 1.5], ["c", 2.0]]
    listed = web.get(f"/v1/tables/{table}/quarantine").json()
    assert [(one["reason"], one["sequence"]) for one in listed["rows"]] == [("wrong-type", 101), ("not-an-object", 102)]
    page = web.get(f"/v1/tables/{table}/quarantine?limit=1").json()
    more = web.get(f"/v1/tables/{table}/quarantine?limit=5&start={page['next']}").json()
    assert page["rows"] + more["rows"] == listed["rows"]
    assert more["next"] == more["end"]


def test_without_number_and_time_the_last_arrival_wins(web: httpx.Client, table: str) -> None:
    address = f"/v1/tables/{table}/rows"
    for value in (1, 2, 1):
        receipt = web.post(address, content=f'{{"k": "a", "v": {value}}}\n', headers=LINES).json()
        assert (receipt["accepted"], receipt["promised"]["at_least_once"]) == (1, 1)
    assert rows_of(web, f"SELECT v FROM {table}", receipt["position"]) == [[1.0]]
    receipt = web.post(address, content='{"k": "a", "v": 3}\n{"k": "a", "v": 4}\n', headers=LINES).json()
    assert rows_of(web, f"SELECT v FROM {table}", receipt["position"]) == [[4.0]]
    web.post(f"{address}?operation=delete", content='{"k": "a"}\n', headers=LINES)
    receipt = web.post(address, content='{"k": "a", "v": 4}\n', headers=LINES).json()
    assert rows_of(web, f"SELECT v FROM {table}", receipt["position"]) == [[4.0]]


def test_without_numbers_rows_with_a_time_are_known_by_what_they_say(web: httpx.Client) -> None:
    name = next(_names)
    web.post("/v1/tables", json={"sql": f"CREATE TABLE {name} (k TEXT PRIMARY KEY, t TIMESTAMP) EVENT TIME t"})
    address = f"/v1/tables/{name}/rows"
    for at, outcome in (("01", "accepted"), ("01", "repeats"), ("02", "accepted")):
        body = f'{{"k": "a", "t": "2026-01-{at}T00:00:00Z"}}\n'
        receipt = web.post(address, content=body, headers=LINES).json()
        assert (receipt[outcome], receipt["promised"]["by_content"]) == (1, int(outcome == "accepted"))
    receipt = web.post(address, content='{"k": "a", "t": "2999-01-01T00:00:00Z"}\n', headers=LINES).json()
    assert receipt["quarantined"] == 1
    [refused] = web.get(f"/v1/tables/{name}/quarantine").json()["rows"]
    assert refused["reason"] == "time-ahead"
    assert "at most 24 h ahead of the log clock" in refused["detail"]


def test_a_request_under_a_key_is_taken_once(web: httpx.Client, table: str) -> None:
    address, headers = f"/v1/tables/{table}/rows", LINES | {"idempotency-key": "order-7"}
    body = '{"k": "a", "v": 1}\n{"k": "b", "v": "no"}\n'
    first = web.post(address, content=body, headers=headers).json()
    assert (first["accepted"], first["quarantined"], first["request_repeated"]) == (1, 1, False)
    assert first["promised"]["by_request"] == 1
    web.post(address, content='{"k": "a", "v": 2}\n', headers=LINES)
    again = web.post(address, content=body, headers=headers).json()
    assert (again["accepted"], again["quarantined"], again["repeats"], again["request_repeated"]) == (0, 0, 2, True)
    assert rows_of(web, f"SELECT v FROM {table}", again["position"]) == [[2.0]]
    failed(web.post(address, content=body + body, headers=headers), 422, "key_reused")
    failed(web.post(f"{address}?operation=delete", content=body, headers=headers), 422, "key_reused")
    other = web.post(f"{address}?source=other", content=body, headers=headers).json()
    assert other["accepted"] == 1, "a key is of one source and table"
    failed(web.post(address, content=body, headers=LINES | {"idempotency-key": "x" * 129}), 400, "bad_request")


def test_arrow_streams(web: httpx.Client, table: str) -> None:
    batch = pa.RecordBatch.from_pydict({"k": [f"k{i}" for i in range(500)], "n": list(range(500))})
    address = f"/v1/tables/{table}/rows?source=arrow&first=0"
    receipt = web.post(address, content=stream(batch), headers=ARROW).json()
    assert receipt["accepted"] == 500
    assert web.post(address, content=stream(batch), headers=ARROW).json()["repeats"] == 500
    assert rows_of(web, f"SELECT SUM(n) FROM {table}", receipt["position"]) == [[sum(range(500))]]


def test_rows_are_deleted_by_key(web: httpx.Client, table: str) -> None:
    address = f"/v1/tables/{table}/rows"
    web.post(address, content='{"k": "a"}\n{"k": "b"}\n', headers=LINES)
    receipt = web.post(f"{address}?operation=delete", content='{"k": "a"}\n', headers=LINES).json()
    assert receipt["accepted"] == 1
    assert rows_of(web, f"SELECT k FROM {table}", receipt["position"]) == [["b"]]
    both = pa.RecordBatch.from_pydict({"k": ["b"], "$op": pa.array([1], pa.int8())})
    receipt = web.post(f"{address}?source=other", content=stream(both), headers=ARROW).json()
    assert rows_of(web, f"SELECT k FROM {table}", receipt["position"]) == []


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"url": "?first=-1"}, 400, "bad_request"),
        ({"url": "?first=1e3"}, 400, "bad_request"),
        ({"url": "?first=99999999999999999999999"}, 400, "bad_request"),
        ({"url": "?source="}, 400, "bad_request"),
        ({"url": "?source=" + "x" * 200}, 400, "bad_request"),
        ({"url": "?operation=replace"}, 400, "bad_request"),
        ({"url": "?timezone=Nowhere/City"}, 400, "bad_request"),
        ({"url": "?frist=3"}, 400, "bad_request"),
        ({"url": "?source=a&source=b"}, 400, "bad_request"),
        ({"headers": {"content-type": "text/csv"}}, 415, "media_type"),
        ({"headers": {}}, 415, "media_type"),
        ({"headers": ARROW}, 400, "bad_request"),
        ({"headers": ARROW, "content": b""}, 400, "bad_request"),
        ({"headers": ARROW, "content": b"\xff\xff\xff\xff\x10\x00\x00\x00" + b"\x07" * 64}, 400, "bad_request"),
        ({"content": b'{"k": "a"}\n' * 100_001}, 413, "limit"),
        ({"content": b" " * (17 * 1024 * 1024)}, 413, "limit"),
    ],
)
def test_rows_that_cannot_be_taken(
    web: httpx.Client, table: str, change: dict[str, Any], status: int, code: str
) -> None:
    url = f"/v1/tables/{table}/rows" + change.get("url", "")
    answer = web.post(url, content=change.get("content", b'{"k": "a"}\n'), headers=change.get("headers", LINES))
    failed(answer, status, code)
    assert web.get(f"/v1/tables/{table}").json()["rows"] == 0


def test_a_body_that_says_no_length_is_cut_off_too(web: httpx.Client, table: str) -> None:
    pieces, taken = 200, 0

    def endless() -> Any:
        nonlocal taken
        for taken in range(pieces):  # noqa: B007
            yield b" " * (1 << 20)
        taken = pieces

    # The server answers and closes the connection while the client still sends: not every time is the answer read.
    with suppress(httpx.TransportError):
        failed(web.post(f"/v1/tables/{table}/rows", content=endless(), headers=LINES), 413, "limit")
    assert taken < pieces, "the server read all of it"
    assert web.get(f"/v1/tables/{table}").json()["rows"] == 0


def test_many_requests_at_once_share_appends(web: httpx.Client, table: str) -> None:
    before = web.get("/v1/metrics").json()
    threads, receipts = 16, []

    def send(worker: int) -> None:
        with httpx.Client(base_url=web.base_url, timeout=30) as own:
            for number in range(10):
                row = f'{{"k": "{worker}-{number}", "n": 1}}\n'
                address = f"/v1/tables/{table}/rows?source={worker}&first={number}"
                receipts.append(own.post(address, content=row, headers=LINES).json())

    _together([lambda worker=worker: send(worker) for worker in range(threads)])  # type: ignore[misc]
    after = web.get("/v1/metrics").json()
    assert all(receipt["accepted"] == 1 for receipt in receipts)
    assert len({receipt["position"] for receipt in receipts}) == threads * 10
    assert after["log_changes"] - before["log_changes"] == threads * 10
    assert after["log_appends"] - before["log_appends"] < threads * 10
    last = max(receipt["position"] for receipt in receipts)
    assert rows_of(web, f"SELECT SUM(n) FROM {table}", last) == [[threads * 10]]


def _together(calls: list[Callable[[], None]]) -> None:
    workers = [threading.Thread(target=call) for call in calls]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


# ---- questions


def test_answers_name_their_position_and_come_as_arrow_too(web: httpx.Client, table: str) -> None:
    sent = web.post(f"/v1/tables/{table}/rows", content='{"k": "a", "v": 1}\n', headers=LINES).json()
    question = {"sql": f"SELECT k, v FROM {table}", "after": sent["position"]}
    answer = web.post("/v1/query", json=question)
    assert answer.json()["as_of"] >= sent["position"]
    arrow = web.post("/v1/query", json=question, headers={"accept": ARROW["content-type"]})
    assert arrow.headers["content-type"] == ARROW["content-type"]
    assert int(arrow.headers["slackwater-as-of"]) >= sent["position"]
    with pa.ipc.open_stream(arrow.content) as reader:
        assert reader.read_all().to_pylist() == [{"k": "a", "v": 1.0}]


def test_show_and_explain(web: httpx.Client, table: str) -> None:
    assert table in [row[0] for row in rows_of(web, "SHOW TABLES")]
    assert rows_of(web, f"EXPLAIN SUBSCRIBE SELECT SUM(v) FROM {table} WITHIN 3")[0] == ["subscription"]
    explained = web.post("/v1/explain", json={"sql": f"SELECT k FROM {table}"}).json()
    assert explained["tree"]["name"] == "one-shot query"
    failed(web.post("/v1/query", json={"sql": f"DROP TABLE {table}"}), 400, "not_supported")
    failed(web.post("/v1/query", json={"sql": "SHOW SOURCES"}), 400, "not_supported")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT repeat('x', 1000000000)",
        "COPY (SELECT 1) TO '/tmp/x'",
        "SELECT 1; SELECT 2",
        "SELECT",
        "((((((((((",
        "SELECT '",
        "\u0000",
        "x" * 70_000,
        "SELECT CAST('x' AS BIGINT)",
    ],
)
def test_questions_that_are_refused(web: httpx.Client, sql: str) -> None:
    answer = web.post("/v1/query", json={"sql": sql})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"] in ("sql", "not_supported", "bad_request")


def test_every_kind_of_cell_can_be_shown(web: httpx.Client) -> None:
    sql = """SELECT 1 AS a, 1.5 AS b, 'x' AS c, NULL AS d, TRUE AS e, DATE '2026-01-02' AS f,
             TIMESTAMP '2026-01-02 03:04:05' AS g, CAST(1 AS DOUBLE) / 0 AS h, SUM(1) AS i"""
    [row] = rows_of(web, sql)
    assert row[:6] == [1, 1.5, "x", None, True, "2026-01-02"]
    assert row[6].startswith("2026-01-02T03:04:05")
    assert row[7:] == [None, 1]


# ---- subscriptions


def test_subscriptions_are_registered_listed_explained_and_dropped(web: httpx.Client, table: str) -> None:
    name = f"total_{table}"
    sql = f"SUBSCRIBE {name} AS SELECT SUM(v) FROM {table} WITHIN 10"
    made = web.post("/v1/subscriptions", json={"sql": sql})
    assert made.status_code == 201
    number = made.json()["number"]
    assert made.json() | {"kind": "aggregate", "within": 10.0, "fidelity": 1.0, "owner": "local"} == made.json()
    failed(web.post("/v1/subscriptions", json={"sql": sql.upper()}), 409, "exists")
    failed(web.post("/v1/subscriptions", json={"sql": f"SUBSCRIBE SELECT k FROM {table}"}), 400, "bad_request")
    assert web.get(f"/v1/subscriptions/{number}").json()["name"] == name
    assert web.get(f"/v1/subscriptions/{name.upper()}/explain").json()["tree"]["name"] == "subscription"
    for number_sent in range(4):
        body = f'{{"k": "a", "v": {number_sent * 20}}}\n'
        sent = web.post(f"/v1/tables/{table}/rows?source=s&first={number_sent}", content=body, headers=LINES).json()
    shown = rows_of(web, "SHOW SUBSCRIPTIONS", sent["position"])
    [measured] = [row for row in shown if row[1] == name]
    assert 1 <= measured[6] <= 4
    assert measured[7] == 0
    failed(web.delete(f"/v1/tables/{table}"), 409, "in_use")
    assert web.delete(f"/v1/subscriptions/{name}").status_code == 200
    failed(web.delete(f"/v1/subscriptions/{number}"), 404, "not_found")
    assert web.delete(f"/v1/tables/{table}").status_code == 200


def test_listing_goes_page_by_page(web: httpx.Client, table: str) -> None:
    for number in range(5):
        web.post("/v1/subscriptions", json={"sql": f"SUBSCRIBE p{number}_{table} AS SELECT k FROM {table}"})
    listed: list[str | None] = []
    start: int | None = 0
    while start is not None:
        page: dict[str, Any] = web.get(f"/v1/subscriptions?limit=2&start={start}").json()
        assert len(page["subscriptions"]) <= 2
        listed += [one["name"] for one in page["subscriptions"]]
        start = page["next"]
    assert [name for name in listed if name and name.endswith(table)] == [f"p{number}_{table}" for number in range(5)]


# ---- the rest


def test_health_ready_metrics_and_addresses_that_are_not_there(web: httpx.Client) -> None:
    assert web.get("/v1/health").json() == {"status": "ok"}
    assert web.get("/v1/ready").json()["status"] == "ready"
    assert web.get("/v1/metrics").json()["resident_bytes"] > 0
    failed(web.get("/v2/tables"), 404, "not_found")
    failed(web.put("/v1/tables", content=b""), 405, "method_not_allowed")
    failed(web.get("/v1/live"), 404, "not_found")
    failed(web.get("/v1/health?x=1"), 400, "bad_request")
