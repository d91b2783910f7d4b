"""Pool of worker processes: questions in turns, tables published as of one position, workers replaced when killed."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from slackwater.core.errors import SlackwaterError
from slackwater.core.region import EVERYTHING, Region
from slackwater.core.region_codec import plain_region
from slackwater.core.types import Position
from slackwater.server.group_commit import Busy
from slackwater.server.oneshot.base import AskQuestion, QuestionLimits, TableRead
from slackwater.server.oneshot.process import WorkerGone, WorkerProcess
from slackwater.server.oneshot.row_stream import RowStream, RowStreams
from slackwater.server.oneshot.turns import Turns
from slackwater.sessions.engine import NodeEngine
from slackwater.sessions.limits import ServerLimits

_report = logging.getLogger("slackwater.server")

Result = TypeVar("Result")

FRESH_SECONDS = 0.25
"""A question that runs for longer gives its place to others, and runs on beside them."""
SLOW_SECONDS = 2.0
"""One that runs for longer than this lets others have the processor first; its process is not used again."""
_GOING_DOWN = "the server is going down; come again"
_NO_PROCESS = "no process could be started for the query: {}; come again in a moment"
_TRIES = 3
"""Workers that may be found dead, one after the other, before a question is given up."""


@dataclass(frozen=True, slots=True)
class PoolQuestion:
    """A question for the pool: the statement in DuckDB's words and the tables it reads."""

    statement: str
    tables: tuple[str, ...]
    arrow: bool


class WorkerPool:
    """Workers of one server, started when the first question comes."""

    def __init__(self, engine: NodeEngine, limits: ServerLimits) -> None:
        self._engine = engine
        self._limits = QuestionLimits(limits.query_seconds, limits.query_memory, limits.query_rows, limits.query_bytes)
        self._kept = limits.queries
        """Workers that stay when there is nothing to do; as many more are started when questions run long."""
        self._most_waiting = limits.queries_waiting
        self._turns: Turns[asyncio.Future[None]] = Turns(limits.queries, 2 * limits.queries)
        self._streams = RowStreams(engine.host)
        engine.host.watchers.append(self._streams.note)
        self._publishing = asyncio.Lock()
        self._idle: list[WorkerProcess] = []
        self._workers: set[WorkerProcess] = set()
        self._starting: set[WorkerProcess] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._numbers = 0
        self._ended = False
        self.counts: Counter[str] = Counter()
        """Questions answered, refused and failed; workers started and killed."""
        self.seconds = 0.0
        """Processor time of questions."""

    @property
    def waiting(self) -> int:
        """Questions that wait."""
        return self._turns.waiting

    @property
    def running(self) -> int:
        """Questions that run."""
        return self._turns.running

    @property
    def workers(self) -> int:
        """Processes."""
        return len(self._workers)

    @property
    def shared_bytes(self) -> int:
        """Memory of the tables that are shared with workers."""
        return self._streams.bytes

    async def answer(
        self, caller: str, question: PoolQuestion, rights: Callable[[str], Region]
    ) -> tuple[bytes, Position]:
        """The answer as a body, and its position."""
        try:
            return await self._answered(caller, question, rights)
        except asyncio.CancelledError:
            self.counts["cancelled"] += 1
            raise

    async def _answered(
        self, caller: str, question: PoolQuestion, rights: Callable[[str], Region]
    ) -> tuple[bytes, Position]:
        ticket = await self._turn(caller)
        timers: list[asyncio.TimerHandle] = []

        def leave() -> None:
            for timer in timers:
                timer.cancel()
            self._turns.leave(caller, ticket)
            self._go_on()

        try:
            for _ in range(_TRIES):
                worker = await self._worker()
                timers += (
                    asyncio.get_running_loop().call_later(FRESH_SECONDS, self._grow_long, ticket),
                    asyncio.get_running_loop().call_later(SLOW_SECONDS, worker.slow_down),
                )
                try:
                    found = await self._asked(worker, question, rights)
                except asyncio.CancelledError:
                    # The turn is over when the worker has stopped, not when the client is gone.
                    self._task(self._give_up(worker, leave))
                    leave = _nothing
                    raise
                except WorkerGone as error:
                    _report.warning("%s; another one is asked", error)
                else:
                    return found
            raise Busy("the processes that answer one-shot queries end as soon as they begin; come again later")
        finally:
            leave()

    async def _turn(self, caller: str) -> asyncio.Future[None]:
        if self._ended:
            raise Busy(_GOING_DOWN)
        if self._turns.waiting >= self._most_waiting:
            self.counts["refused"] += 1
            raise Busy(f"{self._turns.waiting} questions wait already; come again in a moment")
        ticket: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.enter(caller, ticket)
        self._go_on()
        try:
            await ticket
        except BaseException:
            self._turns.leave(caller, ticket)
            self._go_on()
            raise
        return ticket

    def _go_on(self) -> None:
        """Give turns to those that wait, as far as there is room."""
        while not self._ended and (ticket := self._turns.next()) is not None:
            if not ticket.done():
                ticket.set_result(None)

    def _grow_long(self, ticket: asyncio.Future[None]) -> None:
        """A question runs long: others come first, and find workers ready, also after the next such one."""
        self._turns.grow_long(ticket)
        self._keep_ready(2)
        self._go_on()

    async def _worker(self) -> WorkerProcess:
        """A worker that is idle, or a new one."""
        if self._ended:
            raise Busy(_GOING_DOWN)
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            self._remove(worker)
        first = not self._workers
        start = self._begin()
        if first:
            self._keep_ready(self._kept)
        try:
            return await asyncio.shield(start)
        except asyncio.CancelledError:
            # It is of use to the next question.
            self._task(self._keep(start))
            raise

    def _keep_ready(self, count: int) -> None:
        """Start workers in the background until so many are idle or start, as far as there is room."""
        missing = count - len(self._idle) - len(self._starting)
        for _ in range(min(missing, 2 * self._kept - len(self._workers))):
            try:
                self._task(self._keep(self._begin()))
            except Busy as error:
                _report.warning("%s", error)

    def _begin(self) -> "asyncio.Task[WorkerProcess]":
        """Begin to start a worker."""
        try:
            worker = WorkerProcess(self._limits)
        except OSError as error:
            raise Busy(_NO_PROCESS.format(error)) from None
        self._workers.add(worker)
        self._starting.add(worker)
        return self._task(self._started(worker))

    async def _started(self, worker: WorkerProcess) -> WorkerProcess:
        try:
            await worker.start()
        except (OSError, EOFError, TimeoutError) as error:
            self._remove(worker)
            raise Busy(_NO_PROCESS.format(error)) from None
        finally:
            self._starting.discard(worker)
        self.counts["started"] += 1
        return worker

    async def _keep(self, start: "asyncio.Task[WorkerProcess]") -> None:
        """Put a worker that nobody waits for with the idle ones."""
        try:
            self._put_back(await start)
        except Busy as error:
            _report.warning("%s", error)

    async def _asked(
        self, worker: WorkerProcess, question: PoolQuestion, rights: Callable[[str], Region]
    ) -> tuple[bytes, Position]:
        try:
            asked, streams, as_of = await self._published(question, rights)
            body, answered = await worker.ask(asked, streams, self._streams)
        except asyncio.CancelledError:
            raise
        except SlackwaterError:
            self.counts["failed"] += 1
            self._put_back(worker)
            if self._ended:
                raise Busy(_GOING_DOWN) from None
            raise
        except BaseException:
            worker.kill()
            self._put_back(worker)
            raise
        self._put_back(worker)
        self.counts["answered"] += 1
        self.seconds += answered.seconds
        return body, as_of

    async def _published(
        self, question: PoolQuestion, rights: Callable[[str], Region]
    ) -> tuple[AskQuestion, Mapping[str, RowStream], Position]:
        """Publish what the workers lack of the tables; the streams end at one position."""
        async with self._publishing:
            while self._streams.next_slice(question.tables):
                await asyncio.sleep(0)
            # From here on without waiting: the tables are all of one position.
            self._engine.check_question(question.tables)
            streams = self._streams.complete(question.tables)
            position = self._engine.position
            regions = {name: rights(name) for name in question.tables}
        tables = [
            TableRead(name, stream.end, None if regions[name] == EVERYTHING else plain_region(regions[name]))
            for name, stream in streams.items()
        ]
        self._numbers += 1
        return AskQuestion(self._numbers, question.statement, tables, position, question.arrow), streams, position

    async def _give_up(self, worker: WorkerProcess, then: Callable[[], None]) -> None:
        """End a question that nobody waits for, and its process if it does not stop."""
        try:
            await worker.give_up()
        finally:
            self._put_back(worker)
            then()

    def _put_back(self, worker: WorkerProcess) -> None:
        """Keep a worker for the next question, unless it is dead or there are enough."""
        if worker.alive and not worker.slow and not self._ended and len(self._idle) < self._kept:
            self._idle.append(worker)
            return
        self._remove(worker)
        if not self._ended and len(self._workers) < self._kept:
            self._keep_ready(len(self._idle) + len(self._starting) + self._kept - len(self._workers))

    def _remove(self, worker: WorkerProcess) -> None:
        if not worker.alive:
            self.counts["killed"] += 1
        worker.kill()
        self._workers.discard(worker)
        self._task(worker.reap())

    def _task(self, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def over(_: "asyncio.Task[Result]") -> None:
            self._tasks.discard(task)
            if not task.cancelled():
                # Whoever waits for it is told; here it is only marked as looked at.
                task.exception()

        task.add_done_callback(over)
        return task

    def end(self) -> None:
        """Kill all workers; questions that run or wait fail."""
        self._ended = True
        for ticket in self._turns.dismiss():
            if not ticket.done():
                ticket.set_exception(Busy(_GOING_DOWN))
        for worker in self._workers:
            worker.kill()

    async def close(self) -> None:
        """End, and wait until no process is left."""
        self.end()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in list(self._workers):
            await worker.reap()
        self._workers.clear()
        self._streams.close()


def _nothing() -> None:
    """What is left to do when another task does it."""
