"""Strangers without a token: they may fill what there is, and still end nothing and shut no client out.

The server has 256 descriptors, tokens, and short time-outs. What is asked each time: it serves on, rows stay durable,
its log says little, and silent connections are closed.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from slackwater.core.types import Instant
from slackwater.server.store import STORE_FILE, Scope, Store
from tests.support.server_process import ServerProcess
from tests.support.strangers import HALF_HEAD, Strangers, drip, read_to_end

LINES = {"content-type": "application/x-ndjson"}
DESCRIPTORS = 256
MANY = 300
SHORT = ("--limit", "head_seconds=0.5", "--limit", "body_seconds=0.5", "--limit", "idle_seconds=0.5")
LOUD = 64 * 1024
"""Bytes of reports that would be too many."""


class SmallServer(ServerProcess):
    """A server with few descriptors, whose only token may do everything."""

    descriptors = DESCRIPTORS

    def __init__(self, folder: Path, *arguments: str) -> None:
        super().__init__(folder, *arguments)
        with Store(folder / STORE_FILE) as store:
            self.token = store.create_token("ann", [Scope.ADMIN], Instant(0))[1]

    def client(self, origin: str = "127.0.0.1") -> httpx.Client:
        """An honest client."""
        return httpx.Client(
            base_url=self.url,
            headers={"authorization": f"Bearer {self.token}"},
            timeout=60,
            transport=httpx.HTTPTransport(local_address=origin),
        )

    def live(self, origin: str = "127.0.0.1") -> ClientConnection:
        """An honest live connection."""
        headers = {"authorization": f"Bearer {self.token}"}
        return connect(self.live_url, additional_headers=headers, open_timeout=60, source_address=(origin, 0))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallServer]:
    folder = tmp_path_factory.mktemp("strangers") / "node"
    with SmallServer(folder, *SHORT) as running:
        with running.client() as web:
            sql = "CREATE TABLE t (k BIGINT PRIMARY KEY, v DOUBLE)"
            web.post("/v1/tables", json={"sql": sql}).raise_for_status()
        yield running
    assert "Traceback" not in running.report()


def send(web: httpx.Client, key: int) -> httpx.Response:
    address = f"/v1/tables/t/rows?source=ann&first={key}"
    return web.post(address, content=f'{{"k": {key}, "v": 1}}\n', headers=LINES)


def keys(server: SmallServer) -> set[int]:
    with server.client() as web:
        return {row[0] for row in web.post("/v1/query", json={"sql": "SELECT k FROM t"}).json()["rows"]}


def figures(server: SmallServer) -> dict[str, int]:
    with server.client() as web:
        found: dict[str, int] = web.get("/v1/metrics").json()
    return found


def check_well(server: SmallServer) -> None:
    assert server.running, server.report()[-2000:]
    assert "cannot go on" not in server.report()
    assert len(server.report()) < LOUD


@pytest.mark.parametrize(
    "first",
    [b"", HALF_HEAD, b"GET /v1/health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"],
    ids=["silent", "half a head", "an answer each"],
)
def test_more_strangers_than_descriptors(server: SmallServer, first: bytes) -> None:
    """An open connection goes on, a new client gets in, rows are durable, and the strangers are closed."""
    before = max(keys(server), default=0)
    with server.client() as web, Strangers(server.port) as strangers:
        assert send(web, before + 1).status_code == 200
        for _ in range(MANY):
            strangers.connect(first)
        assert send(web, before + 2).status_code == 200
        with server.client() as new:
            assert send(new, before + 3).status_code == 200
        for one in strangers.sockets:
            read_to_end(one)
    check_well(server)
    assert {before + 1, before + 2, before + 3} <= keys(server)


def test_a_flood_of_strangers_for_a_while(server: SmallServer) -> None:
    """They come back as soon as they are closed; new clients get in meanwhile, and a live connection stays."""
    over = threading.Event()

    def flood() -> None:
        while not over.is_set():
            # A system that is short of something refuses a stranger too; the next ones come.
            with suppress(OSError), Strangers(server.port) as strangers:
                for nth in range(MANY):
                    strangers.connect(HALF_HEAD if nth % 2 else b"")

    thread = threading.Thread(target=flood)
    before = figures(server)["sockets_evicted"]
    with server.live() as live:
        thread.start()
        try:
            for asked in range(200):
                with server.client() as web:
                    assert web.get("/v1/ready").status_code == 200
                    assert web.get("/v1/tables").status_code == 200
                evicted = figures(server)["sockets_evicted"] - before
                if asked >= 8 and evicted > MANY:
                    break
            assert evicted > MANY, "there was a flood while the clients asked"
        finally:
            over.set()
            thread.join()
        live.ping().wait(30)
    check_well(server)


def test_what_never_becomes_a_request_is_closed(server: SmallServer) -> None:
    """A head byte by byte, empty lines, and the same after a request that was answered."""
    request = b"GET /v1/health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with Strangers(server.port) as strangers:
        for first in (b"GET /", request + b"GET /"):
            drip(strangers.connect(first), b"x", 0.2)
    check_well(server)


@pytest.mark.parametrize("allowed", [False, True], ids=["refused", "admitted"])
def test_a_body_that_never_ends_is_closed(server: SmallServer, allowed: bool) -> None:
    """Whether the request was refused, so that its body is never read, or waits for it."""
    token = f"authorization: Bearer {server.token}\r\n" if allowed else ""
    head = "POST /v1/tables/t/rows HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/x-ndjson\r\n"
    with Strangers(server.port) as strangers:
        drip(strangers.connect(f"{head}{token}content-length: 100000\r\n\r\n".encode()), b" ", 0.2)
        chunked = strangers.connect(f"{head}{token}transfer-encoding: chunked\r\n\r\n".encode())
        drip(chunked, b"1\r\n \r\n", 0.2)
    check_well(server)


def test_answers_that_are_not_read_are_dropped(server: SmallServer) -> None:
    """One asks for the long description again and again and takes nothing of it."""
    request = b"GET /v1/openapi.json HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with Strangers(server.port) as strangers:
        for _ in range(3):
            strangers.connect(request * 200, buffer=4096)
        timed_out = figures(server)["sockets_timed_out"]
        limit = threading.Event()
        for _ in range(300):
            if figures(server)["sockets_timed_out"] >= timed_out + 3:
                break
            limit.wait(0.1)
        assert figures(server)["sockets_timed_out"] >= timed_out + 3
    check_well(server)


def test_garbage_is_refused_without_many_words(server: SmallServer) -> None:
    """Alone, after a request, within a body, and where a WebSocket should begin."""
    request = b"GET /v1/health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    chunked = b"POST /v1/tables HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n"
    garbage = b"\x00\xff\x81\r\n\r\n"
    before = len(server.report())
    with Strangers(server.port) as strangers:
        for first in (garbage, request + garbage, chunked + garbage, request.replace(b"GET", b"\xff"), b"A" * 70_000):
            for _ in range(40):
                strangers.connect(first)
        for one in strangers.sockets:
            read_to_end(one)
    assert len(server.report()) - before < 4_096
    check_well(server)


def test_an_upgrade_that_is_none_is_closed(server: SmallServer) -> None:
    """HTTP allows so many lines in a head, the WebSocket library does not, and would wait for ever."""
    lines = "".join(f"x-{nth}: 1\r\n" for nth in range(300))
    upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    head = f"GET /v1/live HTTP/1.1\r\nhost: 127.0.0.1\r\n{upgrade}{lines}\r\n"
    with Strangers(server.port) as strangers:
        assert b" 431 " in read_to_end(strangers.connect(head.encode()))
    check_well(server)


def test_what_was_acknowledged_beside_strangers_survives(server: SmallServer) -> None:
    key = max(keys(server), default=0) + 1
    with server.client() as web, Strangers(server.port) as strangers:
        for _ in range(MANY):
            strangers.connect()
        assert send(web, key).status_code == 200
        server.kill()
    server.start()
    assert key in keys(server)


def test_slots_that_are_all_at_work(tmp_path: Path) -> None:
    """An address at its limit shuts out itself alone; where all slots are taken, new clients wait for one."""
    limits = ("--limit", "sockets=8", "--limit", "sockets_an_address=5")
    with SmallServer(tmp_path / "node", *limits) as server, ExitStack() as stack:
        lives = [stack.enter_context(server.live()) for _ in range(5)]
        with Strangers(server.port) as strangers:
            answer = read_to_end(strangers.connect())
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"from your address" in answer
        with server.client("127.0.0.2") as other:
            assert other.get("/v1/tables").status_code == 200
            found = other.get("/v1/metrics").json()
            assert found["sockets_refused"] == 1
            assert found["connections"] == len(lives)
        lives += [stack.enter_context(server.live("127.0.0.2")) for _ in range(3)]

        answers: list[int] = []

        def ask() -> None:
            with server.client("127.0.0.3") as web:
                answers.append(web.get("/v1/tables").status_code)

        waiting = [threading.Thread(target=ask) for _ in range(4)]
        for one in waiting:
            one.start()
        waiting[0].join(0.3)
        assert answers == []
        for live in lives[:2]:
            live.close()
        for one in waiting:
            one.join(60)
        assert answers == [200] * 4
        for live in lives[2:]:
            live.ping().wait(30)
        check_well(server)


def test_strangers_keep_to_their_own_limit(tmp_path: Path) -> None:
    """Most slots stay free for those that may use them, and a client gets in beside twice as many strangers."""
    with SmallServer(tmp_path / "node", "--limit", "strangers=20") as server, server.live() as live:
        with Strangers(server.port) as strangers:
            for _ in range(40):
                strangers.connect(HALF_HEAD)
            found = figures(server)
            assert 20 <= found["sockets"] <= 22
            assert found["sockets_evicted"] > 20
        live.ping().wait(30)
        check_well(server)
