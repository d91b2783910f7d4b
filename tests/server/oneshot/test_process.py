"""A worker that is given up is in step with the server, or it is killed; a pool that ends leaves nobody waiting."""

import asyncio
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slackwater.server.group_commit import Busy
from slackwater.server.node import Node, NodeSettings
from slackwater.server.oneshot.base import FromWorker, QuestionAnswered, QuestionLimits, frame
from slackwater.server.oneshot.pool import PoolQuestion, WorkerPool
from slackwater.server.oneshot.process import WorkerProcess
from slackwater.sessions.limits import ServerLimits

LIMITS = QuestionLimits(10.0, 1 << 28, 1_000, 1 << 20)
ANSWERED = frame(QuestionAnswered(1), 40)


class Script:
    """The other end of a worker that is a sleeping process: the test says what it sends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        begin = subprocess.Popen

        def sleeping(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
            self.end = socket.socket(fileno=os.dup(options["pass_fds"][0]))
            return begin(["sleep", "60"], stdin=subprocess.DEVNULL)

        monkeypatch.setattr(subprocess, "Popen", sleeping)
        self.worker = WorkerProcess(LIMITS)

    async def close(self) -> None:
        self.worker.kill()
        await self.worker.reap()
        self.end.close()


async def receiving(worker: WorkerProcess) -> "asyncio.Task[tuple[FromWorker, bytes]]":
    task = asyncio.ensure_future(worker._receive())
    await asyncio.sleep(0.05)
    return task


@pytest.mark.parametrize("seen", [5, len(ANSWERED) - 3, len(ANSWERED), len(ANSWERED) + 7])
async def test_who_gives_up_within_a_message_ends_the_worker(monkeypatch: pytest.MonkeyPatch, seen: int) -> None:
    script = Script(monkeypatch)
    try:
        whole = ANSWERED + bytes(40)
        script.end.sendall(whole[:seen])
        task = await receiving(script.worker)
        task.cancel()
        await asyncio.wait([task])
        # What is left would be read as the next message.
        script.end.sendall(whole[seen:])
        assert not await script.worker.give_up()
        assert not script.worker.alive
    finally:
        await script.close()


async def test_who_gives_up_between_messages_keeps_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch)
    try:
        for _ in range(2):
            task = await receiving(script.worker)
            task.cancel()
            await asyncio.wait([task])
            script.end.sendall(ANSWERED + bytes(40))
            assert await script.worker.give_up()
            assert script.worker.alive
    finally:
        await script.close()


async def test_what_is_no_message_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch)
    try:
        script.end.sendall(bytes(100))
        assert not await script.worker.give_up()
        assert not script.worker.alive
    finally:
        await script.close()


async def test_who_waits_is_told_when_the_pool_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    never = asyncio.Event()

    async def starting(worker: WorkerProcess) -> None:
        await never.wait()

    monkeypatch.setattr(WorkerProcess, "start", starting)
    node = Node(NodeSettings(tmp_path / "node"))
    pool = WorkerPool(node.engine, ServerLimits(queries=1))
    question = PoolQuestion("SELECT 1", (), arrow=False)
    asked = [asyncio.ensure_future(pool.answer("a", question, lambda _: None)) for _ in range(4)]  # type: ignore[arg-type, return-value]
    await asyncio.sleep(0.05)
    assert pool.waiting == 3
    pool.end()
    assert pool.waiting == 0
    done, _ = await asyncio.wait(asked, timeout=5, return_when=asyncio.FIRST_EXCEPTION)
    done, rest = await asyncio.wait(asked[1:], timeout=5)
    assert not rest
    assert all(isinstance(one.exception(), Busy) for one in done)
    never.set()
    await asyncio.wait(asked[:1])
    await pool.close()
    node.close()
