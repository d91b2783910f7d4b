"""One-shot queries over HTTP while 1 000 updates a second flow, beside DuckDB in process and PostgreSQL.

    python -m benchmarks.one_shot
    python -m benchmarks.one_shot --rows 100000 --questions 100

A server has a table of 10⁵ or 10⁶ rows by key. A process of its own sends 50 requests of 20 rows a second, keeps a live
subscription, and takes the time from sending a row to showing its value: that is the *lateness*. Questions come one
after the other over one HTTP connection, each with other literals. DuckDB answers the same questions, in turns with the
server, in the process of the benchmark: over the same rows as an Arrow table, registered once, with one thread.
PostgreSQL, where it is installed, answers them over a socket, as pgbench takes the time, with nothing else going on.

All answers are compared with those of DuckDB before the updates begin. *Runaway* are questions and lateness while two
queries run that the database does not interrupt, until each is killed at its limit.
"""

import argparse
import asyncio
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import httpx
import numpy as np
import pyarrow as pa

from benchmarks import report
from slackwater.client import connect
from slackwater.core.arrow import STREAM_MEDIA_TYPE
from slackwater.deployment.endpoint_file import read_state
from tests.support.server_process import ServerProcess

SIZES = (100_000, 1_000_000)
QUESTIONS = 200
GROUPS = 97
REQUESTS_A_SECOND, ROWS_A_REQUEST = 50, 20
PROBE = "probe"
"""A key that every request of the feed updates, with its number as the price."""
LIMIT_SECONDS = 3
COLUMNS = [
    {"name": "symbol", "type": "TEXT", "nullable": False},
    {"name": "price", "type": "DOUBLE"},
    {"name": "volume", "type": "BIGINT"},
    {"name": "sector", "type": "TEXT"},
]
KINDS: dict[str, str] = {
    "look-up by key": "SELECT price, volume FROM quotes WHERE symbol = 'S{key:07d}'",
    "aggregate": "SELECT COUNT(*) AS n, AVG(price) AS p FROM quotes WHERE volume > {number}",
    "group by": "SELECT sector, COUNT(*) AS n, MAX(price) AS p FROM quotes WHERE volume < {number} "
    "GROUP BY sector ORDER BY sector",
    "join": "SELECT COUNT(*) AS n, MIN(b.price) AS p FROM quotes a JOIN quotes b ON a.symbol = b.symbol "
    "WHERE a.volume = {number}",
}
_DOUBLED = ", ".join(f"t{n} AS (SELECT s || s AS s FROM t{n - 1})" for n in range(1, 6))
DEAF = f"WITH t0 AS (SELECT '{'x' * 30_000}' AS s), {_DOUBLED} SELECT LEVENSHTEIN(s, s || 'y') AS n FROM t5"
_BIN = Path("/usr/lib/postgresql")


def rows_of(keys: np.ndarray, random: np.random.Generator) -> pa.RecordBatch:
    """New rows for these keys."""
    count = len(keys)
    return pa.record_batch(
        {
            "symbol": pa.array([f"S{key:07d}" for key in keys.tolist()], pa.string()),
            "price": random.random(count) * 100,
            "volume": random.integers(0, 1000, count),
            "sector": pa.array([f"sector {key % GROUPS}" for key in keys.tolist()], pa.string()),
        }
    )


def body_of(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    body: bytes = sink.getvalue().to_pybytes()
    return body


# ---- the feed, in a process of its own


async def feed(url: str, keys: int) -> None:
    """Send rows until the input ends; then write the moment and the lateness of every value that was shown."""
    random = np.random.default_rng(7)
    sent: dict[int, float] = {}
    late: list[tuple[float, float]] = []
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    async with connect(url) as client, httpx.AsyncClient(base_url=url, timeout=60) as web:
        shown = client.subscribe(f"SUBSCRIBE SELECT SUM(price) FROM quotes WHERE symbol = '{PROBE}' WITHIN 0")
        await shown.ready()

        async def watch() -> None:
            async for _ in shown:
                now, value = time.monotonic(), shown.value
                numbers = [number for number in sent if value is not None and number <= value]
                late.extend((now, now - sent.pop(number)) for number in numbers)

        watching = asyncio.create_task(watch())
        due, number, posts = time.monotonic(), 0, set()
        while not ended.done():
            number += 1
            drawn = rows_of(random.integers(0, keys, ROWS_A_REQUEST - 1), random)
            probe = pa.record_batch(
                {"symbol": [PROBE], "price": [float(number)], "volume": [-1], "sector": [PROBE]}, schema=drawn.schema
            )
            body = body_of(pa.Table.from_batches([drawn, probe]).combine_chunks().to_batches()[0])
            sent[number] = time.monotonic()
            post = asyncio.create_task(
                web.post("/v1/tables/quotes/rows", content=body, headers={"content-type": STREAM_MEDIA_TYPE})
            )
            posts.add(post)
            post.add_done_callback(posts.discard)
            due += 1 / REQUESTS_A_SECOND
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        await asyncio.sleep(1.0)
        watching.cancel()
    sys.stdout.write(json.dumps(late))


@contextmanager
def flowing(url: str, keys: int) -> Iterator[Callable[[], list[tuple[float, float]]]]:
    """Updates flow within a with statement; what is given ends them and returns moments and lateness."""
    command = [sys.executable, "-m", "benchmarks.one_shot", "--feed", url, "--rows", str(keys)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield lambda: [(one[0], one[1]) for one in json.loads(process.communicate(timeout=60)[0])]
    finally:
        process.kill()
        process.communicate()


# ---- those who answer


class Server:
    """The server, asked over one connection."""

    def __init__(self, process: ServerProcess, pid: int) -> None:
        parts = urlsplit(process.url)
        self._web = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._web.connect()
        self.pid = pid

    def ask(self, sql: str) -> tuple[int, bytes]:
        self._web.request("POST", "/v1/query", json.dumps({"sql": sql}), {"content-type": "application/json"})
        answer = self._web.getresponse()
        return answer.status, answer.read()

    def rows(self, sql: str) -> list[list[Any]]:
        status, body = self.ask(sql)
        assert status == 200, body
        rows: list[list[Any]] = json.loads(body)["rows"]
        return rows

    def processor(self) -> tuple[float, float]:
        """Seconds of the server and of its workers."""
        own = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return _processor(self.pid), sum(_processor(int(pid)) for pid in own)


def _processor(pid: int) -> float:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class DuckPeer:
    """DuckDB in this process over an Arrow table."""

    def __init__(self, rows: pa.Table) -> None:
        self._database = duckdb.connect(config={"threads": 1})
        self._database.register("quotes", rows)

    def rows(self, sql: str) -> list[list[Any]]:
        return [list(row) for row in self._database.execute(sql).fetchall()]


def postgres(rows: pa.Table, questions: int) -> dict[str, Any] | str:
    """Milliseconds of PostgreSQL, by pgbench; or why there are none."""
    versions = sorted(_BIN.glob("*/bin"))
    user = shutil.which("runuser") if os.getuid() == 0 else None
    if not versions or (os.getuid() == 0 and user is None):
        return "not installed"
    as_user = ["runuser", "-u", "postgres", "--"] if user else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        run = [*as_user, "env", f"PATH={versions[-1]}", f"PGHOST={folder}", "PGDATABASE=postgres"]
        data, log = str(folder / "data"), str(folder / "log")
        quiet = {"cwd": folder, "check": True, "stdout": subprocess.DEVNULL}
        subprocess.run([*run, "initdb", "-D", data, "--auth", "trust"], **quiet)  # type: ignore[call-overload]
        options = f"-c listen_addresses= -c unix_socket_directories={folder}"
        subprocess.run([*run, "pg_ctl", "-w", "-D", data, "-l", log, "-o", options, "start"], **quiet)  # type: ignore[call-overload]
        try:
            lines = "\n".join("\t".join(map(str, row.values())) for row in rows.to_pylist())
            script = (
                "CREATE TABLE quotes (symbol text PRIMARY KEY, price float8, volume int8, sector text);\n"
                f"COPY quotes FROM STDIN;\n{lines}\n\\.\nVACUUM ANALYZE quotes;\n"
            )
            subprocess.run([*run, "psql", "-q"], input=script.encode(), **quiet)  # type: ignore[call-overload]
            return {kind: _pgbench(run, folder, sql, len(rows), questions) for kind, sql in KINDS.items()}
        finally:
            subprocess.run([*run, "pg_ctl", "-D", data, "-m", "immediate", "stop"], **quiet)  # type: ignore[call-overload]


def _pgbench(run: list[str], folder: Path, sql: str, keys: int, questions: int) -> dict[str, float]:
    text = sql.replace("'S{key:07d}'", "'S' || lpad(:key::text, 7, '0')").replace("{number}", ":number")
    script = folder / "question.sql"
    script.write_text(f"\\set key random(0, {keys - 1})\n\\set number random(0, 999)\n{text};\n")
    for old in folder.glob("took.*"):
        old.unlink()
    command = [*run, "pgbench", "-n", "-f", str(script), "-t", str(questions), "-l", f"--log-prefix={folder}/took"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took = [int(line.split()[2]) / 1e6 for file in folder.glob("took.*") for line in file.read_text().splitlines()]
    return quantiles(took)


# ---- measuring


def quantiles(seconds: list[float]) -> dict[str, float]:
    """Milliseconds."""
    return {f"p{100 * q:g}": round(float(np.quantile(seconds, q)) * 1000, 3) for q in (0.5, 0.99)}


def lateness(late: list[tuple[float, float]], begin: float, end: float) -> dict[str, float]:
    """Milliseconds from sending a row to showing it, of those that were shown within these moments."""
    took = [seconds for at, seconds in late if begin <= at <= end]
    if not took:
        return {"values": 0}
    found = {f"p{100 * q:g}": round(float(np.quantile(took, q)) * 1000, 1) for q in (0.5, 0.99, 0.999)}
    return {"values": len(took), **found, "most": round(max(took) * 1000, 1)}


@dataclass(frozen=True, slots=True)
class Asker:
    """Questions with other literals each time."""

    keys: int
    random: np.random.Generator

    def sql(self, kind: str) -> str:
        return KINDS[kind].format(key=int(self.random.integers(self.keys)), number=int(self.random.integers(1000)))


def compare(server: Server, duck: DuckPeer, asker: Asker) -> int:
    """Compare answers; returns how many."""
    compared = 0
    for kind in KINDS:
        for _ in range(10):
            sql = asker.sql(kind)
            own, theirs = server.rows(sql), duck.rows(sql)
            assert len(own) == len(theirs), sql
            for mine, other in zip(own, theirs, strict=True):
                assert all(
                    a == b or (isinstance(a, float) and abs(a - b) <= 1e-9 * abs(b))
                    for a, b in zip(mine, other, strict=True)
                ), (sql, mine, other)
            compared += 1
    return compared


def timed(server: Server, duck: DuckPeer, asker: Asker, questions: int) -> dict[str, Any]:
    """Each kind of question, in turns with DuckDB."""
    figures: dict[str, Any] = {}
    for kind in KINDS:
        own, theirs = [], []
        before = server.processor()
        used = 0.0
        for _ in range(questions):
            sql = asker.sql(kind)
            began = time.perf_counter()
            server.rows(sql)
            own.append(time.perf_counter() - began)
            processor, began = time.process_time(), time.perf_counter()
            duck.rows(sql)
            theirs.append(time.perf_counter() - began)
            used += time.process_time() - processor
        after = server.processor()
        mine, other = quantiles(own), quantiles(theirs)
        allowed = 2.0 if kind == "look-up by key" else 3 * other["p50"] + 5
        figures[kind] = {
            "slackwater": mine,
            "duckdb_in_process": other,
            "allowed_p50": round(allowed, 2),
            "kept": mine["p50"] <= allowed,
            # The server's time has that of the updates in it, which flow meanwhile.
            "server_processor": round(1000 * (after[0] - before[0]) / questions, 2),
            "workers_processor": round(1000 * (after[1] - before[1]) / questions, 2),
            "duckdb_processor": round(1000 * used / questions, 2),
        }
    return figures


def beside_runaways(server: Server, other: Callable[[], Server], asker: Asker) -> dict[str, Any]:
    """Two runaway queries, and the questions that are answered while they run."""
    began, ends, statuses = time.monotonic(), [], []

    def run_away() -> None:
        start = time.monotonic()
        statuses.append(other().ask(DEAF)[0])
        ends.append(time.monotonic() - start)

    threads = [threading.Thread(target=run_away) for _ in range(2)]
    for thread in threads:
        thread.start()
    took: dict[str, list[float]] = {kind: [] for kind in KINDS}
    while any(thread.is_alive() for thread in threads):
        for kind, seconds in took.items():
            start = time.perf_counter()
            server.rows(asker.sql(kind))
            seconds.append(time.perf_counter() - start)
    assert statuses == [422, 422], statuses
    return {
        "limit_seconds": LIMIT_SECONDS,
        "ended_after_seconds": round(max(ends), 2),
        "questions": {kind: {"count": len(seconds), **quantiles(seconds)} for kind, seconds in took.items()},
        "span": [began, time.monotonic()],
    }


def scenario(keys: int, questions: int) -> dict[str, Any]:
    """One size of the table."""
    random = np.random.default_rng(1)
    figures: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(Path(folder) / "node", "--limit", f"query_seconds={LIMIT_SECONDS}") as process,
    ):
        listening = read_state(Path(folder) / "node")
        assert listening is not None
        pid = listening.pid
        batches = []
        with httpx.Client(base_url=process.url, timeout=60) as web:
            web.post("/v1/tables", json={"name": "quotes", "columns": COLUMNS, "key": ["symbol"]}).raise_for_status()
            for start in range(0, keys, 50_000):
                batches.append(rows_of(np.arange(start, min(keys, start + 50_000)), random))
                answer = web.post(
                    "/v1/tables/quotes/rows",
                    content=body_of(batches[-1]),
                    headers={"content-type": STREAM_MEDIA_TYPE},
                )
                answer.raise_for_status()
        rows = pa.Table.from_batches(batches).combine_chunks()
        server, duck, asker = Server(process, pid), DuckPeer(rows), Asker(keys, random)
        while server.rows("SELECT COUNT(*) AS n FROM quotes") != [[keys]]:
            time.sleep(0.1)
        figures["answers_compared"] = compare(server, duck, asker)
        with flowing(process.url, keys) as ended:
            time.sleep(3)
            quiet = time.monotonic()
            time.sleep(questions / 20)
            begun = time.monotonic()
            figures["questions"] = timed(server, duck, asker, questions)
            done = time.monotonic()
            runaway = beside_runaways(server, lambda: Server(process, pid), asker)
            span = runaway.pop("span")
            late = ended()
        figures["runaway"] = runaway
        figures["live_lateness"] = {
            "without_questions": lateness(late, quiet, begun),
            "with_questions": lateness(late, begun, done),
            "beside_runaways": lateness(late, *span),
        }
        metrics = httpx.get(f"{process.url}/v1/metrics").json()
        figures["shared_megabytes"] = round(metrics["question_shared_bytes"] / 1e6, 1)
    figures["postgresql"] = postgres(rows, questions)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--feed")
    chosen = parser.parse_args()
    if chosen.feed is not None:
        asyncio.run(feed(chosen.feed, chosen.rows[0]))
        return
    figures = {f"{keys} rows": scenario(keys, chosen.questions) for keys in chosen.rows}
    report.write("one_shot", {"updates_a_second": REQUESTS_A_SECOND * ROWS_A_REQUEST, "milliseconds": figures})


if __name__ == "__main__":
    main()
