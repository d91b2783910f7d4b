"""Durable rows over live connections: a server in a process, load from another, rows counted afterwards.

    python -m benchmarks.live_ingest --seconds 3

*Closed loop*: each sender has one message under way and sends the next when it is acknowledged, so its rows are
durable. *Window*: one connection has 64 single rows under way. *Batches*: messages of 1 000 rows, as columns and as an
Arrow stream, 8 under way. *Stream*: the same with the client's library, one row a call. The generator writes messages
that were encoded before, except with the library, so what is measured is the server; its processor time for each row
is given beside the rate. *Overhead* is what a message of one row costs on the server before the rows are admitted:
reading it, gathering, the arrival, the acknowledgement.

Every row has a key of its own. After each part the server is asked how many rows there are.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

from benchmarks import report
from slackwater.client import connect
from slackwater.client.ingest.row_forms import arrow_rows
from slackwater.core.types import Position
from slackwater.dissemination.encoding import decode_from_client, decode_from_node, encode
from slackwater.dissemination.messages import (
    VERSION,
    ColumnRows,
    Ingest,
    Ingested,
    IngestRefused,
    IngestRows,
    IngestWindow,
    Open,
    Welcome,
)
from slackwater.dissemination.transports.websocket import WebSocketTransport
from slackwater.intake import IntakeReceipt
from slackwater.server.streamed_rows import arrivals
from slackwater.sessions.ingest_streams import IngestStreams
from tests.support.server_process import ServerProcess

TABLE = "CREATE TABLE t (k BIGINT PRIMARY KEY, v DOUBLE)"
BATCH = 1_000
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Load:
    """A load: senders, messages under way for each, rows of a message, and how they are written."""

    name: str
    senders: int = 1
    window: int = 1
    rows: int = 1
    form: str = "columns"


LOADS = (
    Load("one sender"),
    Load("16 senders", senders=16),
    Load("window of 64", window=64),
    Load("batches as columns", window=8, rows=BATCH),
    Load("batches as Arrow", window=8, rows=BATCH, form="arrow"),
    Load("stream of the client, window of 64", window=64, form="stream"),
    Load("stream of the client, a window of its own", window=65_536, form="stream"),
    Load("stream of the client, one row and flush", form="stream"),
)


def message(source: str, first: int, key: int, load: Load) -> bytes:
    """Rows with keys of their own."""
    keys, values = list(range(key, key + load.rows)), [0.5 * number for number in range(load.rows)]
    rows: IngestRows
    if load.form == "arrow":
        rows = arrow_rows(pa.RecordBatch.from_pydict({"k": keys, "v": values}))
    else:
        rows = ColumnRows(("k", "v"), ([*keys], [*values]))
    return encode(Ingest(1, "t", source, first, load.rows, rows))


# ---- the generator


async def send(url: str, load: Load, nth: int, start: float, seconds: float) -> dict[str, Any]:
    """One sender; waits for its start, then sends for so long and waits for the last acknowledgement."""
    if load.form == "stream":
        return await stream(url, load, nth, start, seconds)
    base, most = nth * 100_000_000, int(seconds * (400_000 if load.rows > 1 else 60_000)) // load.senders
    prepared = [message(f"{load.name}/{nth}", first, base + first, load) for first in range(0, most, load.rows)]
    connection = await WebSocketTransport().dial(url.replace("http", "ws") + "/v1/live")
    connection.send(encode(Open(VERSION, 0, 0)))
    while not isinstance(decode_from_node(await connection.receive()), Welcome):
        pass
    await asyncio.sleep(max(0.0, start - time.time()))
    began, sent, done, waits = time.perf_counter(), 0, 0, list[float]()
    under_way: deque[float] = deque()
    while True:
        now = time.perf_counter()
        while len(under_way) < load.window and sent < len(prepared) and now < began + seconds:
            connection.send(prepared[sent])
            sent += 1
            under_way.append(now)
        if not under_way:
            break
        answer = decode_from_node(await connection.receive())
        assert not isinstance(answer, IngestRefused), answer
        if isinstance(answer, Ingested):
            now = time.perf_counter()
            for _ in range(answer.next // load.rows - done):
                waits.append(now - under_way.popleft())
            done = answer.next // load.rows
    ended = time.perf_counter()
    await connection.close()
    return {"rows": done * load.rows, "seconds": ended - began, "waits": waits, "ran out": sent == len(prepared)}


async def stream(url: str, load: Load, nth: int, start: float, seconds: float) -> dict[str, Any]:
    """The same by the library: one row a call."""
    waits: list[float] = []
    async with connect(url) as client, client.stream("t", columns=("k", "v"), most=load.window) as rows:
        await asyncio.sleep(max(0.0, start - time.time()))
        began = now = time.perf_counter()
        while now < began + seconds:
            await rows.send([(nth * 100_000_000 + rows.next, 0.5)])
            if load.window == 1:
                await rows.flush()
                waits.append(time.perf_counter() - now)
            now = time.perf_counter()
        await rows.flush()
        ended = time.perf_counter()
    return {"rows": rows.next, "seconds": ended - began, "waits": waits, "ran out": False}


async def generate(url: str, pid: int, load: Load, seconds: float) -> None:
    """All senders of a load, in this process; the outcome goes to standard output."""
    start = time.time() + 2.0 + load.senders / 8
    sending = asyncio.gather(*(send(url, load, nth, start, seconds) for nth in range(load.senders)))
    await asyncio.sleep(start - time.time())
    before = cpu(pid)
    parts = await sending
    waits = sorted(one for part in parts for one in part["waits"])
    outcome = {
        "rows": sum(part["rows"] for part in parts),
        "seconds": max(part["seconds"] for part in parts),
        "p50": waits[len(waits) // 2] if waits else None,
        "p99": waits[int(0.99 * len(waits))] if waits else None,
        "ran out": any(part["ran out"] for part in parts),
        "server cpu": cpu(pid) - before,
    }
    print(json.dumps(outcome))


# ---- the server


def cpu(pid: int) -> float:
    """Processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def warm(url: str) -> None:
    """Have everything compiled and imported that the first rows need; that is not measured."""
    lines, headers = b'{"k": -1, "v": 0.0}\n' * 100, {"content-type": "application/x-ndjson"}
    for _ in range(3):
        answer = httpx.post(f"{url}/v1/tables/t/rows", content=lines, headers=headers, timeout=60).raise_for_status()
        count(url, answer.json()["position"])


def count(url: str, position: int) -> int:
    """Rows of the loads, once the server has come to a position."""
    body = {"sql": "SELECT COUNT(*) AS n FROM t WHERE k >= 0", "after": position}
    answer = httpx.post(f"{url}/v1/query", json=body, timeout=60).raise_for_status()
    return int(answer.json()["rows"][0][0])


def measure(load: Load, seconds: float) -> dict[str, Any]:
    """One load on a server of its own."""
    with tempfile.TemporaryDirectory() as folder, ServerProcess(Path(folder) / "node") as server:
        httpx.post(f"{server.url}/v1/tables", json={"sql": TABLE}).raise_for_status()
        pid = int(json.loads((server.folder / "server.json").read_text())["pid"])
        warm(server.url)
        command = [sys.executable, "-m", "benchmarks.live_ingest", "--load", load.name, "--url", server.url]
        command += ["--pid", str(pid), "--seconds", str(seconds)]
        done = subprocess.run(command, check=True, capture_output=True, timeout=60 + 10 * seconds)
        outcome = json.loads(done.stdout)
        metrics = httpx.get(f"{server.url}/v1/metrics").json()
        there = count(server.url, metrics["log_end"])
        if there != outcome["rows"]:
            raise SystemExit(f"{load.name}: {outcome['rows']} rows were acknowledged, {there} are there")
    if outcome["ran out"]:
        print(f"{load.name}: all prepared messages were sent before the time was over", file=sys.stderr)
    return {
        "rows": outcome["rows"],
        "rows a second": round(outcome["rows"] / outcome["seconds"]),
        "acknowledged in ms, p50": None if outcome["p50"] is None else round(1e3 * outcome["p50"], 3),
        "acknowledged in ms, p99": None if outcome["p99"] is None else round(1e3 * outcome["p99"], 3),
        "server cpu, us a row": round(1e6 * outcome["server cpu"] / outcome["rows"], 2),
        "rows a change": round(metrics["ingest_rows"] / metrics["ingest_changes"], 1),
        "changes an append": round(metrics["log_changes"] / metrics["log_appends"], 2),
    }


def overhead(group: int, messages: int = 30_000) -> float:
    """Processor microseconds a message of one row, without admission, log and socket, `group` of them a change."""
    data = [message("overhead", first, first, LOADS[0]) for first in range(messages)]
    window = IngestWindow(10 * group, 1 << 30, 1, 1 << 20)
    state = IngestStreams(window, lambda one: None)
    began = time.process_time()
    for begin in range(0, messages, group):
        for one in data[begin : begin + group]:
            read = decode_from_client(one)
            assert isinstance(read, Ingest)
            state.received(read, len(one))
        for taking in state.due():
            [arrival] = arrivals(taking.messages, "t", "live")
            rows = arrival.batch.num_rows
            encode(state.durable(taking, IntakeReceipt(rows, 0, 0, Position(begin + rows))))
    return 1e6 * (time.process_time() - began) / messages


def main() -> None:
    """Measure all loads; as the generator of one, send it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--load")
    parser.add_argument("--url")
    parser.add_argument("--pid", type=int)
    arguments, _ = parser.parse_known_args()
    if arguments.url:
        load = next(load for load in LOADS if load.name == arguments.load)
        asyncio.run(generate(arguments.url, arguments.pid, load, arguments.seconds))
        return
    figures = {
        "overhead, us a message": {f"{group} a change": round(overhead(group), 2) for group in (1, 16, 64, 512)},
        "loads": {
            load.name: asdict(load) | measure(load, arguments.seconds)
            for load in LOADS
            if arguments.load in (None, load.name)
        },
    }
    report.write("live_ingest", figures)


if __name__ == "__main__":
    main()
