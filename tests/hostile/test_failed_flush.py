"""A flush that fails: the server ends, its senders are told that the outcome is unknown, and repeating settles it."""

import asyncio
import errno
import json
import os
import signal
from pathlib import Path

import httpx
import pytest

import slackwater
from slackwater.core.types import Position
from slackwater.log import LocalLog, Log, Updates
from slackwater.log.jetstream import JetStreamLog
from tests.support.faulty_disk import FaultyServer
from tests.support.nats_server import NatsServer
from tests.support.server_process import ServerProcess

TABLE = {
    "name": "rows",
    "columns": [{"name": "k", "type": "BIGINT", "nullable": False}, {"name": "v", "type": "BIGINT"}],
    "key": ["k"],
}


async def send(web: httpx.AsyncClient, first: int, rows: int = 5) -> httpx.Response:
    lines = "\n".join(json.dumps({"k": n, "v": n}) for n in range(first, first + rows))
    return await web.post(
        "/v1/tables/rows/rows",
        params={"source": "sender", "first": first},
        content=lines,
        headers={"content-type": "application/x-ndjson"},
    )


def sequences(log: Log) -> list[int]:
    found: list[int] = []
    for entry in log.read(Position(0)):
        if isinstance(entry.record, Updates):
            found += entry.record.batch.column("$seq").to_pylist()
    return found


def kept(folder: Path) -> list[int]:
    with LocalLog(folder / "log", read_only=True) as log:
        return sequences(log)


@pytest.mark.parametrize("taken_back", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_a_failed_flush_ends_the_server_and_repeating_settles_what_was_in_flight(
    tmp_path: Path, taken_back: bool
) -> None:
    server = FaultyServer(tmp_path / "node", "--lease", "1")
    server.start()
    try:
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as web:
            assert (await web.post("/v1/tables", json=TABLE)).is_success
            assert (await send(web, 0)).json()["accepted"] == 5
            assert (await web.get("/v1/ready")).status_code == 200
            async with slackwater.connect(server.url) as client:
                total = client.subscribe("SUBSCRIBE SELECT COUNT(*) FROM rows WITHIN 0")
                await total.ready()
                # Whether the failed bytes can be cut off again is no matter.
                server.fail("sync", errno.EIO, always=not taken_back)
                sent = await asyncio.gather(*(send(web, 5 * n) for n in range(1, 9)), return_exceptions=True)
                # What the server had not begun to read is not answered, as nothing listens any more.
                assert all(isinstance(one, httpx.Response | httpx.TransportError) for one in sent)
                answers = [one for one in sent if isinstance(one, httpx.Response)]
                assert {one.status_code for one in answers} == {503}
                told = [one.json() for one in answers]
                unknown = [one for one in told if one["error"] == "outcome_unknown"]
                assert unknown, "what was in flight has an unknown outcome"
                assert all("Send it again with the same numbers" in one["message"] for one in unknown)
                refused = [one for one in told if one not in unknown]
                assert all("nothing of this was kept" in one["message"] for one in refused)
                assert await asyncio.to_thread(server.wait) == 1, "the process ends by itself"
                # A client does not rely for ever on a server that is gone.
                await total.wait_until(lambda shown: not shown.certain, 20)
            assert "the node cannot go on" in server.report()
            assert "Traceback" not in server.report()
        server.mend()
        server.start()
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as web:
            answers = [await send(web, 5 * n) for n in range(1, 9)]
            receipts = [one.json() for one in answers]
            assert all(one["accepted"] + one["repeats"] == 5 for one in receipts)
            assert (await web.get("/v1/ready")).status_code == 200
    finally:
        server.stop()
    assert sorted(kept(server.folder)) == list(range(45)), "each is there, and once"


async def test_a_write_that_is_taken_back_is_refused_and_the_server_goes_on(tmp_path: Path) -> None:
    server = FaultyServer(tmp_path / "node")
    server.start()
    try:
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as web:
            assert (await web.post("/v1/tables", json=TABLE)).is_success
            server.fail("write", errno.ENOSPC, always=True)
            # The failure counts for a few seconds, as there is room; a machine that is busy may take longer to ask.
            for _ in range(10):
                refused = await send(web, 0)
                assert (refused.status_code, refused.json()["error"]) == (503, "full")
                assert "nothing of it was kept" in refused.json()["message"]
                unready = await web.get("/v1/ready")
                if unready.status_code != 200:
                    break
            assert unready.status_code == 503
            assert "No space left" in unready.json()["message"] or "injected" in unready.json()["message"]
            assert (await web.get("/v1/health")).status_code == 200
            server.mend()
            assert (await send(web, 0)).json()["accepted"] == 5
            assert (await web.get("/v1/ready")).status_code == 200
            assert (await send(web, 0)).json()["repeats"] == 5
    finally:
        assert server.stop() == 0
    assert kept(server.folder) == list(range(5))


@pytest.mark.slow  # it waits until the node has given up on the bus, 10 seconds
@pytest.mark.parametrize("kept", [True, False])
async def test_a_stream_that_does_not_answer_leaves_an_unknown_outcome_and_ends_nothing(
    own_nats_server: NatsServer, tmp_path: Path, kept: bool
) -> None:
    stream = f"{own_nats_server.url}/desk"
    with ServerProcess(tmp_path / "node", "--log", stream) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as web:
            assert (await web.post("/v1/tables", json=TABLE)).is_success
            assert (await send(web, 0)).json()["accepted"] == 5
            if kept:
                # What was sent to servers that stand still is taken by them when they go on.
                os.kill(own_nats_server.pid, signal.SIGSTOP)
            else:
                own_nats_server.kill()
            unknown = await send(web, 5)
            assert (unknown.status_code, unknown.json()["error"]) == (503, "outcome_unknown")
            assert (await web.get("/v1/ready")).status_code == 503
            assert (await web.get("/v1/health")).status_code == 200
            if kept:
                os.kill(own_nats_server.pid, signal.SIGCONT)
            else:
                await asyncio.to_thread(own_nats_server.start)
            async with asyncio.timeout(60):
                while not (answer := await send(web, 5)).is_success:
                    await asyncio.sleep(0.2)
                assert answer.json()["accepted"] + answer.json()["repeats"] == 5
                while (await web.get("/v1/ready")).status_code != 200:
                    await asyncio.sleep(0.2)
        assert "Traceback" not in server.report()
    with JetStreamLog(stream, read_only=True) as log:
        assert sequences(log) == list(range(10)), "each is there, and once"
