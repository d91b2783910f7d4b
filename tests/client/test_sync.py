"""The client without `async`."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

import slackwater
from slackwater.client.sync import _Loop
from slackwater.core.errors import SlackwaterError, SqlError
from slackwater.dissemination.transports import Unreachable
from tests.support.server_process import ServerProcess


def names() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def test_everything_once(client_server: ServerProcess) -> None:
    with slackwater.connect_sync(client_server.url) as client:
        client.execute("CREATE TABLE IF NOT EXISTS calm (k BIGINT PRIMARY KEY, x DOUBLE)")
        client.ingest("calm", [{"k": 1, "x": 1.5}])
        total = client.subscribe("SUBSCRIBE SELECT SUM(x) FROM calm WITHIN 0.1").ready(10)
        rows = client.subscribe("SUBSCRIBE SELECT * FROM calm").ready(10)
        assert next(total).value == total.value == 1.5
        receipt = client.ingest("calm", [{"k": 2, "x": 2.5}])
        shown = total.reached(receipt.position, 10)
        assert (shown.value, total.bound, total.certain, total.why) == (4.0, 0.1, True, "")
        rows.reached(receipt.position, 10)
        assert total.as_of is not None
        assert sorted(row["k"] for row in rows.rows) == [1, 2]
        assert rows.to_arrow().num_rows == len(rows.to_pandas()) == 2
        assert client.query("SELECT SUM(x) AS s FROM calm").value == 4.0
        assert "SUM" in str(client.explain("SUBSCRIBE SELECT SUM(x) FROM calm WITHIN 0.1"))
        assert any(one.table == "calm" for one in client.subscriptions())
        with pytest.raises(SqlError, match="no column"):
            client.subscribe("SUBSCRIBE SELECT nope FROM calm").ready(10)
        with pytest.raises(TimeoutError):
            total.wait_until(lambda shown: shown.value == 99, 0.05)
        rows.close()
        assert not rows.certain
        assert "slackwater" in names()
    assert "slackwater" not in names()
    with pytest.raises(SlackwaterError, match="closed"):
        client.query("SELECT 1")
    client.close()


def test_changes_come_while_another_thread_sends(client_server: ServerProcess) -> None:
    with slackwater.connect_sync(client_server.url) as client:
        client.execute("CREATE TABLE IF NOT EXISTS counted (k BIGINT PRIMARY KEY)")
        counted = client.subscribe("SUBSCRIBE SELECT COUNT(*) FROM counted")
        sender = threading.Thread(target=lambda: [client.ingest("counted", [{"k": k}]) for k in range(10)])
        sender.start()
        seen: list[float] = []
        for change in counted:
            seen.append(change.value or 0.0)
            if change.value == 10:
                break
        sender.join()
        assert seen == sorted(seen)


def test_closing_wakes_who_waits_for_a_change(client_server: ServerProcess) -> None:
    client = slackwater.connect_sync(client_server.url)
    client.execute("CREATE TABLE IF NOT EXISTS waited (k BIGINT PRIMARY KEY)")
    waited = client.subscribe("SUBSCRIBE SELECT COUNT(*) FROM waited")
    seen: list[object] = []
    reader = threading.Thread(target=lambda: seen.extend(waited))
    reader.start()
    waited.ready(10)
    time.sleep(0.05)
    client.close()
    reader.join(5)
    assert not reader.is_alive()
    assert len(seen) == 1


def test_nobody_there_leaves_no_thread() -> None:
    with pytest.raises(Unreachable, match="cannot be reached"):
        slackwater.connect_sync("http://127.0.0.1:9", wait=0.05)
    assert "slackwater" not in names()


def test_a_program_that_forgets_to_close_ends(client_server: ServerProcess) -> None:
    program = (
        f"import slackwater\nc = slackwater.connect_sync({client_server.url!r})\n"
        "c.execute('CREATE TABLE IF NOT EXISTS forgot (k BIGINT PRIMARY KEY)')\n"
        "s = c.subscribe('SUBSCRIBE SELECT COUNT(*) FROM forgot').ready(10)\nprint(s.value)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, "0.0", "")


def test_closing_ends_what_other_threads_wait_for(client_server: ServerProcess) -> None:
    client = slackwater.connect_sync(client_server.url)
    client.__enter__()
    client.execute("CREATE TABLE IF NOT EXISTS still (k BIGINT PRIMARY KEY, x DOUBLE)")
    total = client.subscribe("SUBSCRIBE SELECT SUM(x) FROM still WITHIN 1").ready(10)
    told: list[BaseException] = []

    def wait() -> None:
        try:
            total.wait_until(lambda shown: shown.value == 99)
        except SlackwaterError as error:
            told.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.2)
    client.close()
    waiting.join(10)
    assert not waiting.is_alive()
    assert len(told) == 1


def test_a_loop_that_stops_lets_nobody_wait() -> None:
    loop = _Loop()
    told: list[BaseException] = []

    def wait() -> None:
        try:
            loop.wait(asyncio.sleep(60))
        except SlackwaterError as error:
            told.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.2)
    loop.stop()
    waiting.join(10)
    assert not waiting.is_alive()
    assert "closed" in str(told[0])
