"""The wall clock goes back over a restart of a real server: later writes and deletions win all the same."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import httpx

from tests.support.shifted_server import ShiftedServer

HOUR = 3600.0
LINES = {"content-type": "application/x-ndjson"}
TABLES = (
    "CREATE TABLE plain (k TEXT PRIMARY KEY, v DOUBLE)",
    "CREATE TABLE dated (k TEXT PRIMARY KEY, v DOUBLE, at TIMESTAMP) EVENT TIME at",
)


class Web:
    """What a sender does, at whichever server runs."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=30.0)
        for sql in TABLES:
            assert self._http.post("/v1/tables", json={"sql": sql}).status_code in (200, 201)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def send(self, table: str, *lines: str, **parameters: str | int) -> dict[str, Any]:
        body = "\n".join(lines) + "\n"
        answer = self._http.post(f"/v1/tables/{table}/rows", content=body, headers=LINES, params=parameters)
        assert answer.status_code == 200, answer.text
        receipt: dict[str, Any] = answer.json()
        return receipt

    def rows(self, table: str, after: int) -> list[list[Any]]:
        body = {"sql": f"SELECT k, v FROM {table} ORDER BY k", "after": after}
        rows: list[list[Any]] = self._http.post("/v1/query", json=body).json()["rows"]
        return rows

    def refused(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._http.get(f"/v1/tables/{table}/quarantine").json()["rows"]
        return rows


def test_the_wall_clock_is_set_back_over_a_restart(tmp_path: Path) -> None:
    """Later writes and deletions win, with numbers and without; an event time ahead has moved nothing."""
    folder = tmp_path / "node"
    ahead = ("--event-time-ahead", "7200")
    with ShiftedServer(folder, 0) as server, Web(server.url) as web:
        for nth, key in enumerate("abcd"):
            web.send("plain", f'{{"k": "{key}", "v": 1}}')
            web.send("plain", f'{{"k": "n{key}", "v": 1}}', source="s", first=nth)
        receipt = web.send("dated", f'{{"k": "a", "v": 1, "at": "{_hours_ahead(20)}"}}')
        assert receipt["accepted"] == 1
        server.kill()
    with ShiftedServer(folder, -HOUR, *ahead) as server, Web(server.url) as web:
        web.send("plain", '{"k": "a", "v": 2}')
        web.send("plain", '{"k": "na", "v": 2}', source="s", first=10)
        web.send("plain", '{"k": "b"}', operation="delete")
        web.send("plain", '{"k": "nb"}', operation="delete", source="s", first=11)
        web.send("plain", '{"k": "c"}', operation="delete")
        receipt = web.send("plain", '{"k": "c", "v": 3}')
        assert web.rows("plain", receipt["position"]) == [["a", 2], ["c", 3], ["d", 1], ["na", 2], ["nc", 1], ["nd", 1]]
        # Two hours from the log clock: the row ahead did not move it, and it is not an hour back with the wall clock.
        times = [f'{{"k": "b", "v": 1, "at": "{_hours_ahead(hours)}"}}' for hours in (1.5, 2.5)]
        receipt = web.send("dated", *times)
        assert (receipt["accepted"], receipt["quarantined"]) == (1, 1)
        [refused] = web.refused("dated")
        assert refused["reason"] == "time-ahead"
        assert "at most 2 h ahead of the log clock" in refused["detail"]
        assert "--event-time-ahead" in refused["detail"]
        web.send("dated", '{"k": "c", "v": 1, "at": "2026-01-01T00:00:00Z"}')
        receipt = web.send("dated", '{"k": "c"}', operation="delete")
        assert [row[0] for row in web.rows("dated", receipt["position"])] == ["a", "b"]


def _hours_ahead(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()
