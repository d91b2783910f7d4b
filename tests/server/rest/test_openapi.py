"""The OpenAPI document is true: schemathesis makes requests from it, and every answer is one that it names.

Statements are random text, so that what is well-formed JSON may still be a 400; but never anything undocumented.
"""

from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks
from starlette.routing import Route

from slackwater.server.node import Node, NodeSettings
from slackwater.server.rest.app import make_app
from slackwater.server.rest.openapi import document
from slackwater.server.rest.routes import OPERATIONS
from tests.support.server_process import ServerProcess

EXPECTED = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
]


@schemathesis.serializer("application/x-ndjson", "application/vnd.apache.arrow.stream")
def as_it_is(_: Any, value: Any) -> bytes:
    """Bodies that schemathesis has no words for: whatever it makes up, as bytes."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


SCHEMA = schemathesis.openapi.from_dict(document(OPERATIONS))
QUIET: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@pytest.fixture(scope="module")
def address(server: ServerProcess) -> str:
    """A server with a table to talk about."""
    sql = "CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE, at TIMESTAMP) EVENT TIME at"
    httpx.post(f"{server.url}/v1/tables", json={"sql": sql}).raise_for_status()
    return server.url


def check(case: Any, address: str) -> None:
    # Rows that make no sense are no reason to refuse a request: they go to quarantine.
    rows = case.operation.path.endswith("/rows")
    wanted = [one for one in EXPECTED if not (rows and one is checks.negative_data_rejection)]
    case.call_and_validate(base_url=address, checks=wanted, timeout=30)


@SCHEMA.parametrize()
@settings(max_examples=10, derandomize=True, **QUIET)
def test_every_answer_is_documented(case: Any, address: str) -> None:
    check(case, address)


@pytest.mark.slow
@SCHEMA.parametrize()
@settings(max_examples=300, **QUIET)
def test_every_answer_is_documented_often(case: Any, address: str) -> None:
    check(case, address)


def test_every_route_is_in_the_document(server: ServerProcess, tmp_path: Path) -> None:
    served = httpx.get(f"{server.url}/v1/openapi.json").json()
    node = Node(NodeSettings(tmp_path / "node"))
    try:
        routes = {route.path for route in make_app(node).routes if isinstance(route, Route)}
    finally:
        node.close()
    assert routes - {"/v1/openapi.json"} == set(served["paths"])
    described = {(path, method.upper()) for path, some in served["paths"].items() for method in some}
    assert described == {(one.path, one.method) for one in OPERATIONS}
    for one in OPERATIONS:
        answers = served["paths"][one.path][one.method.lower()]["responses"]
        assert set(map(int, answers)) == set(one.gives) | one.failures
