"""A minute of 2 000 live sums over 200 connections, beside a bounded server of an afternoon (`bounded_server`).

    python -m benchmarks.live_minute --seconds 60

Each sum has 5 of 1 000 items with weights, within 5. A feeder sends 1 000 rows a second, 10 rows each 10 ms, or 100
rows each 100 ms; the next batch is sent when the one before is acknowledged as durable. Two client processes hold 100
connections each. Items, weights, bounds, rows, moments of sending, processes and the client's WebSocket are the same
for both servers. The clients of Slackwater also acknowledge three times a lease, as its protocol has it.

Afterwards every value that is shown is compared with the truth. What counts is the processor time of the server's
process, for a minute; that of the clients and of the feeder stands beside it. Servers take turns.
"""

import argparse
import asyncio
import http.client
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as dial_feed

from benchmarks import report
from benchmarks.live_subscriptions import LightSocket, Socket, dial, processor, resident
from slackwater.client import connect
from slackwater.dissemination.encoding import encode
from slackwater.dissemination.messages import VERSION, Ack, Open, Subscribe
from tests.support.server_process import ServerProcess

CLIENTS, CONNECTIONS, A_CONNECTION, ITEMS, A_SUM = 2, 100, 10, 1_000, 5
BOUND, START = 5.0, 100.0
ROWS_A_SECOND = 1_000
BATCHES = (0.01, 0.1)
"""Seconds between two batches."""
WARM_SECONDS = 4.0
"""Rows are sent for so long before anything is measured: once all have subscribed a server settles its memory."""
_pack, _unpack = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode

Sum: TypeAlias = tuple[list[int], list[float]]
Row: TypeAlias = tuple[int, float]
Send: TypeAlias = Callable[[list[Row]], None]


def sums_of(client: int) -> list[list[Sum]]:
    """The sums of each connection of a client process: items and weights."""
    generator = random.Random(client)
    return [
        [
            (generator.sample(range(ITEMS), A_SUM), [round(generator.uniform(0.5, 1.5), 2) for _ in range(A_SUM)])
            for _ in range(A_CONNECTION)
        ]
        for _ in range(CONNECTIONS)
    ]


def statement(one: Sum) -> str:
    values = ", ".join(f"({item}, {weight})" for item, weight in zip(*one, strict=True))
    return (
        f"SUBSCRIBE SELECT SUM(w * price) FROM items JOIN (VALUES {values}) AS p(item, w) USING (item) WITHIN {BOUND}"
    )


class Watcher:
    """One connection of a client process, and the values that it shows."""

    def __init__(self, sums: list[Sum]) -> None:
        self.sums = sums
        self.values: list[float | None] = [None] * len(sums)
        self.places: dict[int, int] = {}
        self.messages = self.bytes = self.lease = 0
        self.socket: Socket | None = None

    def greet(self, socket: LightSocket) -> None:
        """Ask for the sums, as the rival wants to be asked."""
        socket.say_raw(_pack([[BOUND, items, weights] for items, weights in self.sums]))

    def take(self, socket: Socket, payload: bytes) -> None:
        """Apply a message of the rival."""
        number, value = _unpack(payload)
        self.values[self.places.setdefault(number, len(self.places))] = value
        self._count(payload)

    def _count(self, payload: bytes) -> None:
        self.messages += 1
        self.bytes += len(payload)

    async def acknowledge(self) -> None:
        """What the protocol asks for while nothing comes: nothing."""


class SessionWatcher(Watcher):
    """The same over a session of Slackwater."""

    sequence = 0

    def greet(self, socket: LightSocket) -> None:
        """Open the session; the sums are asked for when it is open."""
        self.socket = socket
        socket.say(Open(VERSION, 0, time.monotonic_ns() // 1000))

    def take(self, socket: Socket, payload: bytes) -> None:
        """Apply a message."""
        message = _unpack(payload)
        self._count(payload)
        if message[0] == "welcome":
            self.lease = message[4]
            for ref, one in enumerate(self.sums):
                socket.say(Subscribe(ref, statement(one)))
            return
        if message[0] != "frame" or message[2] > self.sequence:
            raise RuntimeError(f"this is not the frame that was to come: {message}")
        self.sequence = message[3]
        for fact in message[6] if len(message) > 6 else ():
            if fact[0] == "value":
                self.values[self.places[fact[1]]] = fact[3]
            elif fact[0] == "subscribed":
                self.places[fact[2]] = fact[1]
            else:
                raise RuntimeError(f"a subscription was not granted: {fact}")

    async def acknowledge(self) -> None:
        """Three times a lease, once the session is open."""
        while not self.lease:
            await asyncio.sleep(random.random())
        assert self.socket is not None
        while True:
            self.socket.say(Ack(self.sequence, time.monotonic_ns() // 1000))
            await asyncio.sleep(self.lease / 3e6)


def watch(make: type[Watcher], client: int, port: int, pipe: Connection) -> None:
    """A client process: says when all sums are granted, then answers what it shows whenever it is asked."""

    async def run() -> None:
        failures: list[str] = []
        watchers = [make(sums) for sums in sums_of(client)]
        sockets = [await dial(port, one.take, failures) for one in watchers]
        for one, socket in zip(watchers, sockets, strict=True):
            assert isinstance(socket, LightSocket)
            one.greet(socket)
        tasks = [asyncio.create_task(one.acknowledge()) for one in watchers]
        while any(value is None for one in watchers for value in one.values) and not failures:
            await asyncio.sleep(0.02)
        pipe.send("granted")
        while (asked := await asyncio.to_thread(pipe.recv)) != "end":
            assert asked == "show"
            counts = [sum(one.messages for one in watchers), sum(one.bytes for one in watchers)]
            pipe.send((*counts, [one.values for one in watchers], failures))
        for task in tasks:
            task.cancel()
        for socket in sockets:
            socket.leave()

    asyncio.run(run())


def feed(port: int, ours: bool, every: float, seconds: float, pipe: Connection) -> None:
    """The feeder process: the first prices, then on demand rows for so many seconds; gives the last prices back."""
    generator, prices = random.Random(7), [START] * ITEMS
    with _sender(port, ours) as (way, send, stay):
        send(list(enumerate(prices)))
        pipe.send(way)
        while not pipe.poll(1.0):
            stay()
        pipe.recv()
        began, batches, a_batch = time.monotonic(), round(seconds / every), round(ROWS_A_SECOND * every)
        for number in range(batches):
            time.sleep(max(0.0, began + number * every - time.monotonic()))
            rows = []
            for _ in range(a_batch):
                item = generator.randrange(ITEMS)
                prices[item] += generator.gauss(0.0, 1.0)
                rows.append((item, prices[item]))
            send(rows)
        pipe.send((time.monotonic() - began, prices))
        pipe.recv()


@contextmanager
def _sender(port: int, ours: bool) -> Iterator[tuple[str, Send, Callable[[], None]]]:
    """How rows are sent, what sends them, and what is called while there are none.

    They go over a WebSocket, and by REST to a server that takes none over a session.
    """
    address = f"ws://127.0.0.1:{port}"
    if not ours:
        with dial_feed(f"{address}/feed", compression=None) as socket:

            def send(rows: list[Row]) -> None:
                socket.send(_pack(rows))
                if _unpack(socket.recv(decode=False)) != len(rows):
                    raise RuntimeError("the rows were not taken")

            yield "WebSocket", send, lambda: None
        return
    with dial_feed(f"{address}/v1/live", compression=None) as socket:
        socket.send(encode(Open(VERSION, 0, 0)))
        welcome = _unpack(socket.recv(decode=False))
        if welcome[0] == "welcome" and len(welcome) > 9 and welcome[9] is not None:
            session = SessionFeed(socket, welcome[4])
            yield "WebSocket", session.send, session.stay
            return
    requests = http.client.HTTPConnection("127.0.0.1", port)
    line, headers = msgspec.json.Encoder(), {"content-type": "application/x-ndjson"}

    def post(rows: list[Row]) -> None:
        body = line.encode_lines([{"item": item, "price": price} for item, price in rows])
        requests.request("POST", "/v1/tables/items/rows", body, headers)
        answer = requests.getresponse()
        if msgspec.json.decode(answer.read()).get("accepted") != len(rows):
            raise RuntimeError("the rows were not taken")

    yield "REST", post, lambda: None
    requests.close()


class SessionFeed:
    """Rows over a session; the feeder acknowledges frames as any client does."""

    def __init__(self, socket: ClientConnection, lease: int) -> None:
        self._socket = socket
        self._every = lease / 3e6
        self._said = time.monotonic()
        self._next = self._sequence = 0

    def send(self, rows: list[Row]) -> None:
        """Send rows, and wait until they are durable."""
        items, prices = zip(*rows, strict=True)
        columns = ["columns", ["item", "price"], [items, prices]]
        self._socket.send(_pack(["ingest", 0, "items", "feeder", self._next, len(rows), columns]))
        end = self._next + len(rows)
        while self._next < end:
            self._take(self._socket.recv(decode=False))
        self._acknowledge()

    def stay(self) -> None:
        """Read what came meanwhile, and say that the feeder is there."""
        with suppress(TimeoutError):
            while True:
                self._take(self._socket.recv(timeout=0, decode=False))
        self._acknowledge()

    def _take(self, payload: bytes) -> None:
        message = _unpack(payload)
        if message[0] == "ingested":
            self._next = message[2]
        elif message[0] == "frame":
            self._sequence = message[3]
        else:
            raise RuntimeError(f"the rows were not taken: {message}")

    def _acknowledge(self) -> None:
        if time.monotonic() >= self._said + self._every:
            self._said = time.monotonic()
            self._socket.send(encode(Ack(self._sequence, time.monotonic_ns() // 1000)))


@contextmanager
def slackwater(folder: Path) -> Iterator[tuple[int, int]]:
    """Port and process of the server, with its table."""

    async def prepare(url: str) -> None:
        async with connect(url) as client:
            await client.execute("CREATE TABLE items (item BIGINT PRIMARY KEY, price DOUBLE)")

    with ServerProcess(folder / "slackwater") as server:
        asyncio.run(prepare(server.url))
        assert server.pid is not None
        yield server.port, server.pid


@contextmanager
def rival(folder: Path) -> Iterator[tuple[int, int]]:
    """The same of the bounded server."""
    command = [sys.executable, "-m", "benchmarks.bounded_server", str(ITEMS), str(folder / "rows")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process.pid
        finally:
            process.terminate()


def minute(
    start: Callable[[Path], Any], make: type[Watcher], every: float, seconds: float, profile: str | None = None
) -> dict[str, Any]:
    """Processor time of a minute, by process, and whether every value was right."""
    spawn = multiprocessing.get_context("spawn")
    processes = []

    def launch(work: Callable[..., None], *arguments: Any) -> tuple[int, Connection]:
        here, there = spawn.Pipe()
        process = spawn.Process(target=work, args=(*arguments, there), daemon=True)
        process.start()
        processes.append(process)
        assert process.pid is not None
        return process.pid, here

    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, start(Path(folder)) as (port, server):
        try:
            feeder, rows = launch(feed, port, make is SessionWatcher, every, WARM_SECONDS + seconds)
            way = rows.recv()
            bare = resident(server)
            clients = [launch(watch, make, client, port) for client in range(CLIENTS)]
            for _, client in clients:
                client.recv()
            rows.send("go")
            time.sleep(WARM_SECONDS)
            pids = (server, feeder, *(pid for pid, _ in clients))
            full, counted = resident(server), _asked(clients)
            began, before = time.monotonic(), [processor(pid) for pid in pids]
            spy = None if profile is None else subprocess.Popen(_profile(profile, server, seconds))
            fed, prices = rows.recv()
            took, after = time.monotonic() - began, [processor(pid) for pid in pids]
            if spy is not None:
                spy.wait()
            # What is still under way arrives.
            time.sleep(1)
            said = _asked(clients)
            for pipe in (rows, *(pipe for _, pipe in clients)):
                pipe.send("end")
        finally:
            for process in processes:
                process.join(5)
                if process.is_alive():
                    process.terminate()
    used = [(later - earlier) * 60 / took for earlier, later in zip(before, after, strict=True)]
    errors = [
        abs(value - sum(weight * prices[item] for item, weight in zip(*one, strict=True))) / BOUND
        for client, (_, _, values, _) in enumerate(said)
        for sums, shown in zip(sums_of(client), values, strict=True)
        for one, value in zip(sums, shown, strict=True)
    ]
    failures = [failure for one in said for failure in one[3]]
    if max(errors) > 1 + 1e-9 or failures:
        raise RuntimeError(f"values outside their bounds, by {max(errors)} of the bound at worst; {failures[:3]}")
    messages, size = (sum(one[place] for one in said) - sum(one[place] for one in counted) for place in (0, 1))
    return {
        "rows_come_by": way,
        "server_s_a_minute": round(used[0], 2),
        "feeder_s_a_minute": round(used[1], 2),
        "clients_s_a_minute": round(sum(used[2:]), 2),
        "messages_a_second": round(messages / took),
        "bytes_a_second": round(size / took),
        "server_memory_kb_a_connection_with_its_sums": round((full - bare) / (CLIENTS * CONNECTIONS) / 1e3, 1),
        "rows_a_second": round(ROWS_A_SECOND * (WARM_SECONDS + seconds) / fed),
        "worst_error_by_bound": round(max(errors), 4),
    }


def _asked(clients: list[tuple[int, Connection]]) -> list[Any]:
    for _, pipe in clients:
        pipe.send("show")
    return [pipe.recv() for _, pipe in clients]


def _profile(path: str, pid: int, seconds: float) -> list[str]:
    tool = os.environ.get("PY_SPY", "py-spy")
    return [tool, "record", "-p", str(pid), "-d", str(round(seconds) - 1), "-r", "200", "-f", "raw", "-o", path]


def main(seconds: float = 20.0, rounds: int = 1) -> None:
    """Both servers in turns, for each way to send."""
    servers = {"slackwater": (slackwater, SessionWatcher), "bounded_server": (rival, Watcher)}
    figures: dict[str, Any] = {"command": f"python -m benchmarks.live_minute --seconds {seconds:g} --rounds {rounds}"}
    for every in BATCHES:
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in servers}
        for _ in range(rounds):
            for name, (start, make) in servers.items():
                found[name].append(minute(start, make, every, seconds))
        ratios = [
            ours["server_s_a_minute"] / theirs["server_s_a_minute"]
            for ours, theirs in zip(found["slackwater"], found["bounded_server"], strict=True)
        ]
        figures[f"batches_each_{round(1000 * every)}_ms"] = {
            **{name: runs[0] if rounds == 1 else runs for name, runs in found.items()},
            "server_time_by_that_of_the_bounded_server": round(statistics.median(ratios), 2),
        }
    report.write("live_minute", figures)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--seconds", type=float, default=20.0, help="how long rows are sent to each server")
    arguments.add_argument("--rounds", type=int, default=1, help="how many turns each server has")
    chosen = arguments.parse_args()
    main(chosen.seconds, chosen.rounds)
