"""Many live subscriptions on one node over real WebSockets, or over NATS, load generator included.

    python -m benchmarks.live_subscriptions --seconds 300
    python -m benchmarks.live_subscriptions --seconds 60 --nats

*Live*: 2 000 connections hold 10 000 bounded sums of 5 items each over 1 000 items. Prices walk at random; one client
sends them in, 10 requests of 100 rows a second. Every notified value is checked against the truth at its position, and
every second a sample of those that are shown, silent ones included. *Ingest to client* runs from the moment at which
the request with the first row of a step is sent (its JSON not yet written) to the moment at which the value is decoded.
A step is what lies between two positions that any connection was told of, so the figure errs upwards.

*Together*: 2 048 clients connect at once and ask for the same 10 000 rows; each checks the digest of what it gets.

The generator is one process with a WebSocket of its own that does the least: it would otherwise be what is measured.

With `--nats` the connections are over a NATS server that is started for it, and instead of *together* there is
*multicast*: one message to 1 000 members of a channel, counted by that server, and *carried*: as much as goes through.
"""

import argparse
import asyncio
import base64
import bisect
import gc
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec

from benchmarks import report
from benchmarks.bus import carried, dial_bus, multicast
from slackwater.client import Client, connect
from slackwater.core.bus import DEFAULT_NAME
from slackwater.dissemination.encoding import decode_from_node, encode
from slackwater.dissemination.messages import VERSION, Ack, Frame, FromClient, Open, Snapshot, Subscribe, Welcome
from tests.support.nats_server import NatsServer
from tests.support.server_process import ServerProcess

CONNECTIONS, A_CONNECTION, ITEMS, A_QUERY = 2_000, 5, 1_000, 5
BOUND = 5.0
REQUESTS_A_SECOND, ROWS_A_REQUEST = 10, 100
LEASE_SECONDS = 15
SLOW_SECONDS = 0.25
TOGETHER, ROWS = 2_048, 10_000
_decode = msgspec.msgpack.Decoder().decode


class Socket(Protocol):
    """A connection of the generator."""

    def say(self, message: FromClient) -> None:
        """Send a message."""
        ...

    def leave(self) -> None:
        """Drop the connection."""
        ...


Take: TypeAlias = Callable[[Socket, bytes], None]
Look: TypeAlias = Callable[[], dict[str, float]]
Dial: TypeAlias = Callable[[Take, list[str]], Awaitable[Socket]]


class LightSocket(asyncio.Protocol):
    """The client side of a WebSocket, with no more than is needed; `received` gets each binary message."""

    def __init__(self, received: Take, failures: list[str]) -> None:
        self.received = received
        self.failures = failures
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.leaving = False
        self._rest = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for a WebSocket."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        key = base64.b64encode(os.urandom(16))
        transport.write(
            b"GET /v1/live HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + b"\r\n\r\n"
        )

    def data_received(self, data: bytes) -> None:
        """Cut what came into messages."""
        self._rest += data
        if not self.opened.done():
            end = self._rest.find(b"\r\n\r\n")
            if end < 0:
                return
            if not self._rest.startswith(b"HTTP/1.1 101"):
                self.opened.set_exception(RuntimeError(bytes(self._rest[:200]).decode(errors="replace")))
                return
            del self._rest[: end + 4]
            self.opened.set_result(None)
        rest, at = self._rest, 0
        while len(rest) >= at + 2:
            size, head = rest[at + 1], 2
            if size == 126:
                size, head = int.from_bytes(rest[at + 2 : at + 4]), 4
            elif size == 127:
                size, head = int.from_bytes(rest[at + 2 : at + 10]), 10
            if len(rest) < at + head + size:
                break
            payload = bytes(rest[at + head : at + head + size])
            kind = rest[at] & 0x0F
            at += head + size
            if kind == 2:
                self.received(self, payload)
            elif kind == 9:
                self._write(0x8A, payload)
            elif kind == 8 and not self.leaving:
                self.failures.append(f"closed by the server: {payload[2:].decode(errors='replace')}")
        del rest[:at]

    def connection_lost(self, exc: Exception | None) -> None:
        """Note it, unless it was wanted."""
        if not self.leaving:
            self.failures.append(f"lost: {exc}")
        if not self.opened.done():
            self.opened.set_exception(RuntimeError(f"lost: {exc}"))

    def say(self, message: FromClient) -> None:
        """Send a message."""
        self.say_raw(encode(message))

    def say_raw(self, payload: bytes) -> None:
        """Send bytes as a message."""
        self._write(0x82, payload)

    def _write(self, kind: int, payload: bytes) -> None:
        # A mask of zeros is a mask, and leaves the payload as it is.
        size = len(payload)
        length = bytes((0x80 | size,)) if size < 126 else b"\xfe" + size.to_bytes(2)
        assert self._transport is not None
        self._transport.write(bytes((kind,)) + length + b"\0\0\0\0" + payload)

    def leave(self) -> None:
        """Drop the connection."""
        self.leaving = True
        if self._transport is not None:
            self._transport.abort()


async def dial(port: int, received: Take, failures: list[str]) -> Socket:
    _, socket = await asyncio.get_running_loop().create_connection(
        lambda: LightSocket(received, failures), "127.0.0.1", port
    )
    await asyncio.wait_for(socket.opened, 120)
    return socket


class Truth:
    """Every price there was, by the position of the log after it."""

    def __init__(self, generator: random.Random, position: int) -> None:
        self._random = generator
        self.end = position
        self.prices = [100.0] * ITEMS
        self._positions: list[list[int]] = [[0] for _ in range(ITEMS)]
        self._history: list[list[float]] = [[100.0] for _ in range(ITEMS)]
        self._first_rows: list[int] = []
        self._sent: list[float] = []

    def move(self, rows: int) -> list[dict[str, float]]:
        """The next rows; where they will stand is known, as nobody else writes."""
        self._first_rows.append(self.end)
        self._sent.append(time.perf_counter())
        moved = []
        for _ in range(rows):
            item = self._random.randrange(ITEMS)
            self.prices[item] += self._random.gauss(0.0, 1.0)
            self.end += 1
            self._positions[item].append(self.end)
            self._history[item].append(self.prices[item])
            moved.append({"item": item, "price": self.prices[item]})
        return moved

    def total(self, items: tuple[int, ...], position: int) -> float:
        """The sum over items as of a position."""
        return sum(self._history[item][bisect.bisect_right(self._positions[item], position) - 1] for item in items)

    def sent(self, position: int) -> float:
        """When the request was sent that has the row after this position."""
        return self._sent[max(0, bisect.bisect_right(self._first_rows, position) - 1)]


class Session:
    """One connection with its subscriptions, as the protocol has it."""

    __slots__ = ("applied", "as_of", "numbers", "queries", "socket", "values")

    def __init__(self, queries: list[tuple[int, ...]]) -> None:
        self.queries = queries
        self.numbers: dict[int, list[int]] = {}
        self.values: list[float | None] = [None] * len(queries)
        self.applied = 0
        self.as_of = 0
        self.socket: Socket | None = None


class Load:
    """Everything that the generator holds and counts."""

    def __init__(self, generator: random.Random) -> None:
        self.sessions = [
            Session([tuple(generator.sample(range(ITEMS), A_QUERY)) for _ in range(A_CONNECTION)])
            for _ in range(CONNECTIONS)
        ]
        self.failures: list[str] = []
        self.truth: Truth | None = None
        self.frames = self.notified = self.checked = self.outside = self.granted = 0
        self.worst = 0.0
        self.latencies: list[tuple[float, float]] = []
        """How long it took, and when it was sent."""
        self._steps: list[int] = []

    def receiver(self, session: Session) -> Take:
        """What takes the messages of one connection."""

        def received(socket: Socket, payload: bytes) -> None:
            self.take(session, socket, _decode(payload))

        return received

    def take(self, session: Session, socket: Socket, message: list[Any]) -> None:
        """Apply a message; what is checked and measured is checked and measured here."""
        if message[0] == "welcome":
            for ref, items in enumerate(session.queries):
                socket.say(Subscribe(ref, statement(items)))
            return
        if message[0] != "frame":
            self.failures.append(str(message))
            return
        _, _, base, sequence, as_of, _, *rest = message
        self.frames += 1
        if base > session.applied or as_of < session.as_of:
            self.failures.append(f"a frame is missing, or its position goes back: {message[:6]}")
            return
        session.applied, session.as_of = sequence, as_of
        if not self._steps or as_of > self._steps[-1]:
            self._steps.append(as_of)
        for fact in rest[0] if rest else ():
            if fact[0] == "value":
                for place in session.numbers.get(fact[1], ()):
                    self.granted += session.values[place] is None
                    session.values[place] = fact[3]
                    if self.truth is not None:
                        self._measure(session, place, as_of)
            elif fact[0] == "subscribed":
                session.numbers.setdefault(fact[2], []).append(fact[1])
            else:
                self.failures.append(str(fact))

    def _measure(self, session: Session, place: int, as_of: int) -> None:
        assert self.truth is not None
        self.notified += 1
        before = self._steps[bisect.bisect_left(self._steps, as_of) - 1] if len(self._steps) > 1 else as_of
        sent = self.truth.sent(before)
        self.latencies.append((time.perf_counter() - sent, sent))
        self.check(session, place)

    def check(self, session: Session, place: int) -> None:
        """Whether what is shown lies within its bound of the truth at its position."""
        value = session.values[place]
        assert self.truth is not None
        error = float("inf") if value is None else abs(value - self.truth.total(session.queries[place], session.as_of))
        self.checked += 1
        self.worst = max(self.worst, error / BOUND)
        self.outside += error > BOUND * (1 + 1e-9)

    async def acknowledge(self) -> None:
        """Three times a lease for each connection, spread over the time."""
        pieces = 100
        while True:
            for piece in range(pieces):
                for session in self.sessions[piece::pieces]:
                    if session.socket is not None:
                        session.socket.say(Ack(session.applied, time.monotonic_ns() // 1000))
                await asyncio.sleep(LEASE_SECONDS / 3 / pieces)


def statement(items: tuple[int, ...]) -> str:
    values = ", ".join(f"({item}, 1.0)" for item in items)
    return (
        f"SUBSCRIBE SELECT SUM(w * price) FROM items JOIN (VALUES {values}) AS p(item, w) USING (item) WITHIN {BOUND}"
    )


async def live(dialled: Dial, pid: int, url: str, seconds: float, look: Look = dict) -> dict[str, Any]:
    """The subscriptions are made, then rows are sent; `look` counts something else before and after the sending."""
    generator = random.Random(7)
    load = Load(generator)
    async with connect(url) as client:
        await client.execute("CREATE TABLE items (item BIGINT PRIMARY KEY, price DOUBLE)")
        await client.ingest("items", [{"item": item, "price": 100.0} for item in range(ITEMS)])
        began = time.perf_counter()
        acknowledging = asyncio.create_task(load.acknowledge())
        gate = asyncio.Semaphore(100)

        async def open_one(session: Session) -> None:
            async with gate:
                session.socket = await dialled(load.receiver(session), load.failures)
                session.socket.say(Open(VERSION, 0, time.monotonic_ns() // 1000))

        await asyncio.gather(*map(open_one, load.sessions))
        while load.granted < CONNECTIONS * A_CONNECTION and not load.failures:
            if time.perf_counter() - began > 300:
                load.failures.append(f"only {load.granted} subscriptions were granted")
            await asyncio.sleep(0.05)
        granted = time.perf_counter() - began
        figures = await drive(load, client, pid, seconds, generator, look) if not load.failures else {}
        acknowledging.cancel()
        for session in load.sessions:
            if session.socket is not None:
                session.socket.leave()
        await asyncio.sleep(0.5)
    return {
        "connections": CONNECTIONS,
        "subscriptions": CONNECTIONS * A_CONNECTION,
        "items": ITEMS,
        "lease_s": LEASE_SECONDS,
        "bound": BOUND,
        "seconds_until_all_subscribed": round(granted, 1),
        "failures": len(load.failures),
        "first_failures": load.failures[:3],
        **figures,
    }


async def drive(
    load: Load, client: Client, pid: int, seconds: float, generator: random.Random, look: Look
) -> dict[str, Any]:
    """Send for so many seconds, and look at the server meanwhile."""
    truth = load.truth = Truth(generator, await settled(client))
    # The generator's own collections would be taken for the server's pauses.
    gc.collect()
    gc.freeze()
    memory = [resident(pid)]
    looked = look()
    server_before, own_before, frames_before = processor(pid), processor(os.getpid()), load.frames
    began, late, requests = time.perf_counter(), 0.0, 0
    next_look = began + 1
    while (now := time.perf_counter()) - began < seconds:
        due = began + requests / REQUESTS_A_SECOND
        if due > now:
            await asyncio.sleep(due - now)
        else:
            late = max(late, now - due)
        requests += 1
        receipt = await client.ingest("items", truth.move(ROWS_A_REQUEST))
        if receipt.position != truth.end:
            load.failures.append(f"the log stands at {receipt.position}, not at {truth.end}: somebody else writes")
        if now >= next_look:
            next_look += 1
            memory.append(resident(pid))
            for session in generator.sample(load.sessions, 200):
                load.check(session, generator.randrange(A_CONNECTION))
    took = time.perf_counter() - began
    server_share = (processor(pid) - server_before) / took
    own_share = (processor(os.getpid()) - own_before) / took
    notified, frames = load.notified, load.frames - frames_before
    elsewhere = {name: round((count - looked[name]) / took, 2) for name, count in look().items()}
    # What is still under way arrives, and the last word is checked for all.
    await asyncio.sleep(LEASE_SECONDS / 3)
    for session in load.sessions:
        for place in range(A_CONNECTION):
            load.check(session, place)
    ordered = sorted(latency for latency, _ in load.latencies)
    slow = sorted({round(sent - began, 1) for latency, sent in load.latencies if latency > SLOW_SECONDS})
    half = memory[len(memory) // 2 :]
    return {
        "seconds": round(took, 1),
        "updates_a_second": round(requests * ROWS_A_REQUEST / took),
        "notifications_a_second": round(notified / took),
        "frames_a_second": round(frames / took),
        "values_checked": load.checked,
        "values_outside_their_bound": load.outside,
        "worst_error_by_bound": round(load.worst, 4),
        "ingest_to_client_ms": {
            name: round(1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))], 1)
            for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("most", 1.0))
            if ordered
        },
        "slower_than_250_ms_sent_at_s": slow[:20],
        "most_the_generator_was_late_ms": round(1000 * late),
        **elsewhere,
        "server_cores": round(server_share, 2),
        "generator_cores": round(own_share, 2),
        "server_memory_mb": {
            "before": round(memory[0] / 1e6),
            "after": round(memory[-1] / 1e6),
            "most": round(max(memory) / 1e6),
            "growth_a_minute_in_the_second_half": round(growth(half) * 60 / 1e6, 2),
            "series": [round(one / 1e6) for one in memory[:: max(1, len(memory) // 30)]],
        },
    }


async def settled(client: Client) -> int:
    """The end of the log once nobody else writes: what a busy node had to register it may have asked for twice.

    What it registered twice it drops after a minute in which nobody subscribed to it.
    """
    for _ in range(60):
        if len(await client.subscriptions()) <= CONNECTIONS * A_CONNECTION:
            break
        await asyncio.sleep(2)
    quiet, position = 0, -1
    for _ in range(60):
        end = (await client.ingest("items", [{"item": 0, "price": 100.0}])).position
        quiet, position = (quiet + 1 if end == position + 1 else 0), end
        if quiet == 7:
            break
        await asyncio.sleep(1)
    return position


async def together(port: int, url: str) -> dict[str, Any]:
    """Everybody at once."""
    failures: list[str] = []
    arrived: list[float] = []
    sizes: set[int] = set()
    digests: set[str] = set()
    all_there = asyncio.Event()

    def received(socket: Socket, payload: bytes) -> None:
        message = decode_from_node(payload)
        if isinstance(message, Welcome):
            socket.say(Subscribe(0, "SUBSCRIBE SELECT * FROM wide"))
        elif isinstance(message, Frame):
            socket.say(Ack(message.sequence, time.monotonic_ns() // 1000))
            for fact in message.facts:
                if isinstance(fact, Snapshot):
                    if blake2b(fact.rows, digest_size=16).hexdigest() != fact.digest or fact.count != ROWS:
                        failures.append("a digest is wrong, or rows are missing")
                    digests.add(fact.digest)
                    sizes.add(len(bytes(fact.rows)))
                    arrived.append(time.perf_counter() - began)
                    if len(arrived) == TOGETHER:
                        all_there.set()
        else:
            failures.append(str(message))

    async def visit() -> Socket:
        socket = await dial(port, received, failures)
        socket.say(Open(VERSION, 0, time.monotonic_ns() // 1000))
        return socket

    async with connect(url) as client:
        await client.execute("CREATE TABLE wide (k BIGINT PRIMARY KEY, name TEXT, price DOUBLE)")
        rows = [{"k": k, "name": f"row number {k}", "price": k / 3} for k in range(ROWS)]
        position = (await client.ingest("wide", rows)).position
        await client.query("SELECT COUNT(*) AS n FROM wide", after=position)
        began = time.perf_counter()
        sockets = await asyncio.gather(*(visit() for _ in range(TOGETHER)))
        connected = time.perf_counter() - began
        try:
            await asyncio.wait_for(all_there.wait(), 300)
        except TimeoutError:
            failures.append(f"only {len(arrived)} of {TOGETHER} had their rows")
        for socket in sockets:
            socket.leave()
    return {
        "clients": TOGETHER,
        "rows": ROWS,
        "snapshot_bytes": max(sizes, default=0),
        "different_digests": len(digests),
        "seconds_until_all_connected": round(connected, 2),
        "seconds_to_the_median": round(statistics.median(arrived), 2) if arrived else None,
        "seconds_to_the_last": round(max(arrived), 2) if arrived else None,
        "failures": len(failures),
        "first_failures": failures[:3],
    }


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def processor(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def growth(series: list[int]) -> float:
    """Bytes a second, as the median of all differences: one collection more or less does not count."""
    return statistics.median(later - earlier for earlier, later in pairwise(series)) if len(series) > 1 else 0.0


def main(seconds: float = 20.0) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    figures: dict[str, Any] = {"command": f"python -m benchmarks.live_subscriptions --seconds {seconds:g}"}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        with ServerProcess(Path(folder) / "live", "--lease", str(LEASE_SECONDS)) as server:
            pid = int(_listening(server).pid)
            port = server.port
            figures["live"] = asyncio.run(live(lambda *how: dial(port, *how), pid, server.url, seconds))
        with ServerProcess(Path(folder) / "together", "--lease", str(LEASE_SECONDS)) as server:
            figures["together"] = asyncio.run(together(server.port, server.url))
            figures["together"]["server_memory_most_mb"] = round(peak(int(_listening(server).pid)) / 1e6)
    report.write("live_subscriptions", figures)


def main_over_nats(seconds: float) -> None:
    """The same over a bus."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    figures: dict[str, Any] = {"command": f"python -m benchmarks.live_subscriptions --seconds {seconds:g} --nats"}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, NatsServer(Path(folder) / "nats") as bus:
        arguments = ("--lease", str(LEASE_SECONDS), "--nats", bus.url)
        with ServerProcess(Path(folder) / "live", *arguments) as server:
            pid = int(_listening(server).pid)
            address = f"{bus.url}/{DEFAULT_NAME}"
            connections: set[int] = set()

            def look() -> dict[str, float]:
                counted = bus.figures()
                connections.add(counted["connections"])
                return {
                    "bus_messages_in_a_second": counted["in_msgs"],
                    "bus_messages_out_a_second": counted["out_msgs"],
                    "nats_server_cores": processor(bus.pid),
                }

            figures["live"] = asyncio.run(live(lambda *how: dial_bus(address, *how), pid, server.url, seconds, look))
            figures["live"]["connections_to_the_nats_server"] = max(connections, default=0)
            figures["live"]["nats_server_memory_mb"] = round(peak(bus.pid) / 1e6)
        figures["multicast"] = asyncio.run(multicast(bus))
        figures["carried"] = asyncio.run(carried(bus))
    report.write("live_subscriptions_nats", figures)


def _listening(server: ServerProcess) -> Any:
    from slackwater.deployment.endpoint_file import read_state

    return read_state(server.folder)


def peak(pid: int) -> int:
    """The most memory that a process ever had."""
    line = next(one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--seconds", type=float, default=20.0, help="how long the live part sends")
    arguments.add_argument("--nats", action="store_true", help="over a NATS server instead of WebSockets")
    chosen = arguments.parse_args()
    (main_over_nats if chosen.nats else main)(chosen.seconds)
