"""Rows and requests sent again to a real server: exactly once with an identity, refused by name outside the window."""

import io
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

import slackwater
from tests.support.server_process import ServerProcess

LINES = {"content-type": "application/x-ndjson"}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
TABLE = "CREATE TABLE {} (k BIGINT PRIMARY KEY, v DOUBLE)"


def arrow(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> bytes:
    batch = pa.RecordBatch.from_pydict({"k": numbers, "v": np.ones(len(numbers)), "$seq": numbers})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def rows(http: httpx.Client, sql: str, after: int) -> list[list[Any]]:
    found: list[list[Any]] = http.post("/v1/query", json={"sql": sql, "after": after}).json()["rows"]
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("identities") / "node") as server:
        yield server


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60.0) as http:
        yield http


def made(http: httpx.Client, name: str) -> str:
    """A new table, and the address of its rows."""
    http.post("/v1/tables", json={"sql": TABLE.format(name)})
    return f"/v1/tables/{name}/rows"


def test_even_numbers_and_then_the_odd_ones(http: httpx.Client) -> None:
    even, odd = np.arange(0, 140_000, 2, dtype=np.int64), np.arange(1, 140_000, 2, dtype=np.int64)
    address = made(http, "halves") + "?source=s"
    first = http.post(address, content=arrow(even), headers=ARROW).json()
    second = http.post(address, content=arrow(odd), headers=ARROW).json()
    assert second["repeats"] == 0, "none was ever sent before"
    assert (first["accepted"], first["promised"]["by_number"]) == (70_000, 70_000)
    floor, outside = first["promised"]["known_from"], second["promised"]["outside_window"]
    assert second["accepted"] + outside == 70_000
    assert (outside, second["quarantined"]) == (np.count_nonzero(odd < floor), outside)
    assert rows(http, "SELECT COUNT(*) FROM halves", second["position"]) == [[70_000 + second["accepted"]]]
    listed = http.get("/v1/tables/halves/quarantine").json()["rows"]
    assert {row["reason"] for row in listed} == {"outside-window"}
    assert f"known from {floor} on" in listed[0]["detail"]
    again = http.post(address, content=arrow(odd[odd > floor]), headers=ARROW).json()
    assert (again["accepted"], again["repeats"]) == (0, second["accepted"])


def test_states_that_come_again_without_a_number(http: httpx.Client) -> None:
    address = made(http, "states")
    for value in (1, 2, 1):
        receipt = http.post(address, content=f'{{"k": 1, "v": {value}}}\n', headers=LINES).json()
        assert (receipt["accepted"], receipt["repeats"]) == (1, 0)
    assert rows(http, "SELECT v FROM states", receipt["position"]) == [[1.0]]
    assert receipt["promised"]["at_least_once"] == 1


async def test_idempotency_keys_over_a_kill(server: ServerProcess, http: httpx.Client) -> None:
    address, keyed = made(http, "transfers"), LINES | {"idempotency-key": "transfer 1"}
    made(http, "nights")
    body = '{"k": 1, "v": 1}\n{"k": 2, "v": 1}\n'
    night: list[dict[str, Any]] = [{"k": k, "v": 1.0} for k in range(25_000)]
    first = http.post(address, content=body, headers=keyed).json()
    assert first["accepted"] == 2
    async with slackwater.connect(server.url) as client:
        receipt = await client.ingest("nights", night, key="night of 2026-03-01")
        assert (receipt.accepted, receipt.promised.by_request) == (25_000, 25_000)
    later = http.post(address, content='{"k": 1, "v": 7}\n', headers=LINES).json()
    server.kill()
    server.start()
    again = http.post(address, content=body, headers=keyed).json()
    assert (again["accepted"], again["repeats"]) == (0, 2)
    assert (first["promised"]["by_request"], first["request_repeated"], again["request_repeated"]) == (2, False, True)
    assert again["position"] == later["position"], "nothing was written"
    assert rows(http, "SELECT v FROM transfers ORDER BY k", again["position"]) == [[7.0], [1.0]]
    other = http.post(address, content=body + body, headers=keyed)
    assert (other.status_code, other.json()["error"]) == (422, "key_reused")
    async with slackwater.connect(server.url) as client:
        receipt = await client.ingest("nights", night, key="night of 2026-03-01")
        assert (receipt.accepted, receipt.repeats) == (0, 25_000)
