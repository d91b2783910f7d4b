"""Senders of the ingest benchmark: one process, raw sockets, each sender with one request outstanding.

A *wire* knows one protocol: how a connection begins, the bytes of a request, and when its answer is complete. All bytes
are made by hand, so that what is measured is the server and not a client's library. Rows are numbered through: sender
k's n-th row has the number k × 10⁹ + n, which is its key everywhere.

    python -m benchmarks.ingest_senders '{"wire": "rest", "port": 4242, …}'    as `ingest` calls it
"""

import io
import resource
import selectors
import socket
import sqlite3
import sys
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec
import pyarrow as pa

WARM_SECONDS = 0.7
STRIDE = 10**9


class Load(msgspec.Struct):
    """What is sent where."""

    wire: str
    port: int
    senders: int
    rows: int
    seconds: float
    first: int = 0
    """Sender numbers begin here: no two loads send the same rows."""
    folder: str = ""


class Outcome(msgspec.Struct):
    """What came of it: rows acknowledged in all and while it was measured, and how long an acknowledgement took."""

    sent: int
    measured: int
    seconds: float
    p50_ms: float
    p99_ms: float
    sender_cpu: float


class Wire(Protocol):
    """A protocol, as bytes."""

    def greeting(self) -> Sequence[tuple[bytes, bytes]]:
        """What is sent when a connection begins, and the end of what is answered."""
        ...

    def request(self, sender: int, first: int, rows: int) -> bytes:
        """The request with these rows."""
        ...

    def is_answered(self, came: bytes, rows: int) -> bool:
        """True if the answer is complete; an error is `AssertionError`."""
        ...


def value(number: int) -> float:
    return number % 1000 / 4


def name(number: int) -> str:
    return f"item-{number % 1000}"


class Rest:
    """Slackwater over HTTP; `first` numbers the rows, so that each is taken once."""

    kind = "application/x-ndjson"

    def greeting(self) -> Sequence[tuple[bytes, bytes]]:
        return ()

    def body(self, first: int, rows: int) -> bytes:
        numbers = range(first, first + rows)
        return "".join(f'{{"id": {n}, "value": {value(n)}, "name": "{name(n)}"}}\n' for n in numbers).encode()

    def request(self, sender: int, first: int, rows: int) -> bytes:
        body = self.body(first, rows)
        head = (
            f"POST /v1/tables/readings/rows?source=s{sender}&first={first} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
            f"content-type: {self.kind}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def is_answered(self, came: bytes, rows: int) -> bool:
        head, end, body = came.partition(b"\r\n\r\n")
        if not end:
            return False
        assert head.startswith(b"HTTP/1.1 200"), came
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        if len(body) < length:
            return False
        assert b'"accepted":%d,' % rows in body, body
        return True


class RestArrow(Rest):
    """The same with bodies of Arrow columns."""

    kind = "application/vnd.apache.arrow.stream"

    def body(self, first: int, rows: int) -> bytes:
        numbers = range(first, first + rows)
        batch = pa.record_batch(
            {
                "id": pa.array(numbers, pa.int64()),
                "value": pa.array([value(number) for number in numbers]),
                "name": pa.array([name(number) for number in numbers]),
            }
        )
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        return sink.getvalue()


class Postgres:
    """The simple query protocol: a prepared INSERT for a row, COPY for more; each a transaction of its own."""

    ready = b"Z\x00\x00\x00\x05I"

    def greeting(self) -> Sequence[tuple[bytes, bytes]]:
        words = b"user\x00postgres\x00database\x00postgres\x00\x00"
        start = (8 + len(words)).to_bytes(4, "big") + (196608).to_bytes(4, "big") + words
        prepare = b"PREPARE one (bigint, float8, text) AS INSERT INTO readings VALUES ($1, $2, $3)"
        return ((start, self.ready), (self._query(prepare), self.ready))

    def request(self, sender: int, first: int, rows: int) -> bytes:
        if rows == 1:
            return self._query(f"EXECUTE one ({first}, {value(first)}, '{name(first)}')".encode())
        lines = "".join(f"{n}\t{value(n)}\t{name(n)}\n" for n in range(first, first + rows)).encode()
        data = b"d" + (4 + len(lines)).to_bytes(4, "big") + lines
        return self._query(b"COPY readings FROM STDIN") + data + b"c\x00\x00\x00\x04"

    def is_answered(self, came: bytes, rows: int) -> bool:
        if not came.endswith(self.ready):
            return False
        assert b"SERROR" not in came, came
        return True

    @staticmethod
    def _query(text: bytes) -> bytes:
        return b"Q" + (5 + len(text)).to_bytes(4, "big") + text + b"\x00"


class Redis:
    """A stream entry a row; more rows as a pipeline."""

    def greeting(self) -> Sequence[tuple[bytes, bytes]]:
        return ()

    def request(self, sender: int, first: int, rows: int) -> bytes:
        return b"".join(self._add(number) for number in range(first, first + rows))

    @staticmethod
    def _add(number: int) -> bytes:
        words = ["XADD", "readings", "*", "id", str(number), "value", str(value(number)), "name", name(number)]
        return f"*{len(words)}\r\n".encode() + b"".join(f"${len(one)}\r\n{one}\r\n".encode() for one in words)

    def is_answered(self, came: bytes, rows: int) -> bool:
        assert not came.startswith(b"-"), came
        return came.endswith(b"\r\n") and came.count(b"$") == rows


class JetStream:
    """A message a row; more rows are one message, as lines of JSON."""

    def greeting(self) -> Sequence[tuple[bytes, bytes]]:
        return ((b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB _INBOX.* 1\r\nPING\r\n', b"PONG\r\n"),)

    def request(self, sender: int, first: int, rows: int) -> bytes:
        body = Rest().body(first, rows)
        return f"PUB readings.{sender} _INBOX.{sender} {len(body)}\r\n".encode() + body + b"\r\n"

    def is_answered(self, came: bytes, rows: int) -> bool:
        assert b"error" not in came, came
        return b'"seq":' in came and came.endswith(b"\r\n")


WIRES: dict[str, type[Wire]] = {
    "rest": Rest,
    "rest-arrow": RestArrow,
    "postgres": Postgres,
    "redis": Redis,
    "jetstream": JetStream,
}


class _Sender:
    def __init__(self, wire: Wire, load: Load, nth: int) -> None:
        self.number = load.first + nth
        self.next = self.number * STRIDE
        self.load, self.wire = load, wire
        self.came = b""
        self.began = 0.0
        self.carrier = socket.create_connection(("127.0.0.1", load.port))
        self.carrier.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for sent, end in wire.greeting():
            self.carrier.sendall(sent)
            came = b""
            while not came.endswith(end):
                piece = self.carrier.recv(1 << 16)
                assert piece, came
                came += piece
        # Made before it is sent: what a request costs its sender is no part of the answer's time.
        self.ready = self._make()

    def _make(self) -> bytes:
        made = self.wire.request(self.number, self.next, self.load.rows)
        self.next += self.load.rows
        return made

    def send(self) -> None:
        self.began = time.perf_counter()
        self.came = b""
        self.carrier.sendall(self.ready)
        self.ready = self._make()

    def receive(self) -> bool:
        piece = self.carrier.recv(1 << 18)
        assert piece, "the server closed the connection"
        self.came += piece
        return self.wire.is_answered(self.came, self.load.rows)


def closed_loop(load: Load) -> Outcome:
    """Send for as long as it was asked; each sender waits for its answer before it sends again."""
    wire = WIRES[load.wire]()
    senders = [_Sender(wire, load, nth) for nth in range(load.senders)]
    selector = selectors.DefaultSelector()
    for one in senders:
        selector.register(one.carrier, selectors.EVENT_READ, one)
        one.send()
    begin = time.perf_counter() + WARM_SECONDS
    end = begin + load.seconds
    sent = measured = 0
    cpu = 0.0
    took: list[float] = []
    open_ = len(senders)
    while open_:
        for key, _ in selector.select():
            one = key.data
            if not one.receive():
                continue
            now = time.perf_counter()
            sent += load.rows
            if begin <= now < end:
                cpu = cpu or time.process_time()
                measured += load.rows
                took.append(now - one.began)
            if now < end:
                one.send()
            else:
                selector.unregister(one.carrier)
                one.carrier.close()
                open_ -= 1
    return _outcome(load, sent, measured, took, time.process_time() - cpu)


def _outcome(load: Load, sent: int, measured: int, took: list[float], cpu: float) -> Outcome:
    took = sorted(took) or [0.0]
    p50, p99 = took[len(took) // 2] * 1000, took[len(took) * 99 // 100] * 1000
    return Outcome(sent, measured, load.seconds, p50, p99, cpu)


def sqlite_loop(load: Load) -> Outcome:
    """The same in process: one connection, a transaction for each request."""
    database = sqlite3.connect(load.folder + "/readings.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE IF NOT EXISTS readings (id INTEGER PRIMARY KEY, value REAL, name TEXT)")
    begin = time.perf_counter() + WARM_SECONDS
    end = begin + load.seconds
    number, sent, measured, cpu = load.first * STRIDE, 0, 0, 0.0
    took: list[float] = []
    while (now := time.perf_counter()) < end:
        rows = [(n, value(n), name(n)) for n in range(number, number + load.rows)]
        number += load.rows
        cpu = cpu or (time.process_time() if now >= begin else 0.0)
        database.execute("BEGIN")
        database.executemany("INSERT INTO readings VALUES (?, ?, ?)", rows)
        database.execute("COMMIT")
        sent += load.rows
        if now >= begin:
            measured += load.rows
            took.append(time.perf_counter() - now)
    database.close()
    return _outcome(load, sent, measured, took, time.process_time() - cpu)


def main() -> None:
    load = msgspec.json.decode(sys.argv[1], type=Load)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    outcome = sqlite_loop(load) if load.wire == "sqlite" else closed_loop(load)
    print(msgspec.json.encode(outcome).decode())


if __name__ == "__main__":
    main()
