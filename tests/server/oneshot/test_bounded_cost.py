"""What is answered in the server's process: nothing whose cost its table does not bound."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from slackwater.core import Column, DataType, Instant, Origin, TableSchema, Update
from slackwater.core.arrow import to_batch
from slackwater.core.extent import Interval
from slackwater.core.region import Box, Region, Side
from slackwater.core.rights import EVERY_ROW, Rights
from slackwater.core.statement import Statement
from slackwater.processing.latest import LatestTable
from slackwater.server.access import LOCAL
from slackwater.server.node import NodeSettings
from slackwater.server.oneshot import bounded_cost
from slackwater.server.oneshot.bounded_cost import has_bounded_cost, is_small
from slackwater.server.rest import query
from slackwater.sql import Catalog, bind, parse
from slackwater.sql.parse import ParsedStatement
from tests.support.node_server import served


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t",
        "SELECT a, COUNT(*), SUM(b) + AVG(b) AS s FROM t WHERE a > 5 AND NOT b IS NULL GROUP BY a HAVING MAX(b) < 3",
        "SELECT DISTINCT UPPER(c) AS c, CASE WHEN a IN (1, 2) THEN b ELSE -b END FROM t ORDER BY 1 LIMIT 5 OFFSET 2",
        "SELECT COALESCE(ROUND(ABS(b), 2), 0) AS b FROM t WHERE a BETWEEN 1 AND 2 OR c = 'x'",
    ],
)
def test_of_bounded_cost(sql: str) -> None:
    assert has_bounded_cost(parse(sql).tree)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "SELECT * FROM t, u",
        "SELECT * FROM t a JOIN t b ON a.a = b.a",
        "SELECT * FROM (SELECT * FROM t) AS t",
        "WITH u AS (SELECT * FROM t) SELECT * FROM u",
        "WITH RECURSIVE u AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM u) SELECT * FROM u",
        "SELECT * FROM t UNION ALL SELECT * FROM t",
        "SELECT (SELECT MAX(a) FROM t) AS a FROM t",
        "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM t)",
        "SELECT c || c AS c FROM t",
        "SELECT CONCAT(c, c) AS c FROM t",
        "SELECT LEVENSHTEIN(c, 'x') AS n FROM t",
        "SELECT c LIKE '%a%a%a%' AS x FROM t",
        "SELECT SUM(b) OVER (ORDER BY a) AS s FROM t",
        "SELECT * FROM t CROSS JOIN LATERAL (SELECT 1) AS x",
        "SELECT LIST(a) AS a FROM t",
        f"SELECT {' + '.join(['a'] * 200)} AS a FROM t",
    ],
)
def test_of_unbounded_cost(sql: str) -> None:
    assert not has_bounded_cost(parse(sql).tree)


def test_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = TableSchema("t", (Column("k", DataType.BIGINT, nullable=False), Column("c", DataType.TEXT)), ("k",))
    latest = LatestTable(schema)
    rows = [Update("t", (k, "x" * 100), Instant(1), Origin("s", k)) for k in range(100)]
    latest.fold(to_batch(schema, rows))
    assert is_small(latest)
    monkeypatch.setattr(bounded_cost, "MOST_CELLS", 199)
    assert not is_small(latest)
    monkeypatch.setattr(bounded_cost, "MOST_CELLS", 200)
    assert is_small(latest)
    monkeypatch.setattr(bounded_cost, "MOST_BYTES", 9_000)
    assert not is_small(latest)


async def test_each_way_gives_the_same_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [
        {"name": "k", "type": "BIGINT", "nullable": False},
        {"name": "name", "type": "TEXT"},
        {"name": "hot", "type": "BOOLEAN"},
        {"name": "at", "type": "TIMESTAMP"},
        {"name": "price", "type": "DOUBLE"},
    ]
    rows = "".join(
        f'{{"k": {k}, "name": "{"long " * (k % 4)}é{k}", "hot": {"null" if k % 3 == 0 else "true"}, '
        f'"at": "2026-01-01T00:00:{k % 60:02}Z", "price": {k}.5}}\n'
        for k in range(100)
    )
    questions = [
        "SELECT * FROM things ORDER BY k",
        "SELECT name, price FROM things WHERE k = 7",
        "SELECT hot, COUNT(*) AS n, MIN(at) AS first, SUM(price) AS s FROM things GROUP BY hot ORDER BY n",
        "SELECT name FROM things WHERE name = 'é8' OR price < 3 ORDER BY k",
    ]
    async with served(NodeSettings(tmp_path / "node")) as server, httpx.AsyncClient(base_url=server.url) as web:

        async def ask(sql: str, accept: str = "*/*") -> httpx.Response:
            answer = await web.post("/v1/query", json={"sql": sql}, headers={"accept": accept}, timeout=60)
            assert answer.status_code == 200, answer.text
            return answer

        async def metrics() -> Any:
            return (await web.get("/v1/metrics")).json()

        table = {"name": "things", "columns": columns, "key": ["k"]}
        assert (await web.post("/v1/tables", json=table)).status_code == 201
        lines = {"content-type": "application/x-ndjson"}
        posted = await web.post("/v1/tables/things/rows", content=rows, headers=lines)
        assert posted.status_code == 200
        before = [(await ask(sql)).json() for sql in questions]
        counted = await metrics()
        assert (counted["questions_in_process"], counted["questions_looked_up"]) == (3, 1)
        assert counted["question_workers"] == counted["question_workers_started"] == 0
        monkeypatch.setattr(bounded_cost, "MOST_CELLS", 0)
        # A further condition makes it no look-up, and changes nothing.
        after = [(await ask(sql.replace("k = 7", "k = 7 AND k < 8"))).json() for sql in questions]
        assert after == before
        assert (await metrics())["questions_answered"] == 4
        for sql in questions:
            arrow = await ask(sql, "application/vnd.apache.arrow.stream")
            assert arrow.headers["slackwater-as-of"] == str(before[0]["as_of"])
        # A row that goes leaves its slot behind.
        gone = await web.post("/v1/tables/things/rows?operation=delete", content='{"k": 8}\n', headers=lines)
        assert gone.status_code == 200
        found = (await ask("SELECT COUNT(*) AS n, MAX(k) AS m FROM things WHERE k < 10")).json()
        assert found["rows"] == [[9, 9]]
        assert found["as_of"] > before[0]["as_of"]
        # Rights are the same on each way.
        few = Region((Box.of(Side("k", Interval(3, 12))),))
        server.node.registrar.rights = Rights({LOCAL: EVERY_ROW.granting("things", few)})
        seen = [(await ask(sql.replace("k = 7", "k = 7 AND k < 8"))).json()["rows"] for sql in questions]
        monkeypatch.undo()
        assert [(await ask(sql)).json()["rows"] for sql in questions] == seen
        assert [row[0] for row in seen[0]] == [3, 4, 5, 6, 7, 9, 10, 11, 12]
        assert (await ask("SELECT name FROM things WHERE k = 50")).json()["rows"] == []
        counted = await metrics()
        assert (counted["questions_in_process"], counted["questions_answered"]) == (6, 12)


async def test_tables_that_change_while_a_statement_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [{"name": "k", "type": "BIGINT", "nullable": False}, {"name": "v", "type": "DOUBLE"}]
    more = [*columns, {"name": "w", "type": "DOUBLE"}]
    everything = "SELECT * FROM things"
    async with served(NodeSettings(tmp_path / "node")) as server, httpx.AsyncClient(base_url=server.url) as web:

        async def ask(sql: str) -> list[str]:
            answer = (await web.post("/v1/query", json={"sql": sql}, timeout=60)).json()
            return [column["name"] for column in answer["columns"]]

        def bound(parsed: ParsedStatement, catalog: Catalog) -> Statement:
            # On a thread, before the plan is made: a column comes, and another question notices.
            monkeypatch.undo()
            found = bind(parsed, catalog)
            wider = {"name": "things", "columns": more, "key": ["k"]}
            assert httpx.post(f"{server.url}/v1/tables", json=wider).is_success
            assert httpx.post(f"{server.url}/v1/query", json={"sql": "SELECT k FROM things"}).is_success
            return found

        table = {"name": "things", "columns": columns, "key": ["k"]}
        assert (await web.post("/v1/tables", json=table)).status_code == 201
        monkeypatch.setattr(query, "bind", bound)
        assert await ask(everything) == ["k", "v"]
        assert await ask(everything) == ["k", "v", "w"]


async def test_a_statement_like_others_but_for_a_quote_is_refused(tmp_path: Path) -> None:
    columns = [{"name": "k", "type": "BIGINT", "nullable": False}, {"name": "v", "type": "TEXT"}]
    async with served(NodeSettings(tmp_path / "node")) as server, httpx.AsyncClient(base_url=server.url) as web:
        table = {"name": "things", "columns": columns, "key": ["k"]}
        assert (await web.post("/v1/tables", json=table)).status_code == 201
        statements = {"v = 'a' AND k = 1": 200, "v = 'b' AND k = 2": 200, "v = ?' AND k = 3": 400}
        statements |= {"k IN (007, 1)": 200, "k IN (007, 2)": 200, "k IN (007, 3)": 200}
        for condition, status in statements.items():
            asked = {"sql": f"SELECT v FROM things WHERE {condition}"}
            assert (await web.post("/v1/query", json=asked, timeout=60)).status_code == status, condition
