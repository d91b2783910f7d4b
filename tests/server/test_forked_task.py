"""Forked tasks: they see one moment, hold nothing, fail with a reason, and end with their parent."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.core.errors import StoreError
from slackwater.server.forked_task import run_forked


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_the_memory_of_one_moment(tmp_path: Path) -> None:
    state = ["before"]

    def write() -> None:
        time.sleep(0.2)
        (tmp_path / "state").write_text(state[0])

    writing = asyncio.ensure_future(run_forked(write))
    await asyncio.sleep(0.05)
    state[0] = "after"
    await writing
    assert (tmp_path / "state").read_text() == "before"


async def test_the_event_loop_goes_on(tmp_path: Path) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    turning = asyncio.ensure_future(turn())
    await run_forked(lambda: time.sleep(0.5))
    turning.cancel()
    assert turns > 20


def _raise() -> None:
    raise OSError(28, "no space")


@pytest.mark.parametrize(
    ("task", "why"),
    [(_raise, "no space"), (lambda: os._exit(3), "ended with 3"), (lambda: os.kill(os.getpid(), 9), "ended with -9")],
)
async def test_a_failure_has_a_reason(task: Callable[[], None], why: str) -> None:
    with pytest.raises(StoreError, match=why):
        await run_forked(task)


async def test_one_that_does_not_finish_is_killed(tmp_path: Path) -> None:
    def hang() -> None:
        (tmp_path / "number").write_text(str(os.getpid()))
        time.sleep(60)

    with pytest.raises(StoreError, match="not finished within"):
        await run_forked(hang, seconds=0.5)
    assert not is_running(int((tmp_path / "number").read_text()))


async def test_cancelling_kills_it(tmp_path: Path) -> None:
    number = tmp_path / "number"

    def hang() -> None:
        number.with_suffix(".draft").write_text(str(os.getpid()))
        number.with_suffix(".draft").rename(number)
        time.sleep(60)

    running = asyncio.ensure_future(run_forked(hang))
    while not number.exists():
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_running(int(number.read_text()))


async def test_it_holds_no_descriptor(tmp_path: Path) -> None:
    """A port that this process gives up is free although the copy still runs."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]

    def look() -> None:
        (tmp_path / "open").write_text(" ".join(one.name for one in Path("/proc/self/fd").iterdir()))
        time.sleep(0.5)

    running = asyncio.ensure_future(run_forked(look))
    while not (tmp_path / "open").exists():
        await asyncio.sleep(0.01)
    listening.close()
    socket.create_server(("127.0.0.1", port)).close()
    await running
    # The standard streams, the way to answer, and the folder that was being listed.
    assert len((tmp_path / "open").read_text().split()) <= 5


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the copy finishes its work")
def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    program = f"""
import asyncio, os, time
from pathlib import Path
from slackwater.server.forked_task import run_forked
def hang():
    Path({str(tmp_path / "draft")!r}).write_text(str(os.getpid()))
    Path({str(tmp_path / "draft")!r}).rename({str(tmp_path / "number")!r})
    time.sleep(60)
asyncio.run(run_forked(hang))
"""
    parent = subprocess.Popen([sys.executable, "-c", program])
    try:
        give_up = time.monotonic() + 30
        while not (tmp_path / "number").exists():
            assert time.monotonic() < give_up
            assert parent.poll() is None
            time.sleep(0.01)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    child = int((tmp_path / "number").read_text())
    give_up = time.monotonic() + 10
    while is_running(child) and time.monotonic() < give_up:
        time.sleep(0.01)
    assert not is_running(child)
