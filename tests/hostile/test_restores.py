"""A server that is restored from a copy: clients and followers of the lost history begin anew, and say so."""

import random
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import slackwater
from tests.support.restored_deployment import Deployment
from tests.support.restores import ROWS, TOTAL, Copy, Restored
from tests.support.server_process import ServerProcess


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_everybody_is_live_again_after_random_restores(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path, seed=7)
    await deployment.run(12)
    assert deployment.restores == 12
    assert deployment.checks > 1_000


@pytest.mark.parametrize("what", list(Copy))
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
