"""The poller against a real server on the loopback that misbehaves by script."""

import asyncio
import gzip
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise

import pytest

from slackwater.core import ManualClock, SourceError
from slackwater.core.clock import Clock
from slackwater.sources import (
    Backoff,
    BodyFormat,
    Failed,
    Fetched,
    HttpPoller,
    NotModified,
    PollOptions,
    PollOutcome,
    Suspended,
)
from slackwater.sources.bodies import BadBody, body_rows
from slackwater.wallclock import WallClock

Step = Callable[[asyncio.StreamWriter], Awaitable[None]] | bytes

QUICK = PollOptions(
    every=0.001,
    timeout=2.0,
    rate=10_000,
    burst=100,
    backoff=Backoff(first=0.001, most=0.01),
    trust_environment=False,
)


def answer(
    body: bytes = b"[]",
    status: str = "200 OK",
    kind: str = "application/json",
    length: int | None = None,
    **headers: str,
) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close"]
    lines += [f"Content-Length: {len(body) if length is None else length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Server:
    """Plays the steps in order, the last one again and again; keeps the requests."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.requests: list[dict[str, str]] = []
        self.address = ""
        self.server: asyncio.Server | None = None

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            self.requests.append({"": first, **headers})
            step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            else:
                await step(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(*steps: Step) -> AsyncIterator[Server]:
    script = Server(*steps)
    script.server = await asyncio.start_server(script, "127.0.0.1", 0)
    script.address = f"http://127.0.0.1:{script.server.sockets[0].getsockname()[1]}/prices"
    try:
        yield script
    finally:
        script.server.close()


async def poll(address: str, count: int, options: PollOptions = QUICK, clock: Clock | None = None) -> list[PollOutcome]:
    poller = HttpPoller(address, "prices", clock or WallClock(), random.Random(1), options)
    outcomes: list[PollOutcome] = []
    async with aclosing(poller.outcomes()) as stream:
        async for outcome in stream:
            outcomes.append(outcome)
            if len(outcomes) == count:
                break
    return outcomes


def rows(outcome: PollOutcome) -> list[dict[str, object]]:
    assert isinstance(outcome, Fetched), outcome
    return [row for arrival in outcome.arrivals for row in arrival.batch.to_pylist()]


def reasons(outcomes: list[PollOutcome]) -> list[str]:
    return [outcome.reason if isinstance(outcome, Failed) else type(outcome).__name__ for outcome in outcomes]


async def test_rows_arrive_with_growing_sequences() -> None:
    async with serving(answer(b'[{"s": "A", "p": 1}, {"s": "B", "p": 2.5}, 7]')) as server:
        outcomes = await poll(server.address, 3)
    sequences = []
    for outcome in outcomes:
        assert isinstance(outcome, Fetched)
        [arrival] = outcome.arrivals
        got = arrival.batch.to_pydict()
        assert (got["s"], got["p"]) == (["A", "B"], [1.0, 2.5])
        assert (arrival.table, arrival.place) == ("prices", server.address)
        assert [refusal.reason for refusal in arrival.refused] == ["not-an-object"]
        sequences += [*got["$seq"], arrival.refused[0].sequence]
        assert outcome.rows == 2
    assert all(a < b for a, b in pairwise(sequences))


async def test_sequences_grow_even_when_the_clock_stands_still() -> None:
    class Still:
        def now(self) -> int:
            return 5

        def sleep(self, seconds: float) -> None: ...

    body = b"[" + b",".join(b'{"a": %d}' % n for n in range(50)) + b"]"
    options = PollOptions(every=0.001, rate=10_000, burst=1_000, trust_environment=False)
    async with serving(answer(body)) as server:
        outcomes = await poll(server.address, 2, options, Still())  # type: ignore[arg-type]
    assert [row["$seq"] for outcome in outcomes for row in rows(outcome)] == list(range(5, 105))


async def test_conditional_requests() -> None:
    async with serving(
        answer(b'{"a": 1}', ETag='"v1"', Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT"),
        answer(b"", "304 Not Modified"),
        answer(b"", "500 Oops"),
        answer(b"", "304 Not Modified"),
        answer(b'{"a": 2}'),
        answer(b'{"a": 3}'),
    ) as server:
        outcomes = await poll(server.address, 6)
    assert reasons(outcomes) == ["Fetched", "NotModified", "http-500", "NotModified", "Fetched", "Fetched"]
    assert isinstance(outcomes[1], NotModified)
    asked = [request.get("if-none-match") for request in server.requests]
    assert asked == [None, '"v1"', '"v1"', '"v1"', '"v1"', None]
    assert server.requests[1]["if-modified-since"] == "Mon, 01 Jan 2024 00:00:00 GMT"


async def test_a_server_that_recovers() -> None:
    async with serving(answer(b"", "500 Oops"), answer(b"", "502 Bad"), answer(b'{"a": 1}')) as server:
        first, second, third = await poll(server.address, 3)
    assert isinstance(first, Failed)
    assert isinstance(second, Failed)
    assert (first.reason, first.failures, second.reason, second.failures) == ("http-500", 1, "http-502", 2)
    assert rows(third)[0]["a"] == 1


async def test_retry_after_suspends() -> None:
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    clock = WallClock()
    async with serving(answer(b"", "429 Slow down", Retry_After="20"), answer(b'{"a": 1}')) as server:
        poller = HttpPoller(server.address, "t", clock, random.Random(1), QUICK, wait=wait)
        stream = poller.outcomes()
        before = clock.now()
        suspended = await anext(stream)
        assert isinstance(suspended, Suspended)
        assert suspended.until >= before + 20_000_000
        assert isinstance(await anext(stream), Fetched)
        await stream.aclose()
    assert any(10 < seconds <= 20 for seconds in waits)


async def test_retry_after_is_capped_and_needs_no_header() -> None:
    capped = PollOptions(
        every=0.001, longest_suspension=0.01, rate=1_000, burst=10, backoff=QUICK.backoff, trust_environment=False
    )
    async with serving(answer(b"", "503 Later", Retry_After="999999"), answer(b"", "503 Later"), answer()) as server:
        outcomes = await poll(server.address, 3, capped)
    assert reasons(outcomes) == ["Suspended", "http-503", "Fetched"]


async def slow_body(writer: asyncio.StreamWriter) -> None:
    writer.write(answer(b"[", length=1_000))
    for _ in range(200):
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(b" ")


async def silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(1)


async def reset(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n[")
    while True:
        writer.write(b"1," * 10_000)
        await writer.drain()


BOMB = gzip.compress(b"[" + b" " * 5_000_000 + b"]")


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (slow_body, "timeout"),
        (silent, "timeout"),
        (reset, "connection-lost"),
        (endless, "huge-body"),
        (answer(b"[" + b" " * 200_000 + b"]"), "huge-body"),
        (answer(BOMB, Content_Encoding="gzip"), "huge-body"),
        (answer(gzip.compress(b"[]")[:12], Content_Encoding="gzip"), "bad-encoding"),
        (answer(b"not gzip", Content_Encoding="gzip"), "bad-encoding"),
        (answer(b"x", Content_Encoding="br"), "unknown-encoding"),
        (answer(b"[1, 2", length=100), "connection-lost"),
        (answer(b'[{"a": 1}, {"a"'), "not-json"),
        (answer(b"{\xff}"), "not-json"),
        (answer(b"[" * 100_000), "not-json"),
        (answer(b"<html>", kind="text/html"), "unknown-format"),
        (answer(b"a,a\n1,2\n", kind="text/csv"), "bad-body"),
        (b"garbage\r\n\r\n", "connection-lost"),
        (b"", "connection-lost"),
        (answer(b"", "404 Not Found"), "http-404"),
        (answer(b"", "302 Found", Location="ftp://127.0.0.1/x"), "bad-redirect"),
        (answer(b"", "302 Found", Location="/prices"), "too-many-redirects"),
    ],
)
async def test_misbehaviour_is_a_failure_and_the_next_answer_arrives(step: Step, reason: str) -> None:
    options = PollOptions(
        every=0.001,
        timeout=0.3,
        largest_body=150_000,
        most_redirects=2,
        rate=10_000,
        burst=100,
        backoff=QUICK.backoff,
        trust_environment=False,
    )
    turns = 3 if reason == "too-many-redirects" else 1
    async with serving(*[step] * turns, answer(b'[{"a": 1}]')) as server:
        failed, fetched = await poll(server.address, 2, options)
    assert isinstance(failed, Failed)
    assert failed.reason == reason
    assert failed.detail
    assert rows(fetched)[0]["a"] == 1


async def test_a_server_that_is_gone_and_comes_back() -> None:
    async with serving(answer(b'{"a": 1}')) as server:
        address = server.address
        assert server.server is not None
        server.server.close()
        await server.server.wait_closed()
        poller = HttpPoller(address, "t", WallClock(), random.Random(1), QUICK)
        stream = poller.outcomes()
        for failures in (1, 2, 3):
            outcome = await anext(stream)
            assert isinstance(outcome, Failed)
            assert (outcome.reason, outcome.failures) == ("cannot-connect", failures)
        port = int(address.split(":")[2].split("/")[0])
        again = await asyncio.start_server(server, "127.0.0.1", port)
        while not isinstance(outcome, Fetched):
            outcome = await anext(stream)
        again.close()
        await stream.aclose()


async def test_redirects_are_followed_and_secrets_stay() -> None:
    options = PollOptions(
        every=0.001, rate=1_000, burst=10, headers=(("X-Api-Key", "secret"),), trust_environment=False
    )
    async with (
        serving(answer(b'{"a": 1}')) as other,
        serving(answer(b"", "301 Moved", Location="/here"), answer(b"", "302 Found", Location=other.address)) as server,
    ):
        [outcome] = await poll(server.address, 1, options)
    assert rows(outcome)[0]["a"] == 1
    assert [request.get("x-api-key") for request in server.requests] == ["secret", "secret"]
    assert "x-api-key" not in other.requests[0]


async def test_only_changes() -> None:
    options = PollOptions(every=0.001, rate=1_000, burst=10, only_changes=True, trust_environment=False)
    async with serving(
        answer(b'[{"k": 1, "v": 1}, {"k": 2, "v": 1}]'),
        answer(b'[{"k": 1, "v": 1}, {"k": 2, "v": 2}]'),
        answer(b'[{"v": 2, "k": 2}, {"k": 1, "v": 1}]'),
        answer(b'[{"k": 2, "v": 1}]'),
    ) as server:
        outcomes = await poll(server.address, 4, options)
    assert [[(row["k"], row["v"]) for row in rows(outcome)] for outcome in outcomes] == [
        [(1, 1), (2, 1)],
        [(2, 2)],
        [],
        [(2, 1)],
    ]


async def test_csv_packed_and_lines() -> None:
    async with serving(
        answer(gzip.compress(b"s,p\nA,1\nbad\nB,2\n"), kind="text/csv", Content_Encoding="gzip"),
        answer(b'{"s": "A"}\n{"s": "B"}\n', kind="application/x-ndjson"),
        answer(b"", "204 No Content"),
    ) as server:
        table, lines, nothing = await poll(server.address, 3)
    assert [(row["s"], row["p"]) for row in rows(table)] == [("A", "1"), ("B", "2")]
    assert isinstance(table, Fetched)
    assert [refusal.reason for refusal in table.arrivals[0].refused] == ["wrong-field-count"]
    assert [row["s"] for row in rows(lines)] == ["A", "B"]
    assert rows(nothing) == []


async def test_cancelling_stops_at_once() -> None:
    async with serving(silent) as server:
        task = asyncio.create_task(poll(server.address, 10, PollOptions(timeout=60, trust_environment=False)))
        while not server.requests:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
    async with serving(answer()) as server:
        patient = PollOptions(every=600, trust_environment=False)
        task = asyncio.create_task(poll(server.address, 10, patient))
        while not server.requests:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)


async def test_the_rate_is_limited() -> None:
    clock = ManualClock()

    async def wait(seconds: float) -> None:
        clock.sleep(seconds)

    options = PollOptions(every=0.001, rate=50, burst=1, trust_environment=False)
    async with serving(answer()) as server:
        poller = HttpPoller(server.address, "t", clock, random.Random(1), options, wait=wait)
        async with aclosing(poller.outcomes()) as stream:
            for _ in range(4):
                await anext(stream)
    assert clock.now() == pytest.approx(60_000, abs=10), "three more requests at 50 a second"


@pytest.mark.parametrize(
    "address", ["ftp://127.0.0.1/x", "file:///etc/passwd", "nonsense", "http://", "", "http://[::1"]
)
def test_addresses_that_cannot_be_polled(address: str) -> None:
    with pytest.raises(SourceError, match="cannot poll"):
        HttpPoller(address, "t", WallClock(), random.Random(1))


def test_secrets_are_not_shown() -> None:
    poller = HttpPoller("http://user:word@127.0.0.1:1/x?key=secret#f", "t", WallClock(), random.Random(1))
    assert poller.place == "http://127.0.0.1:1/x"


@pytest.mark.parametrize(
    ("body", "options", "wanted"),
    [
        (b'[{"a": 1}]', {}, [{"a": 1}]),
        (b'{\n "a": 1\n}', {}, [{"a": 1}]),
        (b'\xef\xbb\xbf{"a": 1}', {}, [{"a": 1}]),
        (b'{"a": 1}\n{"a": 2}', {}, [{"a": 1}, {"a": 2}]),
        (b'{"d": {"r": [{"a": 1}]}}', {"rows_at": ("d", "r")}, [{"a": 1}]),
        (b"a\n1\n", {"format": BodyFormat.CSV}, [{"a": "1"}]),
        (b"", {}, []),
        (b"[]", {}, []),
    ],
)
def test_bodies(body: bytes, options: dict[str, object], wanted: list[object]) -> None:
    parts = body_rows(body, "t", **options)  # type: ignore[arg-type]
    assert [row for part in parts for row in part.batch.to_pylist()] == wanted


@pytest.mark.parametrize("body", [b'{"d": 1}', b'{"d": {}}', b"[]", b'{"d": {"x": []}}'])
def test_rows_that_are_not_where_they_should_be(body: bytes) -> None:
    with pytest.raises(BadBody, match="no d"):
        body_rows(body, "t", rows_at=("d", "r"))
