"""Pulling service: due items are fetched, and their values go into the log."""

import asyncio
import hashlib
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pyarrow as pa

from slackwater.aggregator.base import RETRY
from slackwater.aggregator.configuration import PullPlan
from slackwater.aggregator.pull.forecast_worker import ForecastWorker
from slackwater.aggregator.pull.pull_state import PulledState
from slackwater.aggregator.upstream.connection import Here
from slackwater.client.live.connection import microseconds
from slackwater.core.arrival import Arrival
from slackwater.core.arrow import EVENT_TIME, INSTANT, SEQUENCE
from slackwater.core.backoff import Backoff
from slackwater.core.durable_file import replace_file, sealed, unsealed
from slackwater.core.errors import SlackwaterError
from slackwater.core.types import Position
from slackwater.planning.pulling.base import Scheduler
from slackwater.planning.pulling.uncertainty import Uncertainty
from slackwater.server.group_commit import Target
from slackwater.server.upstreams import Pulling
from slackwater.sources.item_requests import Brought, Got, ItemFetcher, PullFailure, Same
from slackwater.sources.poll_schedule import PollOptions

_report = logging.getLogger("slackwater.aggregator")
_LONG = 3600.0
_LONGEST_SLEEP = 5.0
_LONGEST_PAUSE = 60.0
_SAVE_EVERY = 60 * 1_000_000
_MAGIC = b"SWPULL01"

Making = Callable[[Sequence[float], int], Scheduler]
"""Makes a scheduler: for the costs of the items, and the ticks after which an item is asked for in any case."""


def make_scheduler(costs: Sequence[float], longest: int) -> Scheduler:
    """The scheduler that is used unless another is given."""
    return Uncertainty(len(costs), costs=costs, longest=longest)


class Puller:
    """Pulls the items of one table, from all the sources that they live at."""

    def __init__(self, here: Here, plans: Sequence[PullPlan], make: Making, folder: Path) -> None:
        self._file = folder / f"{hashlib.blake2b(plans[0].schema.name.encode(), digest_size=8).hexdigest()}.pulls"
        self._saved = 0
        self.schema = plans[0].schema
        self._column = plans[0].part.value
        keys = [key for plan in plans for key in plan.part.keys]
        costs = [plan.part.costs.get(key, 1.0) for plan in plans for key in plan.part.keys]
        scheduler = make(costs, plans[0].part.longest)
        self.state = PulledState(self.schema.name, keys, scheduler, round(plans[0].part.tick * 1_000_000))
        self._until = max((plan.learnt.until for plan in plans if plan.learnt is not None), default=0)
        self._priors = {key: prior for plan in plans if plan.learnt for key, prior in plan.learnt.priors.items()}
        if self._priors:
            self.state.begin(self._priors)
        self.forecasts = ForecastWorker(self.state, self._now)
        self.fetchers = {plan.part.name: self._fetcher(here, plan) for plan in plans}
        self.news = asyncio.Event()
        self._sources = {key: plan.part.name for plan in plans for key in plan.part.keys}
        self._here = here
        self._last_sequence = -1
        self._lost: tuple[str, ...] = ()
        self._under_way: set[asyncio.Task[None]] = set()
        # Ticks go on from where an earlier life has left off, and are counted from here.
        self._began = microseconds()

    def recall(self) -> None:
        """Restore the learnt state of an earlier run, once its queries are registered."""
        try:
            body = unsealed(_MAGIC, self._file.read_bytes())
            saved = self._file.stat().st_mtime_ns // 1000
        except OSError:
            return
        if body is None or not self.state.recall(body, self._now()):
            _report.info("pulls of %s: items are others now, and are learnt anew", self.state.name)
        elif self._until > saved:
            _report.info("pulls of %s: the statistics are newer than what was learnt here before", self.state.name)
            self.state.begin(self._priors)

    def save(self) -> None:
        """Save the learnt state."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._file, sealed(_MAGIC, self.state.saved(self._now())))
        except (SlackwaterError, OSError) as error:
            # It can be learnt anew: a full disk must not end the service.
            _report.warning("%s", error)
        self._saved = self._now()

    def _now(self) -> int:
        return microseconds() - self._began

    def _fetcher(self, here: Here, plan: PullPlan) -> ItemFetcher:
        part = plan.part
        options = PollOptions(
            every=part.tick,
            timeout=part.timeout,
            backoff=Backoff(first=part.tick, most=max(part.tick, _LONGEST_PAUSE)),
            rate=part.rate,
            burst=max(1.0, part.rate),
            rows_at=tuple(part.rows_at),
        )
        return ItemFetcher(plan.endpoint, here.clock, random.Random(), options)

    async def run(self) -> None:
        """Pull until cancelled."""

        def define(target: Target) -> Position:
            return target.intake.define(self.schema)

        await self._here.reached(await self._here.change(define), _LONG)
        async with AsyncExitStack() as stack:
            clients = {name: await stack.enter_async_context(one.client()) for name, one in self.fetchers.items()}
            try:
                while True:
                    self.news.clear()
                    self.forecasts.price()
                    self._begin(clients, self.state.due(self._now()))
                    if self._now() - self._saved > _SAVE_EVERY:
                        self.save()
                    await self._sleep()
            finally:
                self.save()
                await self.forecasts.stop()
                for task in self._under_way:
                    task.cancel()
                await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _sleep(self) -> None:
        """Until something can be due, or a query or an answer has come."""
        now = self._now()
        seconds = min(max((self.state.wake(now) - now) / 1_000_000, 0.001), _LONGEST_SLEEP)
        try:
            async with asyncio.timeout(seconds):
                await self.news.wait()
        except TimeoutError:
            pass

    def _begin(self, clients: dict[str, httpx.AsyncClient], keys: Sequence[str]) -> None:
        """Ask all sources at once: a slow one does not hold up the others."""
        wanted: dict[str, list[str]] = {}
        for key in keys:
            wanted.setdefault(self._sources[key], []).append(key)
        for source, some in wanted.items():
            for group in self.fetchers[source].groups(some):
                task = asyncio.get_running_loop().create_task(self._pull(source, clients[source], group))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)

    async def _pull(self, source: str, client: httpx.AsyncClient, keys: Sequence[str]) -> None:
        brought = await self.fetchers[source].fetch(client, keys)
        await self._write(source, [one for one in brought if isinstance(one, Got)])
        now = self._now()
        for one in brought:
            self._note(one, now)
        self._complain()
        self._here.review()
        self.news.set()

    def pulling(self, number: int) -> Pulling | None:
        """Pull statistics of a query, if it is one of this table."""
        state = self.state
        if number not in state.standing:
            return None
        rate = state.rate(number, self._now())
        pulls = state.pulls.by_query.get(number, 0)
        return Pulling(pulls, rate, self.forecasts.predicted(number), state.delivered(number))

    def doubt(self, key: str) -> str | None:
        """Why an item cannot be relied on, or, without one, why any of them cannot."""
        if key:
            return self.state.doubt(key)
        lost = self.state.lost
        return None if not lost else f"{len(lost)} of {len(self.state.keys)} items: {self.state.doubt(lost[0])}"

    def _note(self, one: Brought, now: int) -> None:
        match one:
            case Got(key, value):
                self.state.got(now, key, value)
            case Same(key):
                self.state.same(now, key)
            case PullFailure(key, why, again):
                self.state.missed(now, key, why, again)

    async def _write(self, source: str, values: Sequence[Got]) -> None:
        """Write values to the log; those that cannot be written now are written later."""
        if not values:
            return
        arrival = self._arrival(source, values)
        failures = 0
        while True:
            try:
                receipt = await self._here.change(lambda target: target.intake.take([arrival]), len(values))
                break
            except SlackwaterError as error:
                _report.warning("source %s: %s", source, error)
                failures += 1
                await asyncio.sleep(RETRY.delay(failures, random.random))
        await self._here.reached(receipt.position, _LONG)

    def _arrival(self, source: str, values: Sequence[Got]) -> Arrival:
        now = self._here.clock.now()
        first = max(int(now), self._last_sequence + 1)
        self._last_sequence = first + len(values) - 1
        columns = {
            self.schema.key[0]: pa.array([one.key for one in values]),
            self._column: pa.array([one.value for one in values], pa.float64()),
            SEQUENCE: pa.array(range(first, first + len(values)), pa.int64()),
            EVENT_TIME: pa.array([int(now)] * len(values), pa.int64()).cast(INSTANT),
        }
        batch = pa.RecordBatch.from_pydict(columns)
        return Arrival(self.schema.name, source, batch, source, None, None, ())

    def _complain(self) -> None:
        lost = self.state.lost
        if lost != self._lost:
            for key in sorted({*lost} - {*self._lost}):
                _report.warning("lost: %s", self.state.doubt(key))
            for key in sorted({*self._lost} - {*lost}):
                _report.info("%s of %s can be had again", key, self.state.name)
            self._lost = lost
