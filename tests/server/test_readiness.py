"""Readiness names the part that does not work."""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slackwater.core import disk
from slackwater.core.errors import LogError
from slackwater.core.types import Position
from slackwater.server import readiness
from slackwater.server.readiness import Readiness


class Time:
    """A monotonic clock that is set by hand."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


def node(folder: Path, **parts: object) -> Any:
    """As much of a node as readiness looks at."""
    settings = SimpleNamespace(folder=folder, log=folder)
    whole = {
        "settings": settings,
        "writable": True,
        "ready": True,
        "failure": None,
        "engine": SimpleNamespace(position=Position(5)),
        "log": None,
        "follower": SimpleNamespace(away_since=None),
        "log_end": lambda: Position(5),
        "write_trouble": lambda seconds: None,
    }
    return cast(Any, SimpleNamespace(**(whole | parts)))


def test_a_node_that_works_has_no_reason(tmp_path: Path) -> None:
    found = Readiness(node(tmp_path))
    found.look_at_disk()
    assert found.reason() is None
    assert list(tmp_path.iterdir()) == [], "the room that was taken is given back"


@pytest.mark.parametrize(
    ("error", "told"), [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "cannot be written: Read-only")]
)
def test_a_disk_without_room_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, told: str) -> None:
    def refuse(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    found = Readiness(node(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(disk, "reserve", refuse)
        found.look_at_disk()
    reason = found.reason()
    assert reason is not None
    assert reason.startswith("read only: ")
    assert told in reason
    found.look_at_disk()
    assert found.reason() is None


@pytest.mark.parametrize(("error", "ready"), [(errno.EOPNOTSUPP, True), (errno.EINVAL, True), (errno.ENOSPC, False)])
def test_a_file_system_that_cannot_take_room_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, ready: bool
) -> None:
    """Only one that has no room is read only."""

    def refuse(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    found = Readiness(node(tmp_path))
    found.look_at_disk()
    assert (found.reason() is None) == ready
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_fails_a_node_that_ended_and_one_that_is_stuck_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = Time()
    monkeypatch.setattr(readiness, "time", time)
    assert Readiness(node(tmp_path, write_trouble=lambda seconds: "no")).reason() == "no"
    assert "cannot go on: why" in str(Readiness(node(tmp_path, failure=OSError("why"))).reason())
    assert Readiness(node(tmp_path, ready=False)).reason() == "the node is not running"
    stuck = Readiness(node(tmp_path, log_end=lambda: Position(9)))
    assert stuck.reason() is None
    time.now += 60
    assert "at position 5 for 60 s, while its log ends at 9" in str(stuck.reason())


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the follower noticed it, or it has nothing to read and only the end of the log is unknown."""
    time = Time()
    monkeypatch.setattr(readiness, "time", time)

    def unreadable() -> Position:
        raise LogError("a segment is damaged")

    follower = SimpleNamespace(away_since=None)
    found = Readiness(node(tmp_path, log_end=unreadable, follower=follower))
    follower.away_since = time.now
    assert found.reason() is None
    time.now += 60
    assert "the log could not be read for 60 s" in str(found.reason())
    follower.away_since = None
    found.look_at_progress()
    assert "at position 5 for 60 s, and where its log ends is unknown" in str(found.reason())


def test_progress_is_a_step_or_the_end_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    monkeypatch.setattr(readiness, "time", time)
    ends = [Position(9)]
    engine = SimpleNamespace(position=Position(5))
    found = Readiness(node(tmp_path, engine=engine, log_end=lambda: ends[0]))
    for position, end, stuck in ((5, 9, True), (6, 9, False), (6, 9, True), (6, 6, False)):
        time.now += 60
        engine.position, ends[0] = Position(position), Position(end)
        found.look_at_progress()
        assert (found.reason() is not None) == stuck


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), OSError(errno.EAGAIN, "try again")])
async def test_a_look_that_the_system_refuses_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Neither at the disk nor at the servers of a log; the next look is as good as ever."""
    monkeypatch.setattr(readiness, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(readiness, "FINE_SECONDS", 0.001)
    to_thread, refused = asyncio.to_thread, [True]

    async def refuse(function: Callable[[], None]) -> None:
        if refused[0]:
            raise error
        await to_thread(function)

    monkeypatch.setattr(asyncio, "to_thread", refuse)
    found = Readiness(node(tmp_path))
    log = cast(Any, SimpleNamespace(check_servers=lambda: None))
    for look, told in (
        (found._watch_disk(), "the disk could not be looked at"),
        (found._watch_servers(log), "the servers of the log could not be asked"),
    ):
        refused[0] = True
        looking = asyncio.create_task(look)
        async with asyncio.timeout(30):
            while (reason := found.reason()) is None:
                assert not looking.done(), looking.exception()
                await asyncio.sleep(0.001)
            assert told in reason
            refused[0] = False
            while found.reason() is not None:
                await asyncio.sleep(0.001)
        looking.cancel()
