"""Statements of bounded cost over small tables, answered by a database in the server's process, off the event loop."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from slackwater.core.types import Position
from slackwater.evaluator import Evaluator
from slackwater.server.group_commit import Busy
from slackwater.server.oneshot.answers import arrow_body, json_body
from slackwater.sessions.limits import ServerLimits


class SmallTableEvaluator:
    """One thread and one database; statements wait in line for it."""

    def __init__(self, limits: ServerLimits) -> None:
        self.evaluator = Evaluator(limits)
        self._most_waiting = limits.queries_waiting
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="slackwater-query")
        self._waiting = 0
        self.answered = 0

    async def answer(self, statement: str, table: str, rows: pa.RecordBatch, as_of: Position, arrow: bool) -> bytes:
        """The answer over these rows, as a body."""
        if self._waiting > self._most_waiting:
            raise Busy(f"{self._waiting} questions wait already; come again in a moment")

        def work() -> bytes:
            return (arrow_body if arrow else json_body)(self.evaluator.run(statement, {table: rows}), as_of)

        self._waiting += 1
        try:
            body = await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= 1
        self.answered += 1
        return body

    def close(self) -> None:
        """Take no more statements."""
        self._thread.shutdown(cancel_futures=True)
