"""Polling service: a request-only source polled at a fixed period into admission and the log."""

import asyncio
import logging
import random
from collections.abc import Sequence
from contextlib import aclosing

from slackwater.aggregator.base import RETRY
from slackwater.aggregator.configuration import SourcePlan
from slackwater.aggregator.poll.poll_state import PolledState
from slackwater.aggregator.upstream.connection import Here
from slackwater.client.live.connection import microseconds
from slackwater.core.arrival import Arrival
from slackwater.core.backoff import Backoff
from slackwater.core.errors import SlackwaterError
from slackwater.core.types import Position
from slackwater.server.group_commit import Target
from slackwater.sources.http import HttpPoller
from slackwater.sources.poll_schedule import Failed, Fetched, PollOptions, Suspended

_report = logging.getLogger("slackwater.aggregator")
_LONG = 3600.0
_LONGEST_PAUSE = 30.0


class PolledSource:
    """One source."""

    def __init__(self, here: Here, plan: SourcePlan) -> None:
        part = plan.part
        self.state = PolledState(part.name, round(part.every * 1_000_000))
        self.schema = plan.schema
        self._here = here
        self._poller = HttpPoller(
            part.url,
            plan.schema.name,
            here.clock,
            random.Random(),
            PollOptions(
                every=part.every,
                timeout=part.timeout,
                backoff=Backoff(first=part.every, most=max(part.every, _LONGEST_PAUSE)),
                rate=max(10.0, 2 / part.every),
                rows_at=tuple(part.rows_at),
                only_changes=part.only_changes,
            ),
            schema=plan.schema,
            source=part.name,
            format=part.format,
            timezone=part.timezone,
        )
        self._complained = ""

    async def run(self) -> None:
        """Poll until cancelled."""

        def define(target: Target) -> Position:
            return target.intake.define(self.schema)

        await self._here.reached(await self._here.change(define), _LONG)
        async with aclosing(self._poller.outcomes()) as outcomes:
            async for outcome in outcomes:
                match outcome:
                    case Fetched(arrivals):
                        await self._take(arrivals)
                    case Failed(_, detail) | Suspended(_, detail):
                        self._failed(detail)
                    case _:
                        self._succeeded()
                self._here.review()

    async def _take(self, arrivals: Sequence[Arrival]) -> None:
        rows = sum(arrival.batch.num_rows + len(arrival.refused) for arrival in arrivals)
        failures = 0
        while True:
            try:
                receipt = await self._here.change(lambda target: target.intake.take(arrivals), max(rows, 1))
                break
            except SlackwaterError as error:
                # The poller leaves out what it has handed over once: it would not come again.
                self._failed(str(error))
                self._here.review()
                failures += 1
                await asyncio.sleep(RETRY.delay(failures, random.random))
        while not await self._here.reached(receipt.position, _LONG):
            pass
        self._succeeded()

    def _succeeded(self) -> None:
        self.state.succeeded(microseconds())
        self._complained = ""

    def _failed(self, why: str) -> None:
        self.state.failed(why)
        if why != self._complained:
            self._complained = why
            _report.warning("source %s: %s", self.state.name, why)
