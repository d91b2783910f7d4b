"""Group commit: requests queue, one thread writes and flushes a group, each request completes when it is durable.

While one group is on its way to the disk the next one gathers; so under load there is one flush for many requests,
and without load a request waits for no other. A request submits a *change*: a function that reads the tables as
they will be then and appends through the intake or the log. Its result is handed over after the flush.

The writer of the log also keeps its clock (`hosting.log_clock`): a tick that is due stands before the records of the
group that is written next, and is written by itself when nothing else comes.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from slackwater.admission import Limits
from slackwater.core.clock import Clock
from slackwater.core.errors import LogError, SlackwaterError
from slackwater.core.types import Instant, Position
from slackwater.hosting.log_clock import LogClock
from slackwater.intake import Intake
from slackwater.log import Log, TimePassed
from slackwater.server.uncommitted_log import UncommittedLog

Result = TypeVar("Result")
_report = logging.getLogger("slackwater.server")

MOST_CHANGES = 512
MOST_ROWS = 200_000
"""Of one group: then it is written, and the rest is the next group."""
SAVE_EVERY = 1_000_000
"""Positions between two savings of the intake's memory. The intake must never save by itself here, as what it
remembers may not be durable yet; it would do so after `SAVE_EVERY` of its own, which is more than this and a group."""

LOOK_SECONDS = 1.0
"""How soon, at most, the wall clock is read again while a tick is to come: it may be set; and how soon a tick is tried
again that could not be written."""


class Busy(SlackwaterError):
    """The queue is full; try again."""


@dataclass(frozen=True, slots=True)
class Target:
    """Arguments of a change: intake and log, with the changes before it applied."""

    intake: Intake
    log: UncommittedLog


Change: TypeAlias = Callable[[Target], Result]


@dataclass(slots=True, eq=False)
class _Waiting:
    change: Change[Any]
    rows: int
    future: "asyncio.Future[Any]"
    result: Any = None
    error: BaseException | None = None


class WriteQueue:
    """Takes changes on the event loop and makes them durable on a thread of its own."""

    def __init__(
        self,
        log: Log,
        clock: Clock,
        memory: Path | None,
        pending_rows: int,
        durable: Callable[[], None],
        log_clock: LogClock | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._log = log
        self._clock = clock
        self._limits = limits
        self._log_clock = log_clock or LogClock()
        self._clock_end = log.end
        """The position up to which the clock knows the ticks of the log."""
        self._periods: frozenset[int] = frozenset()
        self._tick_failed = False
        self._memory = memory
        self._most = pending_rows
        self._durable = durable
        self._target = self._open()
        # What is on the disk may be far behind; the intake would make up for it by itself, in the middle of a group.
        self._target.intake.save()
        self._saved = log.end
        self._queue: list[_Waiting] = []
        self._rows = 0
        self._awake = asyncio.Event()
        self._closing = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="slackwater-log")
        self.groups = 0
        self.changes = 0

    def _open(self) -> Target:
        gathering = UncommittedLog(self._log)
        # Rows are admitted by the same clock: not before the ticks that this queue knows of.
        intake = Intake(
            gathering, self._clock, limits=self._limits, memory=self._memory, log_clock=LogClock(self._log_clock.last)
        )
        return Target(intake, gathering)

    @property
    def waiting(self) -> int:
        """Changes that are not durable yet."""
        return len(self._queue)

    async def submit(self, change: Change[Result], rows: int = 1) -> Result:
        """Queue a change; returns its result when it is durable, or raises what it raised."""
        if self._closing:
            raise Busy("the server is shutting down; come again in a moment")
        if self._queue and self._rows + rows > self._most:
            raise Busy(f"{self._rows:,} rows are waiting to be written already; come again in a moment")
        waiting = _Waiting(change, rows, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._rows += rows
        self._awake.set()
        # A client that goes away does not undo what others may be grouped with.
        result: Result = await asyncio.shield(waiting.future)
        return result

    def keep_time(self, periods: frozenset[int]) -> None:
        """Append ticks for queries with these periods, in microseconds, from now on; none without a period."""
        if periods != self._periods:
            self._periods = periods
            self._awake.set()

    async def run(self) -> None:
        """Write until closed."""
        while not (self._closing and not self._queue):
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds_to_tick()):
                    await self._awake.wait()
            self._awake.clear()
            if not self._queue and not self._closing and self._due() is not None:
                await self._commit([])
            while self._queue:
                await self._commit(self._next_group())

    async def _commit(self, group: list[_Waiting]) -> None:
        """Make a group durable, after the tick that is due."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._write, group, self._due())
        self.groups += 1
        self.changes += len(group)
        self._durable()
        for waiting in group:
            self._rows -= waiting.rows
            _settle(waiting)

    def _due(self) -> Instant | None:
        return self._log_clock.due(self._target.intake.now(), self._periods) if self._periods else None

    def _seconds_to_tick(self) -> float | None:
        """How long to wait for a change before a tick is looked at again; None: for ever."""
        wall = self._target.intake.now()
        due = self._log_clock.next_due(wall, self._periods)
        if due is None:
            return None
        return LOOK_SECONDS if self._tick_failed else min((due - wall) / 1_000_000, LOOK_SECONDS)

    async def close(self) -> None:
        """Write what waits, then save the memory; `run` returns."""
        self._closing = True
        self._awake.set()

    def finish(self) -> None:
        """Let go of the thread, after `run` has returned."""
        self._thread.shutdown()
        self._target.intake.save()

    def _next_group(self) -> list[_Waiting]:
        rows = count = 0
        for waiting in self._queue[:MOST_CHANGES]:
            if count and rows + waiting.rows > MOST_ROWS:
                break
            rows += waiting.rows
            count += 1
        group, self._queue = self._queue[:count], self._queue[count:]
        return group

    def _write(self, group: list[_Waiting], tick: Instant | None) -> None:
        """On the thread: run the changes in order, then one append for all, the tick first."""
        if tick is not None:
            self._target.log.append([TimePassed(tick)])
        for waiting in group:
            try:
                waiting.result = waiting.change(self._target)
            except SlackwaterError as error:
                waiting.error = error
            except Exception as error:
                _report.exception("a change failed")
                waiting.error = error
        try:
            end = self._target.log.flush()
            if tick is not None:
                self._log_clock = self._log_clock.after(tick)
            self._clock_end = end
            self._tick_failed = False
            if end - self._saved >= SAVE_EVERY:
                self.save()
        except (LogError, OSError) as error:
            self._fail(group, error)

    def save(self) -> Position:
        """Write the intake's memory down; on the thread, or when it is idle."""
        self._target.intake.save()
        self._saved = self._target.log.end
        return self._saved

    def _fail(self, group: list[_Waiting], error: Exception) -> None:
        """The append failed: no change of the group is done, and the intake's memory of them is dropped."""
        _report.error("the log could not be written: %s", error)
        self._tick_failed = True
        for waiting in group:
            waiting.error = waiting.error or error
        try:
            self._target = self._open()
        except SlackwaterError as reopening:
            _report.error("the log cannot be read back: %s", reopening)
            self._target.log.forget()
        try:
            self._read_ticks()
        except (SlackwaterError, OSError) as reading:
            _report.error("the ticks of the log cannot be read back: %s", reading)

    def _read_ticks(self) -> None:
        """Bring the clock to the last tick in the log: what an append kept that failed is not appended again."""
        end = self._log.end
        if end <= self._clock_end:
            return
        for entry in self._log.read(max(self._clock_end, self._log.start), end):
            if isinstance(entry.record, TimePassed):
                self._log_clock = self._log_clock.after(entry.record.time)
        self._clock_end = end


def _settle(waiting: _Waiting) -> None:
    if waiting.future.cancelled():
        return
    if waiting.error is not None:
        waiting.future.set_exception(waiting.error)
        # The caller may have gone: an exception that is never retrieved is no fault of the program.
        waiting.future.exception()
    else:
        waiting.future.set_result(waiting.result)
