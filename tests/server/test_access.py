"""Who gets in: scopes, revoking, and the rule that without tokens only this machine does."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from slackwater.core.errors import SlackwaterError
from slackwater.core.types import Instant
from slackwater.dissemination.encoding import decode_from_node, encode
from slackwater.dissemination.messages import VERSION, Goodbye, Open, Welcome
from slackwater.server.listener import check_host
from slackwater.server.store import STORE_FILE, Scope, Store
from tests.support.server_process import ServerProcess

LINES = {"content-type": "application/x-ndjson"}
NOW = Instant(0)
TABLE = {"sql": "CREATE TABLE t (k TEXT PRIMARY KEY)"}


@pytest.fixture(scope="module")
def tokens() -> dict[str, str]:
    return {}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, tokens: dict[str, str]) -> Iterator[ServerProcess]:
    """A server with a token for each scope."""
    folder = tmp_path_factory.mktemp("guarded") / "node"
    with Store(folder / STORE_FILE) as store:
        for scope in Scope:
            tokens[scope] = store.create_token(scope, [scope], NOW)[1]
    with ServerProcess(folder) as running:
        yield running
    assert "Traceback" not in running.report()


def call(server: ServerProcess, token: str | None, method: str, path: str, **more: object) -> httpx.Response:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    extra = more.pop("headers", {})
    assert isinstance(extra, dict)
    return httpx.request(method, server.url + path, headers=headers | extra, timeout=30, **more)  # type: ignore[arg-type]


def test_each_scope_opens_its_own_doors(guarded: ServerProcess, tokens: dict[str, str]) -> None:
    assert call(guarded, tokens["admin"], "POST", "/v1/tables", json=TABLE).status_code == 201
    requests: dict[str, list[tuple[str, str, dict[str, object]]]] = {
        "read": [("GET", "/v1/tables", {}), ("POST", "/v1/query", {"json": {"sql": "SELECT k FROM t"}})],
        "ingest": [("POST", "/v1/tables/t/rows", {"content": b'{"k": "a"}\n', "headers": LINES})],
        "admin": [("POST", "/v1/tables", {"json": TABLE})],
    }
    for needed, some in requests.items():
        for method, path, more in some:
            for scope in ("read", "ingest", "admin"):
                answer = call(guarded, tokens[scope], method, path, **dict(more))
                allowed = scope in (needed, "admin")
                assert (answer.status_code < 300) is allowed, (path, scope, answer.text)
                if not allowed:
                    assert answer.status_code == 403
                    assert answer.json()["error"] == "forbidden"
            answer = call(guarded, None, method, path, **dict(more))
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("header", ["", "Bearer", "Basic YTpi", "Bearer sw_x_y", "Bearer \xff\xfe", "bearer"])
def test_wrong_tokens(guarded: ServerProcess, header: str) -> None:
    answer = httpx.get(f"{guarded.url}/v1/tables", headers={b"authorization": header.encode("latin-1")})
    assert answer.status_code == 401
    assert answer.json()["error"] == "unauthorized"


def test_health_is_for_everybody(guarded: ServerProcess) -> None:
    for path in ("/v1/health", "/v1/ready", "/v1/openapi.json"):
        assert call(guarded, None, "GET", path).status_code == 200


def test_a_live_connection_needs_the_scope_read(guarded: ServerProcess, tokens: dict[str, str]) -> None:
    for token, status in ((None, 401), (tokens["ingest"], 403)):
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        with pytest.raises(InvalidStatus) as denied, connect(guarded.live_url, additional_headers=headers):
            pass
        assert denied.value.response.status_code == status
        assert b'"error"' in (denied.value.response.body or b"")


def test_only_the_owner_or_an_admin_drops_a_subscription(guarded: ServerProcess, tokens: dict[str, str]) -> None:
    with Store(guarded.folder / STORE_FILE) as store:
        other = store.create_token("somebody else", [Scope.READ], NOW)[1]
    call(guarded, tokens["admin"], "POST", "/v1/tables", json=TABLE)
    for name in ("mine", "yours"):
        sql = {"sql": f"SUBSCRIBE {name} AS SELECT k FROM t"}
        made = call(guarded, tokens["read"], "POST", "/v1/subscriptions", json=sql)
        assert made.json()["owner"] == "read"
    assert call(guarded, other, "DELETE", "/v1/subscriptions/mine").status_code == 403
    assert call(guarded, tokens["read"], "DELETE", "/v1/subscriptions/mine").status_code == 200
    assert call(guarded, tokens["admin"], "DELETE", "/v1/subscriptions/yours").status_code == 200


def test_revoking_ends_requests_at_once_and_connections_soon(guarded: ServerProcess) -> None:
    with Store(guarded.folder / STORE_FILE) as store:
        text = store.create_token("guest", [Scope.READ], NOW)[1]
        assert call(guarded, text, "GET", "/v1/tables").status_code == 200
        with connect(guarded.live_url, additional_headers={"authorization": f"Bearer {text}"}) as socket:
            socket.send(encode(Open(VERSION, 0, 0)))
            assert isinstance(decode_from_node(socket.recv(timeout=10)), Welcome)
            store.revoke_token("guest", NOW)
            assert call(guarded, text, "GET", "/v1/tables").status_code == 401
            goodbye = _until_goodbye(socket)
            assert not goodbye.again
            assert "revoked" in goodbye.why
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=10)


def _until_goodbye(socket: ClientConnection) -> Goodbye:
    while True:
        message = decode_from_node(socket.recv(timeout=10))
        if isinstance(message, Goodbye):
            return message


def test_with_the_first_token_those_who_came_without_one_must_leave(folder: Path) -> None:
    with ServerProcess(folder) as server, connect(server.live_url) as socket:
        socket.send(encode(Open(VERSION, 0, 0)))
        assert isinstance(decode_from_node(socket.recv(timeout=10)), Welcome)
        with Store(folder / STORE_FILE) as store:
            store.create_token("ann", [Scope.READ], NOW)
        goodbye = _until_goodbye(socket)
        assert not goodbye.again
        assert "without one" in goodbye.why


def test_without_a_token_only_loopback(folder: Path) -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.3.2.1"):
        check_host(host, folder)
    for host in ("0.0.0.0", "::", "192.168.0.7", "example.org"):
        with pytest.raises(SlackwaterError, match="slackwater token create"):
            check_host(host, folder)
    with Store(folder / STORE_FILE) as store:
        store.create_token("ann", [Scope.READ], NOW)
    check_host("0.0.0.0", folder)


@pytest.mark.parametrize(
    "headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}, {"host": "[::"}]
)
def test_without_a_token_web_pages_from_elsewhere_are_refused(server: ServerProcess, headers: dict[str, str]) -> None:
    answer = httpx.get(f"{server.url}/v1/tables", headers=headers)
    assert answer.status_code in (400, 403)
    if "origin" in headers:
        with pytest.raises(InvalidStatus) as denied, connect(server.live_url, origin=Origin(headers["origin"])):
            pass
        assert denied.value.response.status_code == 403


def test_pages_of_this_machine_are_let_in(server: ServerProcess) -> None:
    assert httpx.get(f"{server.url}/v1/tables", headers={"origin": "http://localhost:3000"}).status_code == 200
