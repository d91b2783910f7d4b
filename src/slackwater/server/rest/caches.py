"""REST of caches: pushed regions as values and as pictures, and labels planned elsewhere."""

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from slackwater.core.errors import PlanningError, SlackwaterError
from slackwater.core.labels import read_labels
from slackwater.planning.push_pull.region_map import RegionMap
from slackwater.server.planners.labels import LabelPlanner
from slackwater.server.rest.operation import (
    JSON,
    JSON_LINES,
    SVG,
    Call,
    Parameter,
    RestOperation,
    answered,
    missing,
    unsupported,
    wrong,
)
from slackwater.server.store import Scope
from slackwater.sessions.query_registry import RegisteredQuery

CACHE = Parameter("cache", "Its number.", {"type": "integer", "minimum": 0, "maximum": 2**62}, in_path=True)


class CacheAnswer(msgspec.Struct, frozen=True):
    """What is pushed to a client of one table; regions are lists of boxes, boxes lists of sides.

    `asked` are the regions that were asked lately, each with how often. `pulled` and `home` count the questions
    that this node was asked and those that it was told of, since it began.
    """

    number: int
    client: str
    table: str
    limit: int
    epoch: int
    position: int
    attributes: list[str]
    pushed: list[Any]
    rows: int
    asked: list[Any]
    pulled: int
    home: int
    sessions: int


class CachesAnswer(msgspec.Struct, frozen=True):
    """All caches; `as_of` is how far the node had come when it had looked at the last of them."""

    caches: list[CacheAnswer]
    as_of: int


class LabelsTaken(msgspec.Struct, frozen=True):
    """How many labels take effect, how many are of no known cache or too old, and where in the log they stand."""

    taken: int
    passed_over: int
    position: int


def _labelling(call: Call) -> LabelPlanner:
    planner = call.node.planner(LabelPlanner)
    assert planner is not None, "every node labels caches"
    return planner


async def list_caches(call: Call) -> Response:
    """All caches; there may be thousands, and others have their turn between them."""
    labelling, shown = _labelling(call), []
    for kept, cache in labelling.caches():
        with suppress(SlackwaterError):  # its table was dropped meanwhile
            shown.append(_shown(call, kept, cache.limit, labelling.map(kept, cache)))
        await asyncio.sleep(0)
    return answered(CachesAnswer(shown, int(call.node.engine.position)))


async def draw_cache(call: Call) -> Response:
    """One cache as a picture."""
    asked = call.path("cache")
    labelling = _labelling(call)
    for kept, cache in labelling.caches():
        if str(kept.number) == asked:
            return Response(labelling.map(kept, cache).svg(), media_type=SVG)
    raise missing(f"there is no cache {asked[:40]}")


async def take_labels(call: Call) -> Response:
    """Give caches other labels."""
    if call.media_type() != JSON_LINES:
        raise unsupported(JSON_LINES)
    body = await call.body(call.limits.body)
    try:
        labels = list(read_labels(body.decode().splitlines()))
    except (PlanningError, UnicodeDecodeError) as error:
        raise wrong(str(error)) from None
    taken, passed, position = await _labelling(call).take(labels)
    await call.node.reached(position, call.limits.wait_seconds)
    return answered(LabelsTaken(taken, passed, int(position)))


def _shown(call: Call, kept: RegisteredQuery, limit: int, drawn: RegionMap) -> CacheAnswer:
    plain = drawn.plain()
    asked = call.node.sessions.state.questions.asked.get(kept.number)
    return CacheAnswer(
        kept.number,
        drawn.client,
        drawn.table,
        limit,
        drawn.epoch,
        drawn.position,
        plain["attributes"],
        plain["pushed"],
        drawn.rows,
        plain["asked"][:1000],
        0 if asked is None else asked.pulled,
        0 if asked is None else asked.home,
        len(kept.sessions),
    )


OPERATIONS = (
    RestOperation(
        "GET",
        "/v1/caches",
        "listCaches",
        "List the caches that clients keep, with the regions that are pushed to them.",
        list_caches,
        Scope.READ,
        {200: {JSON: CachesAnswer}},
    ),
    RestOperation(
        "GET",
        "/v1/caches/{cache}/map",
        "drawCache",
        "The regions that are pushed to one cache, as a picture.",
        draw_cache,
        Scope.READ,
        {200: {SVG: None}},
        parameters=(CACHE,),
        fails=frozenset({HTTPStatus.NOT_FOUND}),
    ),
    RestOperation(
        "POST",
        "/v1/caches/labels",
        "takeLabels",
        "Give caches the labels of a labels file, one on each line. Those that are not newer than what a cache has, or "
        "of no cache that is known, are passed over.",
        take_labels,
        Scope.ADMIN,
        {200: {JSON: LabelsTaken}},
        takes={JSON_LINES: None},
        fails=frozenset({404, 409, 422}),
    ),
)
