"""One path of registration: what REST refuses a live session refuses too, in the same words."""

from pathlib import Path

import httpx
import pytest

import slackwater
from slackwater.core.errors import SlackwaterError
from slackwater.server.node import NodeSettings
from slackwater.sessions.limits import ServerLimits
from tests.support.node_server import served

TABLE = {"sql": "CREATE TABLE t (k TEXT PRIMARY KEY, v DOUBLE)"}
LIMITS = ServerLimits(registrations_a_token=2)
SELECT = "SELECT SUM(v) FROM t WITHIN"
FIRST = f"SUBSCRIBE first AS {SELECT} 1"
REFUSALS = {
    "a name that is taken": (f"SUBSCRIBE FIRST AS {SELECT} 2", "exists"),
    "more than the limit": (f"SUBSCRIBE third AS {SELECT} 3", "limit"),
    "no such table": ("SUBSCRIBE other AS SELECT v FROM nowhere", "sql"),
    "no such column": ("SUBSCRIBE other AS SELECT w FROM t", "sql"),
    "no statement": ("SUBSCRIBE other AS", "sql"),
    "no subscription": ("SELECT v FROM t", "sql"),
    "no bound": (f"SUBSCRIBE other AS {SELECT} -1", "sql"),
    "a kind that is not known": ("SUBSCRIBE other AS SELECT v FROM t ORDER BY v", "not_supported"),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_rest_and_a_live_session_refuse_the_same_in_the_same_words(tmp_path: Path, case: str) -> None:
    sql, code = REFUSALS[case]
    async with (
        served(NodeSettings(tmp_path / "node", limits=LIMITS)) as server,
        httpx.AsyncClient(base_url=server.url) as web,
        slackwater.connect(server.url) as client,
    ):
        assert (await web.post("/v1/tables", json=TABLE)).status_code == 201
        assert (await web.post("/v1/subscriptions", json={"sql": FIRST})).status_code == 201
        if code == "limit":
            await client.subscribe(f"SUBSCRIBE second AS {SELECT} 2").ready(10)
        over_rest = (await web.post("/v1/subscriptions", json={"sql": sql})).json()
        with pytest.raises(SlackwaterError) as live:
            await client.subscribe(sql).ready(10)
        place = f"line {over_rest['line']}, column {over_rest['column']}: " if "line" in over_rest else ""
        assert over_rest["error"] == code
        assert place + over_rest["message"] in str(live.value)


async def test_a_limit_over_all_counts_every_owner(tmp_path: Path) -> None:
    limits = ServerLimits(registrations=1)
    async with (
        served(NodeSettings(tmp_path / "node", limits=limits)) as server,
        httpx.AsyncClient(base_url=server.url) as web,
    ):
        await web.post("/v1/tables", json=TABLE)
        assert (await web.post("/v1/subscriptions", json={"sql": FIRST})).status_code == 201
        refused = await web.post("/v1/subscriptions", json={"sql": f"SUBSCRIBE second AS {SELECT} 2"})
        assert (refused.status_code, refused.json()["error"]) == (409, "limit")
