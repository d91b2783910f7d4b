"""Forecast worker: trial runs in a background thread, one at a time for each table."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from slackwater.aggregator.pull.forecast import explain_forecast, predicted, priced, refused
from slackwater.aggregator.pull.pull_state import PulledState, Trial
from slackwater.core.query import Aggregate
from slackwater.core.types import Key
from slackwater.server.group_commit import Busy
from slackwater.sql import ExplainTree

_report = logging.getLogger("slackwater.aggregator")
T = TypeVar("T")

FRESH = 60 * 1_000_000
"""Microseconds for which a forecast of the registered queries is fresh, unless they change."""
INCOMPLETE = 2 * 1_000_000
"""Microseconds for which an incomplete forecast is fresh."""
PATIENCE = 1.0
"""Seconds that a list request waits for new figures; after that the list comes with the old ones."""
MOST_WAITING = 16


class ForecastWorker:
    """Forecasts of the pulls of one table; `now` is the clock of its state."""

    def __init__(self, state: PulledState, now: Callable[[], int]) -> None:
        self._state = state
        self._now = now
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._predicted: dict[int, float] = {}
        self._made = -FRESH
        self._of: frozenset[int] = frozenset()
        self._refreshing: asyncio.Task[None] | None = None
        self._pricing: asyncio.Task[None] | None = None

    async def explained(self, query: Aggregate, keys: Iterable[Key]) -> ExplainTree:
        """The pulls that a query would need, here and at neighbouring bounds and fidelities."""
        if self._waiting >= MOST_WAITING:
            raise Busy(f"{self._waiting} explanations are being made already; come again in a moment")
        trial = self._state.trial(query, keys)
        if trial is None:
            return refused("the query reads no item")
        self._waiting += 1
        try:
            return await self._in_thread(explain_forecast, trial)
        finally:
            self._waiting -= 1

    async def refresh(self) -> None:
        """Forecast the registered queries, all together, unless the last forecast is fresh."""
        standing = self._state.standing
        good_for = FRESH if standing == self._predicted.keys() else INCOMPLETE
        if standing == self._of and self._now() - self._made < good_for:
            return
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._task(self._refresh(standing))
        await asyncio.wait({self._refreshing}, timeout=PATIENCE)

    def predicted(self, number: int) -> float | None:
        """Pulls an hour of a query, by the last forecast."""
        return self._predicted.get(number)

    def price(self) -> None:
        """Begin to find first prices for queries that have none."""
        if self._state.unpriced and (self._pricing is None or self._pricing.done()):
            self._pricing = self._task(self._price())

    async def stop(self) -> None:
        """Cancel the running tasks."""
        for task in (self._refreshing, self._pricing):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task in the background: its failure is logged, and ends nothing."""

        def over(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                _report.error("pulls of %s cannot be foretold: %s", self._state.name, task.exception())

        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(over)
        return task

    async def _refresh(self, standing: frozenset[int]) -> None:
        trial = self._state.trial_of_all()
        self._predicted = {} if trial is None else await self._in_thread(predicted, trial)
        self._of, self._made = standing, self._now()

    async def _price(self) -> None:
        while self._state.unpriced:
            number = self._state.unpriced.pop()
            trial = self._state.trial_of(number)
            by = None if trial is None else await self._in_thread(priced, trial)
            if by is not None:
                self._state.begin_price(number, by)

    async def _in_thread(self, work: Callable[[Trial], T], trial: Trial) -> T:
        async with self._lock:
            return await asyncio.to_thread(work, trial)
