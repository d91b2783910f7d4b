"""The planner beside a node, with as much of a node as it looks at."""

import asyncio
import itertools
import json
from collections import deque
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from slackwater.core.region_codec import plain_region
from slackwater.dissemination.messages import Counted, Report, Subscribe
from slackwater.kinds.cache.query import CacheQuery
from slackwater.log import TableDropped
from slackwater.planning.push_pull.region_map import RegionMap
from slackwater.server.planners import labels as labelling
from slackwater.server.planners.labels import LabellingRules, LabelPlanner
from slackwater.server.rest.caches import draw_cache, list_caches
from slackwater.sessions.query_registry import RegisteredQuery
from tests.support.cache_bench import CacheBench, between


def planner(desk: CacheBench, **rules: Any) -> LabelPlanner:
    node: Any = SimpleNamespace(engine=desk.engine, sessions=SimpleNamespace(state=desk.state), writable=True)
    return LabelPlanner(node, LabellingRules(**rules))


async def test_a_cache_whose_labels_cannot_be_made_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk, tries = CacheBench(), 0
    assert desk.state is not None

    def broken(*_: object) -> None:
        nonlocal tries
        tries += 1
        raise TypeError("nobody thought of this")

    monkeypatch.setattr(labelling, "label", broken)
    monkeypatch.setattr(labelling, "LOOK_SECONDS", 0.001)
    one = planner(desk, every=5)
    desk.say(Report((Counted("items", plain_region(between(1, 2)), 9),)))
    task = asyncio.create_task(one.run())
    try:
        while not tries:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        assert not task.done()
        assert tries == 1
        assert desk.number not in desk.state.questions.asked
    finally:
        task.cancel()


async def test_labels_that_are_the_best_still_are_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, better = CacheBench(), False
    assert desk.state is not None
    monkeypatch.setattr(labelling, "worthwhile", lambda *_: better)
    one = planner(desk, every=5)
    monkeypatch.setattr(one, "_append", AsyncMock())
    ((kept, text),) = desk.state.questions.caches()

    async def questions_until_it_is_looked_at() -> int:
        for question in itertools.count(1):
            desk.say(Report((Counted("items", plain_region(between(1, 2)), 1),)))
            await one._look(kept, text)
            assert desk.state is not None
            if not desk.state.questions.asked[desk.number].since:
                return question
        raise AssertionError("for ever")

    assert [await questions_until_it_is_looked_at() for _ in range(6)] == [5, 10, 20, 40, 80, 80]
    better = True
    assert [await questions_until_it_is_looked_at() for _ in range(2)] == [80, 5]


async def test_caches_are_shown_one_at_a_time_and_without_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be thousands of them, and whoever follows the log waits meanwhile."""
    desk = CacheBench()
    for number in range(5):
        desk.say(Subscribe(10 + number, f"CACHE another-{number} OF items LIMIT 5"))
    desk.grant()
    one, drawn, turns = planner(desk), [], 0
    assert len(one.caches()) == 6
    usual = one.map

    def drawing(kept: RegisteredQuery, cache: CacheQuery) -> RegionMap:
        drawn.append((kept.number, turns))
        return usual(kept, cache)

    monkeypatch.setattr(one, "map", drawing)
    monkeypatch.setattr(one, "window", lambda _: pytest.fail("what changed is not shown"))
    node: Any = SimpleNamespace(planner=lambda _: one, engine=desk.engine, sessions=SimpleNamespace(state=desk.state))
    call: Any = SimpleNamespace(node=node, path=lambda _: str(desk.number))

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    shown = json.loads(bytes((await list_caches(call)).body))["caches"]
    task.cancel()
    assert [cache["number"] for cache in shown] == [number for number, _ in drawn]
    assert [turn for _, turn in drawn] == list(range(6)), "others had their turn between any two"
    drawn.clear()
    assert (await draw_cache(call)).media_type == "image/svg+xml"
    assert [number for number, _ in drawn] == [desk.number], "one that is not asked for is not drawn"


async def test_changes_of_a_table_that_was_dropped_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = CacheBench()
    monkeypatch.setattr(labelling, "LOOK_SECONDS", 0.001)
    one = planner(desk, every=1_000)
    one._changes["items"], one._remembered["items"] = deque(), 0
    desk.append(TableDropped("items"))
    task = asyncio.create_task(one.run())
    await asyncio.sleep(0.05)
    task.cancel()
    assert not one._changes
