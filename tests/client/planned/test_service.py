"""Planned sums in the client: who is asked for what, what a program sees, and what happens when something ends."""

import asyncio
import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import msgspec
import pytest

from slackwater.client.address import addresses
from slackwater.client.failures import Refused
from slackwater.client.live.connection import ProgramEvent
from slackwater.client.live.events import AnswerChanged, Certainty, Event, Lost, Shown
from slackwater.client.live.subscription import Subscription
from slackwater.client.planned import service as planned
from slackwater.client.planned.service import Network
from slackwater.dissemination.messages import WireRow

NOTHING = Shown(None, None, 0.0, 1.0, None, False, "it is awaited")
SUM = "SUBSCRIBE SELECT SUM(price) …"


class FakeSession:
    """A session of which a test says what is shown."""

    made: ClassVar[list["FakeSession"]] = []

    def __init__(self, where: Sequence[Any], *_: Any, lane: str | None, elsewhere: Any, heard: Any) -> None:
        self.where = str(where[0])
        self.lane = lane
        self.elsewhere = elsewhere
        self.heard = heard
        self.asked: dict[int, Subscription] = {}
        self.known: dict[int, Shown] = {}
        self.ended: list[int] = []
        self.closed = False
        self.events: list[Event] = []
        self.made.append(self)

    def subscribe(self, sql: str) -> Subscription:
        made = self.asked[len(self.asked) + 1] = Subscription(self, len(self.asked) + 1, sql)
        return made

    def shown(self, ref: int) -> Shown:
        return self.known.get(ref, NOTHING)

    def watch(self, ref: int) -> None:
        pass

    def unsubscribe(self, ref: int) -> None:
        self.ended.append(ref)

    async def close(self) -> None:
        self.closed = True

    def dispatch(self, event: Event) -> None:
        self.events.append(event)
        # A session that is lost says so of all that it has.
        self.heard([Certainty(ref, False, "it is lost") for ref in self.asked])

    def say(self, ref: int, shown: Shown) -> None:
        self.known[ref] = shown
        told: list[ProgramEvent] = [AnswerChanged(ref, shown.as_of or 0, shown.value)]
        self.heard(told)

    def put(self, ref: int, value: float, as_of: int) -> None:
        self.say(ref, Shown(value, None, 1.0, 1.0, as_of, True, ""))

    def plan(self, epoch: int, *parts: tuple[str, str, str]) -> None:
        """Aggregator, addresses and text of each part."""
        rows: dict[WireRow, WireRow] = {(place,): (place, *part, 1.0, 0.0, None) for place, part in enumerate(parts)}
        self.say(1, Shown(None, rows, 5.0, 1.0, 10 + epoch, True, "", 7, epoch))


class FakeRest:
    def __init__(self) -> None:
        self.posted: list[tuple[str, dict[str, Any]]] = []

    async def request(self, method: str, path: str, *, content: bytes, **_: Any) -> bytes:
        self.posted.append((path, msgspec.json.decode(content)))
        return b"{}"


class Placed:
    """A network with one sum that was adopted."""

    def __init__(self) -> None:
        self.back: list[tuple[Subscription, str]] = []
        self.rest = FakeRest()
        carriers = cast(Any, (None, None))
        self.network = Network(
            addresses("http://node:1"), carriers, cast(Any, self.rest), lambda *given: self.back.append(given)
        )
        self.sum = Subscription(FakeSession(["old"], lane=None, elsewhere=None, heard=lambda told: None), 1, SUM)
        self.network.adopt(self.sum)

    def session(self, where: str, lane: str | None = None) -> FakeSession:
        return [one for one in FakeSession.made if where in one.where and one.lane == lane][-1]

    @property
    def plans(self) -> FakeSession:
        return self.session("node:1", "network")

    def begin(self) -> None:
        self.plans.plan(0, ("near", "http://near:2", "part 1"), ("", "", "part 2"))
        self.session("near").put(1, 1.5, 3)
        self.session("node:1", "node").put(1, 2.0, 99)


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Placed]:
    monkeypatch.setattr(FakeSession, "made", [])
    monkeypatch.setattr(planned, "LiveSession", FakeSession)
    return Placed


async def test_parts_are_asked_for_where_the_plan_says_and_added_up(placed: Callable[[], Placed]) -> None:
    made = placed()
    assert made.sum.why == "it is awaited"
    waiting = asyncio.create_task(made.sum.ready(5))
    await asyncio.sleep(0)
    made.begin()
    await waiting
    assert [one.sql for one in made.session("near").asked.values()] == ["part 1"]
    assert (made.sum.value, made.sum.bound, made.sum.certain) == (3.5, 5.0, True)
    assert made.sum.shown.positions == (("near", 3), ("", 99))
    change = await anext(made.sum)
    assert (change.value, change.as_of) == (3.5, 99)
    made.session("near").put(1, 2.5, 4)
    change = await anext(made.sum)
    assert (change.value, change.as_of) == (4.5, 4)
    await made.network.close()
    assert all(one.closed for one in FakeSession.made[1:])
    assert made.sum.why == "it was closed"


async def test_a_session_ends_when_no_part_needs_it(placed: Callable[[], Placed]) -> None:
    made = placed()
    made.begin()
    made.plans.plan(1, ("far", "http://far:3", "part 1"), ("", "", "part 2"))
    assert made.sum.value == 3.5, "the plan before serves until the next is complete"
    made.session("far").put(1, 10.0, 1)
    assert (made.sum.value, made.sum.shown.epoch) == (12.0, 1)
    await asyncio.sleep(0)
    assert made.session("near").closed
    assert not made.session("node:1", "node").closed
    await made.network.close()


async def test_a_refused_part_is_asked_for_again(placed: Callable[[], Placed], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "AGAIN_SECONDS", 0.01)
    made = placed()
    made.begin()
    near = made.session("near")
    near.asked[1]._end(Refused("it holds less now"))
    near.say(1, replace(near.known[1], certain=False, why="it holds less now"))
    assert (made.sum.certain, made.sum.value) == (False, 3.5)
    await asyncio.sleep(0.1)
    assert [one.sql for one in near.asked.values()] == ["part 1", "part 1"]
    near.put(2, 1.0, 9)
    assert (made.sum.certain, made.sum.value) == (True, 3.0)
    await made.network.close()


async def test_what_is_not_planned_any_more_is_given_back(placed: Callable[[], Placed]) -> None:
    made = placed()
    made.begin()
    made.plans.elsewhere(made.plans.asked[1], "node")
    assert made.back == [(made.sum, "node")]
    await made.network.close()


async def test_a_plan_that_is_refused_ends_the_subscription(placed: Callable[[], Placed]) -> None:
    made = placed()
    made.plans.asked[1]._end(Refused("there is no table quotes"))
    made.plans.say(1, NOTHING)
    with pytest.raises(Refused, match="no table"):
        await made.sum.ready(1)
    await made.network.close()


async def test_parts_and_sessions_end_with_a_plan_that_is_refused(placed: Callable[[], Placed]) -> None:
    made = placed()
    made.begin()
    near, here = made.session("near"), made.session("node:1", "node")
    made.plans.asked[1]._end(Refused("the table was dropped"))
    made.plans.say(1, NOTHING)
    assert (near.ended, here.ended) == ([1], [1])
    await asyncio.sleep(0)
    assert near.closed
    assert here.closed
    assert (made.sum.value, made.sum.certain) == (3.5, False), "what was shown last"
    assert "dropped" in made.sum.why
    await made.network.close()


@pytest.mark.parametrize("nodes", ["nonsense", None])
async def test_a_plan_that_cannot_be_read_is_the_fault_of_the_node(placed: Callable[[], Placed], nodes: Any) -> None:
    made = placed()
    made.plans.plan(0, ("near", nodes, "part 1"))
    [lost] = made.plans.events
    assert isinstance(lost, Lost)
    assert made.sum.why == lost.why
    assert "plan" in lost.why
    made.begin()
    assert (made.sum.value, made.sum.certain) == (3.5, True)
    # The plan before serves, and whoever else says something is not concerned.
    made.plans.plan(1, ("near", nodes, "part 1"))
    assert len(made.plans.events) == 2
    made.session("near").put(1, 2.5, 4)
    assert (made.sum.value, made.sum.certain) == (4.5, True)
    assert len(made.plans.events) == 2, "the session is lost once for each such plan"
    await made.network.close()


async def test_a_sum_that_is_let_go_of_lets_its_parts_go(placed: Callable[[], Placed]) -> None:
    made = placed()
    made.begin()
    near = made.session("near")
    del made.sum
    gc.collect()
    await asyncio.sleep(0.01)
    assert near.ended == [1]
    assert near.closed
    await made.network.close()


async def test_the_node_is_told_how_a_plan_does(placed: Callable[[], Placed], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10**9, 1_000_000))
    monkeypatch.setattr(planned, "microseconds", lambda: next(clock))
    made = placed()
    made.begin()
    near = made.session("near")
    near.put(1, 9.0, 4)
    near.say(1, replace(near.known[1], certain=False, why="the lease ended"))
    near.put(1, 9.5, 6)
    [one] = made.network._sums.values()
    await one.report(cast(Any, made.rest))
    [(path, body)] = made.rest.posted
    assert path == "/v1/subscriptions/7/seen"
    assert body["messages"] == 3
    assert body["planning"] == 1 + 2 * 2
    assert 0 < body["uncertain"] < body["seconds"]
    await one.report(cast(Any, made.rest))
    assert made.rest.posted[1][1]["messages"] == 0
    await made.network.close()
