"""Group commit: requests queue, one thread writes and flushes a group, each request completes when it is durable.

While one group is on its way to the disk the next one gathers; so under load there is one flush for many requests,
and without load a request waits for no other. A request submits a *change*: a function that reads the tables as
they will be then and appends through the intake or the log. Its result is handed over after the flush. Changes that
are requests of rows (`RowsChange`) and wait beside each other are admitted together.

A failed append ends in one of three ways. Nothing of it was kept, as on a full disk: the group is refused and the
queue goes on. Its outcome is unknown, as where the servers of a log do not answer: the group is told so, and the tables
and the intake are read anew before the next one. The writer cannot go on, as after a failed flush: the group is told
that its outcome is unknown, what waits is refused, and `run` raises; opening the log again finds out.

The writer of the log also keeps its clock (`hosting.log_clock`): a tick that is due stands before the records of the
group that is written next, and is written by itself when nothing else comes.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from slackwater.admission import Limits
from slackwater.core.clock import Clock
from slackwater.core.errors import LogError, LogLocked, OutcomeUnknown, SlackwaterError, WriterBroken
from slackwater.core.types import Instant, Position
from slackwater.hosting.log_clock import LogClock
from slackwater.intake import Intake, IntakeReceipt, RowsRequest
from slackwater.log import Entry, Log, TimePassed
from slackwater.server.uncommitted_log import UncommittedLog
from slackwater.server.write_thread import WriteThread

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

_FATAL = (WriterBroken, LogLocked)
"""Errors of a log whose writer cannot go on."""


class Busy(SlackwaterError):
    """The queue is full; try again."""


@dataclass(frozen=True, slots=True)
class Target:
    """Arguments of a change: intake and log, with the changes before it applied."""

    intake: Intake
    log: UncommittedLog


Change: TypeAlias = Callable[[Target], Result]


@dataclass(frozen=True, slots=True)
class RowsChange:
    """The change that takes a request of rows."""

    request: RowsRequest

    def __call__(self, target: Target) -> IntakeReceipt:
        """Take the request by itself."""
        return target.intake.take(self.request.arrivals, self.request.key)


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
        self.committed: Callable[[Sequence[Entry]], None] = lambda entries: None
        """Called with the entries of each group once they are durable."""
        self._flushed: tuple[Entry, ...] = ()
        self._target = self._open()
        self._outdated = False
        """True while the tables and the intake know of records that were not kept."""
        self.trouble: str | None = None
        """Reason why the latest append failed; None after one that succeeded."""
        self.failed_at = 0.0
        """When that was, by the monotonic clock."""
        self.failure: Exception | None = None
        """Error after which the writer cannot go on."""
        # What is on the disk may be far behind; the intake would make up for it by itself, in the middle of a group.
        self._saved = log.end
        self._save()
        self._queue: list[_Waiting] = []
        self._rows = 0
        self._awake = asyncio.Event()
        self._closing = False
        self._thread = WriteThread()
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
        if self.failure is not None:
            raise self._refusal()
        if self._closing:
            raise Busy("the server is shutting down; come again in a moment")
        if self._queue and self._rows + rows > self._most:
            raise Busy(f"{self._rows:,} rows are waiting to be written already; come again in a moment")
        waiting = _Waiting(change, rows, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._rows += rows
        self._awake.set()
        # A client that goes away does not undo what others may be grouped with: only its future is cancelled.
        result: Result = await waiting.future
        return result

    def keep_time(self, periods: frozenset[int]) -> None:
        """Append ticks for queries with these periods, in microseconds, from now on; none without a period."""
        if periods != self._periods:
            self._periods = periods
            self._awake.set()

    async def run(self) -> None:
        """Write until closed; raises if the writer cannot go on."""
        while not (self._closing and not self._queue):
            seconds = self._seconds_to_tick()
            if seconds is None:
                await self._awake.wait()
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._awake.wait()
            self._awake.clear()
            if not self._queue and not self._closing and self._due() is not None:
                await self._commit([])
            while self._queue:
                await self._commit(self._next_group())

    async def _commit(self, group: list[_Waiting]) -> None:
        """Make a group durable, after the tick that is due."""
        due = self._due()
        await self._thread.run(lambda: self._write(group, due))
        self.groups += 1
        self.changes += len(group)
        if self.failure is not None:
            for waiting in self._queue:
                waiting.error = self._refusal()
            group, self._queue = [*group, *self._queue], []
        for waiting in group:
            self._rows -= waiting.rows
            _settle(waiting)
        self.committed(self._flushed)
        # After the callers: what they are answered does not wait for what is made of it.
        self._durable()
        if self.failure is not None:
            raise self.failure

    def _due(self) -> Instant | None:
        return self._log_clock.due(self._target.intake.now(), self._periods) if self._periods else None

    def _seconds_to_tick(self) -> float | None:
        """How long to wait for a change before a tick is looked at again; None: for ever."""
        if not self._periods:
            return None
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
        self._thread.end()
        if self.failure is None and not self._outdated:
            self._save()

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
        self._flushed = ()
        if self._outdated and not self._reopen():
            refusal = LogError(f"{self.trouble}; nothing of this was kept: send it again in a moment")
            for waiting in group:
                waiting.error = refusal
            return
        if tick is not None:
            self._target.log.append([TimePassed(tick)])
        self._run(group)
        try:
            end = self._target.log.flush()
            if tick is not None:
                self._log_clock = self._log_clock.after(tick)
            self._clock_end, self._flushed = end, self._target.log.flushed
            self._tick_failed = False
            self.trouble = None
        except (LogError, OSError) as error:
            self._fail(group, error)
            return
        except Exception as error:
            _report.exception("an append failed")
            self._fail(group, WriterBroken(f"an append failed: {error!r}"))
            return
        if end - self._saved >= SAVE_EVERY:
            self._save()

    def _run(self, group: Sequence[_Waiting]) -> None:
        """Run the changes in order, requests of rows together with their neighbours."""
        at = 0
        while at < len(group):
            requests: list[RowsRequest] = []
            for waiting in group[at:]:
                if not isinstance(waiting.change, RowsChange):
                    break
                requests.append(waiting.change.request)
            run = group[at : at + max(len(requests), 1)]
            at += len(run)
            try:
                if not requests:
                    run[0].result = run[0].change(self._target)
                    continue
                for waiting, outcome in zip(run, self._target.intake.take_all(requests), strict=True):
                    if not isinstance(outcome, Exception):
                        waiting.result = outcome
                        continue
                    waiting.error = outcome
                    if not isinstance(outcome, SlackwaterError):
                        _report.error("a change failed", exc_info=outcome)
            except SlackwaterError as error:
                _refuse(run, error)
            except Exception as error:
                _report.exception("a change failed")
                _refuse(run, error)

    def save(self) -> Position:
        """Write the intake's memory down; on the thread, or when it is idle."""
        self._target.intake.save()
        self._saved = self._target.log.end
        return self._saved

    def _save(self) -> None:
        """Save the intake's memory where there is room: without it, opening takes longer and nothing else."""
        try:
            self.save()
        except (LogError, OSError) as error:
            _report.warning("%s", error)
            self._saved = self._target.log.end

    def _fail(self, group: list[_Waiting], error: Exception) -> None:
        """The append failed: no change of the group is done, and the intake's memory of them is dropped."""
        self._note(f"the log could not be written: {error}")
        self._tick_failed = True
        for waiting in group:
            # Also a change that was refused: what refused it, such as a key taken by the one before, was not kept.
            waiting.error = _told(error)
        if isinstance(error, _FATAL):
            self.failure = error
            return
        self._outdated = True
        if not self._reopen():
            return
        try:
            self._read_ticks()
        except (SlackwaterError, OSError) as reading:
            _report.error("the ticks of the log cannot be read back: %s", reading)

    def _reopen(self) -> bool:
        """Read the tables and the intake's memory anew; False if that failed."""
        try:
            self._target = self._open()
        except (SlackwaterError, OSError) as error:
            self._note(f"the log cannot be read back: {error}")
            return False
        self._outdated = False
        return True

    def _note(self, trouble: str) -> None:
        if trouble != self.trouble:
            _report.error("%s", trouble)
        self.trouble, self.failed_at = trouble, time.monotonic()

    def _refusal(self) -> LogError:
        return LogError(f"the server stops, as {self.trouble}; nothing of this was kept: send it again in a moment")

    def _read_ticks(self) -> None:
        """Bring the clock to the last tick in the log: what an append kept that failed is not appended again."""
        end = self._log.end
        if end <= self._clock_end:
            return
        for entry in self._log.read(max(self._clock_end, self._log.start), end):
            if isinstance(entry.record, TimePassed):
                self._log_clock = self._log_clock.after(entry.record.time)
        self._clock_end = end


def _refuse(run: Sequence[_Waiting], error: Exception) -> None:
    for waiting in run:
        waiting.error = error


def _told(error: Exception) -> SlackwaterError:
    """The error as the sender of a change is told it."""
    if isinstance(error, OutcomeUnknown):
        return OutcomeUnknown(
            f"whether this was kept is unknown: {error}. Send it again with the same numbers: what was kept counts as "
            f"a repeat"
        )
    return error if isinstance(error, SlackwaterError) else LogError(f"the log could not be written: {error}")


def _settle(waiting: _Waiting) -> None:
    if waiting.future.cancelled():
        return
    if waiting.error is not None:
        waiting.future.set_exception(waiting.error)
        # The caller may have gone: an exception that is never retrieved is no fault of the program.
        waiting.future.exception()
    else:
        waiting.future.set_result(waiting.result)
