"""Supervisor: keeps processes running, restarts them with exponential back-off, stops them together.

A process that dies at once is started again after a moment, then after twice that, and so on up to half a minute; one
that ran well for a while, or could be reached, begins anew with a moment. One that ends by itself with code 0 was
done, and stays so. Lines that the processes write are passed on with the name of the process before them.

A process that listens and whose event loop answers no more is killed and started again: asked over its lifeline, it
must miss several answers in a row. What a process started and left behind, in its process group, ends with it. All of
them end when this process does, however it ends (`lifeline`).
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from slackwater.core.backoff import Backoff
from slackwater.core.durable_file import replace_file
from slackwater.core.errors import StoreError
from slackwater.deployment.lifeline import Lifeline

_BACKOFF = Backoff(first=0.2, most=30.0, jitter=0)
RAN_WELL = 10.0
"""Seconds after which a process counts as having started."""
STOP_SECONDS = 20.0
HANG_SECONDS = 30.0
"""Seconds without an answer after which a process that listens is killed."""
_MISSES = 3
"""Answers in a row that a process must miss to count as hanging."""
_ABORT_SECONDS = 2.0
_LEFT_SECONDS = 5.0
"""Seconds for what a process leaves behind to end by itself."""
_POLL_SECONDS = 0.02
_LONGEST_LINE = 1 << 20

Report: TypeAlias = Callable[[dict[str, Any]], None]
Pass: TypeAlias = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Role:
    """A supervised process. `command` is called at each start, as a port may be known by then.

    `found`, where given, says where the process can be reached, once it can.
    """

    name: str
    command: Callable[[], Sequence[str]]
    found: Callable[[], str | None] | None = None


@dataclass(slots=True)
class _WatchedProcess:
    role: Role
    process: asyncio.subprocess.Process | None = None
    state: str = "waiting"
    starts: int = 0
    failures: int = 0
    url: str | None = None
    code: int | None = None
    lifeline: Lifeline | None = None
    task: "asyncio.Task[None] | None" = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


class Supervisor:
    """Keeps roles running; `report` receives events, `passed` the lines of the processes, `state` is a status file."""

    def __init__(
        self, roles: Sequence[Role], report: Report, passed: Pass, state: Path, hang: float = HANG_SECONDS
    ) -> None:
        self._watched = [_WatchedProcess(role) for role in roles]
        self._report = report
        self._pass = passed
        self._state = state
        self._hang = hang
        self._unwritten: str | None = None

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT; returns when all processes have ended."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        try:
            for one in self._watched:
                one.task = loop.create_task(self._keep(one))
            done = loop.create_task(self._all_done())
            stopped = loop.create_task(stop.wait())
            await asyncio.wait({done, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            # In the order in which they depend on each other: who sends ends before who takes.
            for one in reversed(self._watched):
                await self._stop(one)
            await done
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            self._state.unlink(missing_ok=True)
        self._report({"event": "stopped"})

    async def _all_done(self) -> bool:
        await asyncio.gather(*(one.task for one in self._watched if one.task is not None))
        return True

    async def _keep(self, one: _WatchedProcess) -> None:
        while not one.stopping.is_set():
            began = time.monotonic()
            code = await self._once(one)
            one.code = code
            if one.stopping.is_set() or code == 0:
                one.state = "stopped" if one.stopping.is_set() else "done"
                self._report({"event": "ended", "process": one.role.name, "code": code})
                self._write()
                return
            if one.url is not None or time.monotonic() - began > RAN_WELL:
                one.failures = 0
            one.state = "waiting"
            one.failures += 1
            wait = round(_BACKOFF.delay(one.failures, random.random), 3)
            self._report({"event": "died", "process": one.role.name, "code": code, "again_in_seconds": wait})
            self._write()
            with suppress(TimeoutError):
                await asyncio.wait_for(one.stopping.wait(), wait)

    async def _once(self, one: _WatchedProcess) -> int:
        """Run it until it ends."""
        with Lifeline() as one.lifeline:
            return await self._run(one, one.lifeline)

    async def _run(self, one: _WatchedProcess, lifeline: Lifeline) -> int:
        command = list(one.role.command())
        try:
            # A group of its own: Ctrl-C in the terminal reaches us alone, and we stop them in order.
            process = await asyncio.create_subprocess_exec(
                *command,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                limit=_LONGEST_LINE,
                start_new_session=True,
                pass_fds=(lifeline.descriptor,),
                env=lifeline.environment,
            )
        except OSError as error:
            self._pass(one.role.name, f"cannot be started: {error.strerror}")
            return 127
        lifeline.handed_over()
        one.process, one.state, one.url = process, "running", None
        one.starts += 1
        if one.stopping.is_set():
            process.terminate()
        self._report({"event": "started", "process": one.role.name, "pid": process.pid, "starts": one.starts})
        self._write()
        assert process.stdout is not None
        loop = asyncio.get_running_loop()
        lines = loop.create_task(self._lines(one.role.name, process.stdout))
        watching = [loop.create_task(self._look(one)), loop.create_task(self._watch(one, process, lifeline))]
        # Not `process.wait()`: in some versions of Python that waits for the pipe, which what is left behind may hold.
        while process.returncode is None:
            await asyncio.sleep(_POLL_SECONDS)
        await _clear_group(process.pid)
        await asyncio.wait({lines}, timeout=_LEFT_SECONDS)
        for task in (lines, *watching):
            task.cancel()
        await asyncio.gather(lines, *watching, return_exceptions=True)
        one.process = None
        return process.returncode

    async def _watch(self, one: _WatchedProcess, process: asyncio.subprocess.Process, lifeline: Lifeline) -> None:
        """Kill the process if it listens and answers no more."""
        if one.role.found is None or self._hang == 0:
            return
        interval, misses = self._hang / (2 * _MISSES), 0
        while misses < _MISSES:
            await asyncio.sleep(interval)
            if self._unwritten is not None:
                self._write()
            if one.url is None or one.stopping.is_set() or await lifeline.answers(interval):
                misses = 0
            else:
                misses += 1
        self._report({"event": "hung", "process": one.role.name, "pid": process.pid})
        # Its report then says where it hung, unless it cannot even do that.
        process.send_signal(signal.SIGABRT)
        await asyncio.sleep(_ABORT_SECONDS)
        _kill_group(process.pid)

    async def _lines(self, name: str, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:
                continue  # a line longer than any we pass on
            if not line:
                return
            self._pass(name, line.decode(errors="replace").rstrip())

    async def _look(self, one: _WatchedProcess) -> None:
        """Find out where the process can be reached."""
        if one.role.found is None:
            return
        while one.url is None:
            one.url = one.role.found()
            if one.url is None:
                await asyncio.sleep(0.02)
        self._report({"event": "listening", "process": one.role.name, "url": one.url})
        self._write()

    async def _stop(self, one: _WatchedProcess) -> None:
        one.stopping.set()
        process = one.process
        if process is not None and process.returncode is None:
            process.terminate()
        if one.task is not None:
            try:
                await asyncio.wait_for(asyncio.shield(one.task), STOP_SECONDS)
            except TimeoutError:
                self._pass(one.role.name, f"did not stop within {STOP_SECONDS:g} seconds and is killed")
                if one.process is not None:
                    _kill_group(one.process.pid)
                await one.task

    def _write(self) -> None:
        """Write the status file atomically: readers see all of it."""
        processes = {
            one.role.name: {
                "state": one.state,
                "pid": None if one.process is None else one.process.pid,
                "url": one.url,
                "starts": one.starts,
                "code": one.code,
            }
            for one in self._watched
        }
        try:
            replace_file(self._state, msgspec.json.encode({"pid": os.getpid(), "processes": processes}) + b"\n")
            self._unwritten = None
        except StoreError as error:
            # A full disk must not end what runs.
            if str(error) != self._unwritten:
                self._pass("up", str(error))
            self._unwritten = str(error)


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


async def _clear_group(leader: int) -> None:
    """End what a process that has ended started and left behind, after giving it the time to end by itself."""
    give_up = time.monotonic() + _LEFT_SECONDS
    while _group_lives(leader) and time.monotonic() < give_up:
        await asyncio.sleep(_POLL_SECONDS)
    _kill_group(leader)


def _group_lives(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
