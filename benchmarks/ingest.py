"""How fast rows become durable: Slackwater beside PostgreSQL, Redis, SQLite and JetStream, in one run.

    python -m benchmarks.ingest --seconds 4

Closed loop: each sender has one request outstanding and sends the next when that one is acknowledged, which every
system does when it is on the disk. *Single rows* are requests of one row by 1 and by 16 senders; *batches* are requests
of 1 000 rows by one sender: JSON or Arrow for Slackwater, COPY for PostgreSQL, a pipeline for Redis, a transaction for
SQLite, one message for JetStream. All over loopback with keep-alive (SQLite in process), from one other process with
raw sockets (`ingest_senders`). Every row has a key of its own; at the end each system is asked how many rows it has,
and that must be what it acknowledged.

Slackwater checks each row, knows repeats by source and number, and keeps the latest row of each key; the others store.
*CPU* is the processor time of the server and all its processes, for a row. What is not installed is left out with a
message. PostgreSQL (fsync on) needs `initdb` and `postgres`, of Debian's package or on the path.
"""

import argparse
import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import report
from benchmarks.ingest_senders import Load, Outcome
from slackwater.core.errors import SlackwaterError
from tests.support.nats_server import NatsServer
from tests.support.server_process import ServerProcess

SENDERS, BATCH = 16, 1_000
_TICKS = os.sysconf("SC_CLK_TCK")
_POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


@dataclass(frozen=True, slots=True)
class System:
    """A running system: its wires by what they carry, the processes it is, and how to count its rows."""

    name: str
    port: int
    single: str
    batches: dict[str, str]
    pid: int
    count: Callable[[], int | None]
    folder: str = ""


def processor_seconds(pid: int) -> float:
    """Processor time of a process, of those it started and of those that have ended."""
    if pid == 0:
        return 0.0
    total, parents = 0.0, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15])) / _TICKS
    family = {pid}
    while True:
        more = {one for one, (parent, _) in parents.items() if parent in family} - family
        if not more:
            break
        family |= more
    for one in family:
        total += parents[one][1] if one in parents else 0.0
    return total


def measure(
    system: System, wire: str, senders: int, rows: int, seconds: float, first: int
) -> tuple[int, dict[str, Any]]:
    """Run one load; how many rows were acknowledged, and the figures."""
    load = Load(wire, system.port, senders, rows, seconds, first, system.folder)
    before = processor_seconds(system.pid)
    command = [sys.executable, "-m", "benchmarks.ingest_senders", msgspec.json.encode(load).decode()]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    used = processor_seconds(system.pid) - before
    outcome = msgspec.json.decode(done.stdout, type=Outcome)
    figures: dict[str, Any] = {
        "rows_a_second": round(outcome.measured / outcome.seconds),
        "acknowledged_ms_p50": round(outcome.p50_ms, 3),
        "acknowledged_ms_p99": round(outcome.p99_ms, 3),
        "sender_cpu_us_a_row": round(outcome.sender_cpu / max(outcome.measured, 1) * 1e6, 2),
    }
    if system.pid:
        figures["server_cpu_us_a_row"] = round(used / outcome.sent * 1e6, 2)
    return outcome.sent, figures


# ---- systems


@contextmanager
def slackwater(folder: Path) -> Iterator[System]:
    server = ServerProcess(folder / "node")
    server.folder.mkdir()
    try:
        listening = server.start()

        def ask(path: str, body: dict[str, Any]) -> Any:
            content = msgspec.json.encode(body)
            asked = urllib.request.Request(server.url + path, content, {"content-type": "application/json"})
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return msgspec.json.decode(answer.read())

        ask("/v1/tables", {"sql": "CREATE TABLE readings (id BIGINT PRIMARY KEY, value DOUBLE, name TEXT)"})

        def count() -> int:
            with urllib.request.urlopen(f"{server.url}/v1/tables/readings") as answer:
                return int(msgspec.json.decode(answer.read())["rows"])

        def settled() -> int:
            # What is acknowledged is in the log; the node applies it a moment later.
            rows = -1
            while rows != (rows := count()):
                time.sleep(0.5)
            return rows

        # A way over the live connection is one more wire of this system.
        yield System("slackwater", server.port, "rest", {"JSON": "rest", "Arrow": "rest-arrow"}, listening.pid, settled)
    finally:
        server.stop()


@contextmanager
def postgres(folder: Path) -> Iterator[System]:
    path = os.pathsep.join([os.environ["PATH"], *map(str, _POSTGRES)])
    initdb, program, psql = (shutil.which(name, path=path) for name in ("initdb", "postgres", "psql"))
    if initdb is None or program is None or psql is None:
        raise SlackwaterError("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    data, port = folder / "postgres", _free_port()
    data.mkdir()
    # It refuses to run as root.
    user: str | None = None
    if os.getuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            raise SlackwaterError("PostgreSQL does not run as root, and there is no user postgres") from None
        user = "postgres"
        shutil.chown(data, user)
        folder.chmod(0o755)
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "user": user, "cwd": data}
    subprocess.run([initdb, "-D", str(data / "d"), "-U", "postgres", "-A", "trust"], check=True, **quiet)
    options = ["-c", f"port={port}", "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={data}"]
    process = subprocess.Popen([program, "-D", str(data / "d"), *options], **quiet)
    try:
        _wait_for(port)
        ask = [psql, "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "-Atc"]
        for _ in range(50):
            if subprocess.run([*ask, "SELECT 1"], capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.1)
        table = "CREATE TABLE readings (id bigint PRIMARY KEY, value float8, name text)"
        subprocess.run([*ask, table], check=True, capture_output=True)

        def count() -> int:
            return int(subprocess.run([*ask, "SELECT count(*) FROM readings"], check=True, capture_output=True).stdout)

        yield System("PostgreSQL", port, "postgres", {"COPY": "postgres"}, process.pid, count)
    finally:
        process.terminate()
        _ended(process)


@contextmanager
def redis(folder: Path) -> Iterator[System]:
    program = shutil.which("redis-server")
    if program is None:
        raise SlackwaterError("Redis is not installed (Debian: apt-get install redis-server)")
    port = _free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "", "--daemonize", "no"]
    options += ["--appendonly", "yes", "--appendfsync", "always"]
    process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    try:
        _wait_for(port)

        def count() -> int:
            with socket.create_connection(("127.0.0.1", port)) as carrier:
                carrier.sendall(b"XLEN readings\r\n")
                return int(carrier.recv(64)[1:])

        yield System("Redis", port, "redis", {"pipeline": "redis"}, process.pid, count)
    finally:
        process.terminate()
        _ended(process)


@contextmanager
def sqlite(folder: Path) -> Iterator[System]:
    def count() -> int:
        database = sqlite3.connect(folder / "readings.sqlite")
        (rows,) = database.execute("SELECT count(*) FROM readings").fetchone()
        database.close()
        return int(rows)

    yield System("SQLite", 0, "sqlite", {"transaction": "sqlite"}, 0, count, str(folder))


@contextmanager
def jetstream(folder: Path) -> Iterator[System]:
    with NatsServer(folder / "nats") as server:
        with socket.create_connection(("127.0.0.1", server.port)) as carrier:
            body = b'{"name":"readings","subjects":["readings.*"],"storage":"file"}'
            carrier.sendall(b'CONNECT {"verbose":false}\r\nSUB _INBOX.made 1\r\n')
            carrier.sendall(b"PUB $JS.API.STREAM.CREATE.readings _INBOX.made %d\r\n%b\r\n" % (len(body), body))
            came = b""
            while b'"created"' not in came:
                came += carrier.recv(4096)

        def count() -> int:
            with socket.create_connection(("127.0.0.1", server.port)) as carrier:
                carrier.sendall(b'CONNECT {"verbose":false}\r\nSUB _INBOX.c 1\r\n')
                carrier.sendall(b"PUB $JS.API.STREAM.INFO.readings _INBOX.c 0\r\n\r\n")
                came = b""
                while b'"messages":' not in came:
                    came += carrier.recv(65536)
                return int(came.split(b'"messages":')[1].split(b",")[0])

        yield System("JetStream", server.port, "jetstream", {"one message": "jetstream"}, server.pid, count)


SYSTEMS = (slackwater, postgres, redis, sqlite, jetstream)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SlackwaterError(f"nothing listens on port {port}")


def _ended(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# ---- the run


def run(system: System, seconds: float) -> dict[str, dict[str, Any]]:
    """All loads on one system, and the rows counted afterwards."""
    figures: dict[str, dict[str, Any]] = {}
    acknowledged = messages = 0

    def take(name: str, wire: str, senders: int, rows: int, first: int) -> None:
        nonlocal acknowledged, messages
        sent, figures[name] = measure(system, wire, senders, rows, 0.2 if name == "first" else seconds, first)
        acknowledged += sent
        messages += sent // rows

    # What a system does once, when its first row comes, is no part of the figures.
    take("first", system.single, 1, 1, 1_000)
    del figures["first"]
    take("single rows, 1 sender", system.single, 1, 1, 0)
    if system.port:
        take(f"single rows, {SENDERS} senders", system.single, SENDERS, 1, 1)
    for nth, (kind, wire) in enumerate(system.batches.items()):
        take(f"batches of {BATCH}, {kind}", wire, 1, BATCH, 1 + SENDERS + nth)
    counted = system.count()
    expected = messages if system.single == "jetstream" else acknowledged
    if counted != expected:
        raise SlackwaterError(f"{system.name} acknowledged {expected:,} and has {counted:,}")
    return figures


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seconds", type=float, default=4.0)
    seconds = arguments.parse_args().seconds
    figures: dict[str, Any] = {}
    for make in SYSTEMS:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd())))
            try:
                system = stack.enter_context(make(folder))
            except SlackwaterError as error:
                print(f"{make.__name__} is left out: {error}", file=sys.stderr)
                continue
            figures[system.name] = run(system, seconds)
    report.write(
        "ingest",
        {
            "command": f"python -m benchmarks.ingest --seconds {seconds:g}",
            "unit": "rows acknowledged as durable, one request outstanding a sender; CPU of the server for a row",
            "figures": figures,
        },
    )


if __name__ == "__main__":
    main()
