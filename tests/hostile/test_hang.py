"""A server that hangs under `slackwater up` is noticed, killed and started again; one that starts slowly is not."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from slackwater.deployment.supervision import Role, Supervisor
from tests.support.descendants import marked

HANG = 2.0
"""Seconds; long enough that a process on a busy machine does not miss three answers, of a sixth of it each."""
DEPLOYMENT = """
folder = "data"
hang = 3.0
[server]
lease = 1.0
"""


def eventually(find: Callable[[], Any], seconds: float = 60) -> Any:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        found = find()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come about")


def test_a_stopped_server_is_killed_and_started_again(tmp_path: Path) -> None:
    file = tmp_path / "slackwater.toml"
    file.write_text(DEPLOYMENT)

    def server() -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((tmp_path / "data" / "up.json").read_text())["processes"]["server"]
        except OSError:
            return {}
        return found

    command = [sys.executable, "-m", "slackwater", "up", str(file), "--json"]
    with marked() as mark:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=mark.environment, text=True
        )
        try:
            before = eventually(lambda: (one := server()).get("url") and one)
            os.kill(before["pid"], signal.SIGSTOP)
            after = eventually(lambda: (one := server()).get("starts", 0) > before["starts"] and one.get("url") and one)
            assert after["url"] == before["url"], "clients come back to the same port"
            eventually(lambda: _answers(after["url"]))
            assert before["pid"] not in mark.alive()
        finally:
            process.terminate()
            told, _ = process.communicate(timeout=60)
    events = [json.loads(line) for line in told.splitlines()]
    hung = [one for one in events if one["event"] == "hung"]
    assert hung
    assert (hung[0]["process"], hung[0]["pid"]) == ("server", before["pid"])


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/v1/health", timeout=5).is_success
    except httpx.TransportError:
        return False


_SLOW = """
import time
from slackwater.deployment.lifeline import hold_lifeline
hold_lifeline()
print("begun", flush=True)
time.sleep(60)
"""
_BUSY = """
import asyncio, time
from slackwater.deployment.lifeline import answering, hold_lifeline
hold_lifeline()
async def main():
    with answering(asyncio.get_running_loop()):
        print("begun", flush=True)
        time.sleep(60)
asyncio.run(main())
"""


async def _events(tmp_path: Path, program: str, enough: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """The events of a process that listens, until there are enough of them or some time has passed."""
    events: list[dict[str, Any]] = []
    lines: list[str] = []
    role = Role("one", lambda: [sys.executable, "-c", program], lambda: "here" if lines else None)
    supervisor = Supervisor(
        [role], events.append, lambda name, line: lines.append(line), tmp_path / "up.json", hang=HANG
    )
    running = asyncio.create_task(supervisor.run())
    give_up = time.monotonic() + 30
    while not enough(events) and time.monotonic() < give_up:
        await asyncio.sleep(0.05)
    if not running.done():
        # One that has failed takes no signal any more, which would end the tests.
        os.kill(os.getpid(), signal.SIGTERM)
    await running
    return events


async def test_a_busy_event_loop_counts_as_hanging(tmp_path: Path) -> None:
    events = await _events(tmp_path, _BUSY, lambda seen: any(one["event"] == "died" for one in seen))
    died = next(one for one in events if one["event"] == "died")
    assert died["code"] == -signal.SIGABRT, "its report says where it hung"


async def test_a_process_whose_event_loop_does_not_run_yet_is_left_alone(tmp_path: Path) -> None:
    since = time.monotonic()
    events = await _events(tmp_path, _SLOW, lambda _: time.monotonic() > since + 2 * HANG)
    assert [one["event"] for one in events if one["event"] in ("hung", "died")] == []
