"""A server that is restored from a copy: clients and followers of the lost history begin anew, and say so."""

import asyncio
import os
import random
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import nats
import pytest

import slackwater
from slackwater.client.live.events import Shown
from tests.support.nats_server import NatsServer
from tests.support.restored_deployment import Deployment
from tests.support.restores import ROWS, TABLE, TOTAL, Copy, Restored
from tests.support.server_process import ServerProcess


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_everybody_is_live_again_after_random_restores(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, seed=7)
    await deployment.run(12)
    assert deployment.restores == 12
    assert deployment.checks > 1_000


@pytest.mark.parametrize("what", [Copy.SEGMENTS, pytest.param(Copy.FOLDER, marks=pytest.mark.slow)])
async def test_rows_that_another_history_had_are_not_shown_as_certain(tmp_path: Path, what: Copy) -> None:
    served = Restored(tmp_path, random.Random(1))
    try:
        await served.start()
        await served.define()
        await served.send(40)
        backup = await served.copy()
        async with slackwater.connect(served.server.url) as client:
            rows, total = client.subscribe(ROWS), client.subscribe(TOTAL)
            await served.send(10)
            await served.all_live([(rows, total)])
            lost = rows.as_of
            await served.restore(backup, what)
            await served.send(10)
            await served.all_live([(rows, total)])
            assert rows.as_of is not None
            assert lost is not None
            assert served.checks
            # Positions that were there before hold other rows now: what is shown names another history.
            assert set(rows.rows[0]) == {"k", "v"}
    finally:
        served.server.stop()


async def test_a_follower_of_a_log_that_is_replaced_begins_anew_by_itself(tmp_path: Path) -> None:
    served = Restored(tmp_path, random.Random(2))
    follower = ServerProcess(tmp_path / "follower", "--lease", "1", "--follow", str(served.log))
    try:
        await served.start()
        await served.define()
        await served.send(30)
        backup = await served.copy()
        follower.start()
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(slackwater.connect(follower.url))
            writing = await stack.enter_async_context(slackwater.connect(served.server.url))
            pairs = [(one.subscribe(ROWS), one.subscribe(TOTAL)) for one in (writing, client)]
            await served.send(25)
            await served.all_live(pairs)
            await served.restore(backup, Copy.FOLDER)
            await served.send(5)
            await served.all_live(pairs)
        assert "was replaced, as by a restore from a copy" in follower.report()
        assert "Traceback" not in follower.report()
    finally:
        follower.stop()
        served.server.stop()


@pytest.mark.slow
async def test_a_restart_without_a_restore_keeps_what_clients_hold(tmp_path: Path) -> None:
    served = Restored(tmp_path, random.Random(3), 20.0)
    try:
        await served.start()
        await served.define()
        await served.send(20)
        async with slackwater.connect(served.server.url) as client:
            rows, total = client.subscribe(ROWS), client.subscribe(TOTAL)
            await served.all_live([(rows, total)])
            served.server.kill()
            assert rows.certain, "the lease lasts"
            await served.start()
            await served.send(1)
            await served.all_live([(rows, total)])
    finally:
        served.server.stop()


@pytest.mark.slow
async def test_a_snapshot_of_another_history_is_put_aside(tmp_path: Path) -> None:
    served = Restored(tmp_path, random.Random(4))
    try:
        await served.start()
        await served.define()
        await served.send(30)
        backup = await served.copy()
        await served.send(60)
        served.server.stop()
        # The log alone goes back; snapshots and store stay.
        shutil.rmtree(served.log)
        shutil.copytree(backup.folder / "log", served.log)
        served.history = backup.history
        await served.start()
        await served.send(100)
        async with slackwater.connect(served.server.url) as client:
            rows, total = client.subscribe(ROWS), client.subscribe(TOTAL)
            await served.all_live([(rows, total)])
        assert "is of another history than the log" in served.server.report()
        assert len(list((served.server.folder / "snapshots").glob("*.aside"))) == 1
    finally:
        served.server.stop()


@pytest.mark.slow
async def test_a_stream_that_was_deleted_and_made_again_is_another_history(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    name = f"remade{os.getpid()}"
    stream = f"{nats_server.url}/{name}"
    writer = ServerProcess(tmp_path / "writer", "--lease", "1", "--log", stream)
    follower = ServerProcess(tmp_path / "follower", "--lease", "1", "--follow", stream)
    try:
        writer.start()
        async with slackwater.connect(writer.url) as client, AsyncExitStack() as stack:
            await client.execute(TABLE)
            await client.ingest("t", [{"k": f"lost{n}", "v": 1.0} for n in range(9)])
            follower.start()
            reader = await stack.enter_async_context(slackwater.connect(follower.url))
            held = [client.subscribe(ROWS), reader.subscribe(ROWS)]
            for one in held:
                await one.wait_until(lambda shown: len(shown.rows or ()) == 9 and shown.certain, 30)
            writer.kill()
            await delete_stream(nats_server, name)
            await asyncio.to_thread(writer.start)
            await client.execute(TABLE)
            await client.ingest("t", [{"k": f"new{n}", "v": 2.0} for n in range(20)])
            for one in held:
                await one.wait_until(
                    lambda shown: shown.certain and {str(row[0])[:3] for row in (shown.rows or {}).values()} == {"new"},
                    30,
                )
    finally:
        follower.stop()
        writer.stop()
    assert "Traceback" not in writer.report() + follower.report()


def keys(shown: Shown) -> set[object]:
    return {row[0] for row in (shown.rows or {}).values()}


async def delete_stream(server: NatsServer, name: str) -> None:
    """As an operator would, with the small stream of its mark."""
    bus = await nats.connect(server.url)
    streams = bus.jetstream()
    for found in await streams.streams_info():
        if found.config.name is not None and name in found.config.name:
            await streams.delete_stream(found.config.name)
    await bus.close()
