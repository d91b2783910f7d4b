"""`slackwater up`: what dies is started again, all ends together, and mistakes in the file are told."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from slackwater.cli.up import _roles
from slackwater.core.errors import SlackwaterError
from slackwater.deployment.configuration import read_deployment

DEPLOYMENT = """
folder = "data"
[server]
lease = 1.0
[followers.edge]
[feeds.market]
generator = "market"
rate = 300
table = "quotes"
parameters = {items = 10}
"""


@contextmanager
def running(file: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "slackwater", "up", str(file), "--json"]
    with (file.parent / "reports").open("w") as reports:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=reports, text=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=60)


def eventually(find: Callable[[], Any], seconds: float = 60) -> Any:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        found = find()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come about")


def state(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / "data" / "up.json").read_text())["processes"]
    except OSError:
        return {}
    return found


def rows(url: str | None) -> int:
    if url is None:
        return 0
    try:
        return sum(table["rows"] for table in httpx.get(f"{url}/v1/tables").json()["tables"])
    except httpx.TransportError:
        return 0


def position(url: str) -> int:
    try:
        return int(httpx.get(f"{url}/v1/ready").json()["position"])
    except httpx.TransportError:
        return -1


def test_a_deployment_lives_through_a_kill_and_ends_cleanly(tmp_path: Path) -> None:
    file = tmp_path / "slackwater.toml"
    file.write_text(DEPLOYMENT)
    with running(file) as process:
        eventually(lambda: rows(state(tmp_path).get("edge", {}).get("url")) == 10)
        before = state(tmp_path)
        url = before["server"]["url"]
        reached = position(url)
        os.kill(before["server"]["pid"], signal.SIGKILL)
        after = eventually(lambda: (s := state(tmp_path))["server"]["starts"] == 2 and s["server"]["url"] and s)
        assert after["server"]["url"] == url, "clients come back to the same port"
        assert after["server"]["code"] == -signal.SIGKILL
        # The feed goes on sending to the new process, and the follower hears of it.
        eventually(lambda: position(url) > reached + 50)
        eventually(lambda: position(after["edge"]["url"]) > reached + 50)
        pids = [one["pid"] for one in state(tmp_path).values()]
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=60)
        assert process.returncode == 0
    events = [json.loads(line) for line in told.splitlines()]
    assert [one["process"] for one in events if one["event"] == "died"] == ["server"]
    assert events[-1] == {"event": "stopped"}
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert not (tmp_path / "data" / "up.json").exists()
    reports = (tmp_path / "reports").read_text()
    assert "Traceback" not in reports
    assert "market | " in reports


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("folder = ", "not TOML"),
        ("[server]\nprot = 1", "unknown field `prot`"),
        ("[server]\nport = 70000", r"\$\.server\.port"),
        ("[server]\nport = 'x'", r"Expected `int`"),
        ("[feeds.a]\nrate = 1", "needs a generator or a file"),
        ("[feeds.a]\ngenerator = 'market'\nfile = 'x'", "only one of them"),
        ("[followers.'../up']", "letters, digits"),
        ("[followers.server]", "server is the name of two things"),
        ("[followers.a]\n[feeds.a]\ngenerator = 'market'", "a is the name of two things"),
        ("[followers.a]\n[pipeline]\nout = 'a'", "a is the name of two things"),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "slackwater.toml"
    file.write_text(text)
    with pytest.raises(SlackwaterError, match=told):
        read_deployment(file)


def test_a_missing_file_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(SlackwaterError, match="smallest deployment"):
        read_deployment(tmp_path / "nothing.toml")


def test_how_far_event_times_may_be_ahead_is_configured(tmp_path: Path) -> None:
    file = tmp_path / "slackwater.toml"
    file.write_text("[server]\nevent_time_ahead = 7200\n")
    [server] = [role for role in _roles(file, tmp_path, read_deployment(file)) if role.name == "server"]
    words = list(server.command())
    assert words[words.index("--event-time-ahead") + 1] == "7200.0"
    file.write_text("[server]\nevent_time_ahead = -1\n")
    with pytest.raises(SlackwaterError, match="event_time_ahead"):
        read_deployment(file)
