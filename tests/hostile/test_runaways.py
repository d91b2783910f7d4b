"""A runaway one-shot query ends at its limit; others are answered meanwhile, and nothing of it outlives the server."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.descendants import Marked, marked
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc")

SECONDS, MEBIBYTES = 2, 128
GONE_SECONDS = 30.0
WORKER = "slackwater.server.oneshot.worker"
COLUMNS = [{"name": "k", "type": "BIGINT", "nullable": False}, {"name": "v", "type": "DOUBLE"}]


def doubled(times: int, ending: str) -> str:
    """A literal that is doubled again and again, and what is asked of it."""
    steps = [f"t{n} AS (SELECT s || s AS s FROM t{n - 1})" for n in range(1, times + 1)]
    return f"WITH t0 AS (SELECT '{'x' * 30_000}' AS s), {', '.join(steps)} SELECT {ending} AS n FROM t{times}"


DEAF = doubled(4, "LEVENSHTEIN(s, s || 'y')")
"""The database does not look whether it was interrupted."""
COUNT = "SELECT COUNT(*) AS n FROM (SELECT k FROM t) AS t"
"""A worker answers it: it has a further SELECT in it."""
LONG = "SELECT COUNT(*) AS n FROM t a, t b, t c WHERE a.v + b.v * c.v = 3.5"
LARGE = doubled(16, "LENGTH(s)")
HOARD = "SELECT COUNT(*) AS n FROM (SELECT DISTINCT a.v * 10000 + b.v AS x, a.v - b.v AS y FROM t a, t b) AS d"


class Server(ServerProcess):
    """A server with little time and memory for a query."""

    def __init__(self, folder: Path, mark: Marked) -> None:
        limits = [f"query_seconds={SECONDS}", f"query_memory={MEBIBYTES * 1024 * 1024}"]
        super().__init__(folder, *(word for limit in limits for word in ("--limit", limit)))
        self.environment = mark.environment
        self.mark = mark

    def ask(self, sql: str) -> httpx.Response:
        return httpx.post(f"{self.url}/v1/query", json={"sql": sql}, timeout=60)

    def rows(self, sql: str) -> Any:
        answer = self.ask(sql)
        assert answer.status_code == 200, answer.text
        return answer.json()["rows"]

    def workers(self) -> set[int]:
        return {pid for pid, command in self.mark.alive().items() if WORKER in command}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with marked() as mark, Server(tmp_path / "node", mark) as made:
        web = httpx.Client(base_url=made.url)
        with web:
            assert web.post("/v1/tables", json={"name": "t", "columns": COLUMNS, "key": ["k"]}).status_code == 201
            rows = "".join(f'{{"k": {k}, "v": {k}.0}}\n' for k in range(5_000))
            lines = {"content-type": "application/x-ndjson"}
            assert web.post("/v1/tables/t/rows", content=rows, headers=lines).status_code == 200
        yield made


def begin(threads: ThreadPoolExecutor, server: Server, sql: str) -> "Future[httpx.Response]":
    return threads.submit(server.ask, sql)


def limit(answer: httpx.Response) -> str:
    problem: dict[str, Any] = answer.json()
    assert answer.status_code in (413, 422), problem
    assert problem["error"] == "limit"
    return str(problem["message"])


def test_runaways_end_at_their_limit_and_others_are_answered(server: Server) -> None:
    assert server.rows(COUNT) == [[5000]]
    with ThreadPoolExecutor(4) as threads:
        runaways = [begin(threads, server, DEAF), begin(threads, server, LONG)]
        answered = 0
        while not all(one.done() for one in runaways):
            assert server.rows("SELECT SUM(v) AS n FROM (SELECT * FROM t) AS t WHERE k < 4") == [[6.0]]
            assert server.rows("SELECT v FROM t WHERE k = 7") == [[7.0]]
            answered += 1
        assert answered
        for one in runaways:
            assert f"longer than {SECONDS} seconds" in limit(one.result())
    # Whatever was killed was replaced.
    for _ in range(6):
        assert server.rows(COUNT) == [[5000]]


@pytest.mark.slow
@pytest.mark.parametrize("sql", [LARGE, HOARD])
def test_memory_is_bounded(server: Server, sql: str) -> None:
    answer = server.ask(sql)
    # The database may also say that a text gets too long for it, or take too long to use all that memory up.
    assert answer.status_code in (400, 413, 422), answer.text
    assert server.running
    assert server.rows(COUNT) == [[5000]]


@pytest.mark.slow
def test_many_at_once_and_those_that_nobody_waits_for(server: Server) -> None:
    with ThreadPoolExecutor(8) as threads:
        runaways = [begin(threads, server, DEAF) for _ in range(6)]
        for _ in range(20):
            # Look-ups do not wait for workers.
            assert server.rows("SELECT v FROM t WHERE k = 7") == [[7.0]]
        for one in runaways:
            limit(one.result())
    for _ in range(4):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.url}/v1/query", json={"sql": DEAF}, timeout=0.3)
    began = time.monotonic()
    assert server.rows(COUNT) == [[5000]]
    # Not after four times their limit: they were ended when their clients went.
    assert time.monotonic() - began < 4 * SECONDS
    metrics = httpx.get(f"{server.url}/v1/metrics").json()
    assert metrics["questions_cancelled"] == 4
    assert metrics["questions_failed"] >= 6
    assert metrics["question_workers_killed"] >= 6
    assert metrics["question_workers"] <= 4


@pytest.mark.slow
def test_the_server_stops_while_one_runs(server: Server) -> None:
    with ThreadPoolExecutor(1) as threads:
        runaway = begin(threads, server, DEAF)
        while not server.workers():
            time.sleep(0.02)
        time.sleep(0.5)
        assert server.stop() == 0
        assert isinstance(runaway.exception(), httpx.HTTPError) or runaway.result().status_code >= 400
    assert server.mark.gone(GONE_SECONDS) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a worker ends when it next reads from its server")
def test_a_killed_server_leaves_no_worker(server: Server) -> None:
    with ThreadPoolExecutor(2) as threads:
        runaways = [begin(threads, server, DEAF), begin(threads, server, COUNT)]
        while not server.workers():
            time.sleep(0.02)
        time.sleep(0.5)
        server.kill()
        for one in runaways:
            one.exception()
    assert server.mark.gone(GONE_SECONDS) == {}


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced(server: Server) -> None:
    assert server.rows(COUNT) == [[5000]]
    for _ in range(3):
        before = server.workers()
        assert before
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        assert server.rows(COUNT) == [[5000]]
        assert not before & server.workers()
