"""The clock of sessions: a tick comes when one is due, also one that an event makes due earlier."""

import asyncio
from typing import Any, cast

import pytest

from slackwater.server import session_host
from slackwater.server.session_host import Sessions
from slackwater.sessions.events import Blocked, Event, Tick
from slackwater.sessions.state import ServerState


class Clockwork:
    """A state with one timer, which an event sets."""

    def __init__(self) -> None:
        self.due: int | None = None
        self.ticks: list[int] = []

    def next_tick(self) -> int | None:
        return self.due

    def handle(self, event: Event, now: int) -> list[Any]:
        if isinstance(event, Tick):
            assert self.due is not None
            self.ticks.append(now - self.due)
            self.due = None
        else:
            self.due = now + 2_000
        return []


async def test_an_event_that_makes_a_tick_due_earlier_wakes_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_host, "LONGEST_WAIT", 3600.0)
    state = Clockwork()
    sessions = Sessions(cast(ServerState, state), lambda instruction: None)
    running = asyncio.create_task(sessions.run(Tick()))
    try:
        for count in (1, 2):
            await asyncio.sleep(0.02)
            sessions.handle(Blocked(1))
            async with asyncio.timeout(30):
                while len(state.ticks) < count:
                    await asyncio.sleep(0.001)
        assert all(late >= 0 for late in state.ticks)
    finally:
        running.cancel()
    # Nothing is scheduled after the end.
    await asyncio.gather(running, return_exceptions=True)
    sessions.handle(Blocked(1))
    assert state.due is not None
