"""`kill -9` of `slackwater up` or of `slackwater demo` leaves none of the processes that it started."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.descendants import Marked, marked

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc")

GONE_SECONDS = 30.0
UP = """
folder = "data"
[server]
[followers.edge]
[feeds.market]
generator = "market"
rate = 300
table = "quotes"
"""
SPARK = """
folder = "data"
[server]
[pipeline]
[spark]
[feeds.market]
generator = "market"
rate = 300
table = "quotes"
"""


def kill_when(mark: Marked, command: list[str], commands: list[str], folder: Path) -> None:
    """Kill a program once all that it should start runs, and a moment later, and see that nothing is left."""
    with (folder / "reports").open("w") as reports:
        process = subprocess.Popen(
            [sys.executable, "-m", "slackwater", *command], stdout=reports, stderr=reports, env=mark.environment
        )
        give_up = time.monotonic() + 120
        while time.monotonic() < give_up and process.poll() is None:
            running = list(mark.alive().values())
            if all(any(wanted in one for one in running) for wanted in commands):
                break
            time.sleep(0.05)
        else:
            raise AssertionError(
                f"not all of it came to run: {mark.alive()} {(folder / 'reports').read_text()[-2000:]}"
            )
        time.sleep(1.0)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert mark.gone(GONE_SECONDS) == {}


def test_kill_of_up_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "slackwater.toml"
    file.write_text(UP)
    with marked() as mark:
        kill_when(mark, ["up", str(file)], ["serve", "--follow", "up-feed"], tmp_path)
        # Locks and ports are free at once.
        process = subprocess.Popen(
            [sys.executable, "-m", "slackwater", "up", str(file), "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=mark.environment,
            text=True,
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                event = json.loads(line)
                assert event["event"] != "died", event
                if event["event"] == "listening" and event["process"] == "server":
                    break
        finally:
            process.terminate()
            process.communicate(timeout=60)


def test_kill_of_up_ends_a_child_that_is_stopped(tmp_path: Path) -> None:
    file = tmp_path / "slackwater.toml"
    file.write_text('folder = "data"\n[server]\n')
    with marked() as mark:
        process = subprocess.Popen(
            [sys.executable, "-m", "slackwater", "up", str(file), "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=mark.environment,
            text=True,
        )
        assert process.stdout is not None
        with process.stdout as lines:
            started = next(event for event in map(json.loads, lines) if event["event"] == "listening")
            assert started["process"] == "server"
            child = next(pid for pid, command in mark.alive().items() if " serve " in command)
            os.kill(child, signal.SIGSTOP)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        if sys.platform == "linux":
            assert mark.gone(GONE_SECONDS) == {}


def test_kill_of_demo_leaves_nothing(tmp_path: Path) -> None:
    with marked() as mark:
        wanted = ["up", "serve", "aggregate"]
        kill_when(mark, ["demo", "--no-spark", "--data", str(tmp_path / "demo")], wanted, tmp_path)


_CHILD = """
import os, sys
from slackwater.deployment import lifeline
lifeline.end_with_parent = lambda: None
lifeline.hold_lifeline()
import signal, time
if sys.argv[1] == "deaf":
    lifeline.GRACE_SECONDS = 0.2
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""
_PARENT = """
import subprocess, sys, time
from slackwater.deployment.lifeline import Lifeline
line = Lifeline()
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], pass_fds=(line.descriptor,),
                         env=line.environment, start_new_session=True)
line.handed_over()
time.sleep(60)
"""


@pytest.mark.parametrize("child", ["ready", "deaf"])
def test_a_child_ends_also_where_the_system_does_not_kill_it(child: str) -> None:
    with marked() as mark:
        process = subprocess.Popen(
            [sys.executable, "-c", _PARENT, _CHILD, child], stdout=subprocess.PIPE, env=mark.environment, text=True
        )
        assert process.stdout is not None
        with process.stdout as lines:
            assert lines.readline() == "ready\n"
            process.kill()
            process.wait()
        assert mark.gone(GONE_SECONDS) == {}


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="needs the spark extra")
def test_kill_of_up_with_spark_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "slackwater.toml"
    file.write_text(SPARK)
    with marked() as mark:
        kill_when(
            mark,
            ["up", str(file)],
            ["serve", "up-feed", "up-spark", "up-pipeline", "SparkSubmit", "pyspark.daemon"],
            tmp_path,
        )


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="needs the spark extra")
def test_kill_of_demo_with_spark_leaves_nothing(tmp_path: Path) -> None:
    with marked() as mark:
        wanted = ["up", "serve", "aggregate", "pyspark.daemon", "java"]
        kill_when(mark, ["demo", "--spark", "--data", str(tmp_path / "demo")], wanted, tmp_path)
