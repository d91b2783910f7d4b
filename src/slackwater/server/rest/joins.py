"""Standing joins, how they are matched: stabbing groups, hotspots over time, and the ways that rows took."""

from itertools import islice

from starlette.responses import Response

from slackwater.core.hosts import HostKind
from slackwater.core.joined import called, column_of
from slackwater.core.query import Join
from slackwater.core.types import Position
from slackwater.processing.host import Host
from slackwater.processing.joined import Family, Moment, lowered
from slackwater.processing.matching import JoinSide
from slackwater.server.rest.bodies import Hotspot, JoinFamilies, JoinFamily, JoinMoment, Route
from slackwater.server.rest.operation import JSON, Call, Operation, Parameter, answered
from slackwater.server.store import Scope
from slackwater.sql import Detail, ExplainTree

_MOST_FAMILIES = 100
_MOST_HOTSPOTS = 10


async def list_families(call: Call) -> Response:
    """Show the joins of each shape."""
    host = call.node.engine.host
    limit = call.integer("limit", _MOST_FAMILIES, 1, _MOST_FAMILIES) or _MOST_FAMILIES
    families = host.families()
    listed = [_described(families[shape], host.position) for shape in islice(sorted(families), limit)]
    return answered(JoinFamilies(listed, len(families), host.position))


def matching(host: Host, query: Join, kept_by: HostKind) -> ExplainTree:
    """How a join is matched together with those of its shape that stand already."""
    if kept_by is not HostKind.NODE:
        return ExplainTree("matching", (Detail("operators", "elsewhere: this server does not see how they match"),))
    family = host.families().get(lowered(query)[0])
    if family is None:
        return ExplainTree("matching", (Detail("joins of this shape", 0),))
    now = family.moment(host.position)
    routes = tuple(Detail(name, _percent(share), "%") for name, share in family.routes.items())
    return ExplainTree(
        "matching",
        (
            Detail("joins of this shape", now.queries),
            Detail("stabbing groups", now.groups),
            Detail("hot groups", now.hot_groups),
            Detail("hot share", _percent(now.hot_share), "%"),
            Detail("rows matched", family.asked),
        ),
        (ExplainTree("routes", routes),),
    )


def _percent(share: float) -> float:
    return round(100 * share, 4)


def _described(family: Family, position: Position) -> JoinFamily:
    shape = family.shape
    return JoinFamily(
        kind="band" if shape.band else "select",
        left=shape.left,
        right=shape.right,
        on=[shape.left_column, shape.right_column],
        ranges=[
            column_of(table, name)
            for side, table in zip(JoinSide, called(shape.left, shape.right), strict=True)
            for name in shape.attributes(side)
        ],
        rows_matched=family.asked,
        now=_moment(family.moment(position)),
        hotspots=[Hotspot(point, queries) for point, queries in family.hottest(_MOST_HOTSPOTS)],
        routes=[Route(name, share) for name, share in family.routes.items()],
        history=[_moment(one) for one in family.moments],
    )


def _moment(one: Moment) -> JoinMoment:
    return JoinMoment(one.position, one.queries, one.groups, one.hot_groups, one.hot_share)


OPERATIONS = (
    Operation(
        "GET",
        "/v1/joins",
        "listJoins",
        "Standing joins by shape: stabbing groups, hotspots now and over time, and the ways that rows took.",
        list_families,
        Scope.READ,
        {200: {JSON: JoinFamilies}},
        parameters=(
            Parameter("limit", "At most so many shapes.", {"type": "integer", "minimum": 1, "maximum": _MOST_FAMILIES}),
        ),
    ),
)
