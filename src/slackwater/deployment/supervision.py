"""Supervisor: keeps processes running, restarts them with exponential back-off, stops them together.

A process that dies at once is started again after a moment, then after twice that, and so on up to half a minute; one
that ran well for a while, or could be reached, begins anew with a moment. One that ends by itself with code 0 was
done, and stays so. Lines that the processes write are passed on with the name of the process before them.
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

_BACKOFF = Backoff(first=0.2, most=30.0, jitter=0)
RAN_WELL = 10.0
"""Seconds after which a process counts as having started."""
STOP_SECONDS = 20.0
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
    task: "asyncio.Task[None] | None" = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


class Supervisor:
    """Keeps roles running; `report` receives events, `passed` the lines of the processes, `state` is a status file."""

    def __init__(self, roles: Sequence[Role], report: Report, passed: Pass, state: Path) -> None:
        self._watched = [_WatchedProcess(role) for role in roles]
        self._report = report
        self._pass = passed
        self._state = state

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
        command = list(one.role.command())
        try:
            # A group of its own: Ctrl-C in the terminal reaches us alone, and we stop them in order.
            process = await asyncio.create_subprocess_exec(
                *command,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                limit=_LONGEST_LINE,
                start_new_session=True,
            )
        except OSError as error:
            self._pass(one.role.name, f"cannot be started: {error.strerror}")
            return 127
        one.process, one.state, one.url = process, "running", None
        one.starts += 1
        if one.stopping.is_set():
            process.terminate()
        self._report({"event": "started", "process": one.role.name, "pid": process.pid, "starts": one.starts})
        self._write()
        looking = asyncio.get_running_loop().create_task(self._look(one))
        assert process.stdout is not None
        await self._lines(one.role.name, process.stdout)
        code = await process.wait()
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        one.process = None
        return code

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
                    os.killpg(one.process.pid, signal.SIGKILL)
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
        replace_file(self._state, msgspec.json.encode({"pid": os.getpid(), "processes": processes}) + b"\n")
