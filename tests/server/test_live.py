"""Whatever is sent over a live connection: an answer or an end, soon, and the server goes on."""

from collections.abc import Iterator

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from slackwater.dissemination.encoding import Encoding, decode_from_node, encode
from slackwater.dissemination.messages import (
    VERSION,
    Ack,
    ArrowRows,
    ColumnRows,
    Frame,
    Goodbye,
    Ingest,
    Ingested,
    IngestRefused,
    Open,
    Subscribe,
    Unsubscribe,
    Welcome,
)
from tests.support.server_process import ServerProcess

PATIENCE = 10.0
small = (
    st.integers(-(2**70), 2**70)
    | st.booleans()
    | st.none()
    | st.floats()
    | st.text(max_size=40)
    | st.binary(max_size=40)
)
tags = st.sampled_from(["open", "subscribe", "unsubscribe", "ack", "welcome", "frame", "goodbye", "ingest", "", "x"])
arrays = st.tuples(tags, st.lists(small, max_size=6)).map(lambda made: [made[0], *made[1]])
numbers = st.integers(-(2**62), 2**62)
texts = st.text(max_size=60) | st.sampled_from(
    ["SUBSCRIBE SELECT k FROM t", "SUBSCRIBE SELECT SUM(v) FROM t WITHIN 1", "t"]
)
messages = st.one_of(
    st.builds(Open, numbers, numbers, numbers),
    st.builds(Subscribe, numbers, texts, st.none() | numbers),
    st.builds(Unsubscribe, numbers),
    st.builds(Ack, numbers, numbers, st.booleans()),
    st.builds(
        Ingest,
        numbers,
        st.sampled_from(["t", "T", "u", ""]),
        texts,
        numbers | st.integers(0, 3),
        numbers | st.integers(0, 3),
        st.builds(ColumnRows, st.lists(texts, max_size=3).map(tuple), st.lists(st.lists(texts, max_size=3), max_size=3))
        | st.builds(ArrowRows, st.binary(max_size=60)),
        st.booleans(),
        st.none() | texts,
    ),
)
QUIET = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


@pytest.fixture(scope="module")
def live(server: ServerProcess) -> Iterator[ServerProcess]:
    sql = "CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE)"
    httpx.post(f"{server.url}/v1/tables", json={"sql": sql}).raise_for_status()
    yield server
    assert httpx.get(f"{server.url}/v1/ready").status_code == 200
    report = server.report()
    assert "Traceback" not in report
    assert "failed" not in report


def settled(socket: ClientConnection, encoding: Encoding = Encoding.MESSAGEPACK) -> str:
    """What became of the connection: it ended, or it still answers."""
    try:
        message = encode(Open(VERSION, 0, 0), encoding)
        socket.send(message if encoding is Encoding.MESSAGEPACK else message.decode())
        while True:
            answer = decode_from_node(socket.recv(timeout=PATIENCE), encoding)
            if isinstance(answer, Welcome):
                return "answers"
            assert isinstance(answer, Frame | Goodbye | Ingested | IngestRefused)
    except ConnectionClosed as closed:
        return "dropped without a word" if closed.rcvd is None else f"ended with {closed.rcvd.code}"


@given(st.binary(max_size=200))
@settings(QUIET, max_examples=40)
def test_random_bytes(live: ServerProcess, data: bytes) -> None:
    with connect(live.live_url) as socket:
        socket.send(data)
        assert settled(socket) in ("answers", "ended with 1000")


@given(st.text(max_size=100) | st.binary(max_size=100), st.booleans())
@settings(QUIET, max_examples=30)
def test_text_where_it_does_not_belong_and_bytes_that_are_no_text(
    live: ServerProcess, data: str | bytes, json: bool
) -> None:
    with connect(f"{live.live_url}?encoding={'json' if json else 'msgpack'}") as socket:
        socket.send(data, text=True)
        fate = settled(socket, Encoding.JSON if json else Encoding.MESSAGEPACK)
        assert fate in ("ended with 1000", "ended with 1007")


@given(arrays)
@settings(QUIET, max_examples=60)
def test_wrong_types(live: ServerProcess, message: list[object]) -> None:
    try:
        data = msgspec.msgpack.encode(message)
    except (OverflowError, UnicodeEncodeError):
        return
    with connect(live.live_url) as socket:
        socket.send(data)
        assert settled(socket) in ("answers", "ended with 1000")


@given(st.lists(messages, max_size=8))
@settings(QUIET, max_examples=60)
def test_right_types_in_any_order(live: ServerProcess, sent: list[Open | Subscribe | Unsubscribe | Ack]) -> None:
    with connect(live.live_url) as socket:
        try:
            for message in sent:
                socket.send(encode(message))
        except ConnectionClosed:
            return
        assert settled(socket) in ("answers", "ended with 1000")


def test_a_huge_frame_ends_the_connection(live: ServerProcess) -> None:
    for _ in range(8):
        with connect(live.live_url) as socket:
            try:
                socket.send(b"\x00" * (2 << 20))
            except ConnectionClosed:
                continue
            assert settled(socket) == "ended with 1009"


def test_a_connection_that_says_nothing_holds_up_nobody(live: ServerProcess) -> None:
    with connect(live.live_url), connect(live.live_url) as other:
        assert settled(other) == "answers"
