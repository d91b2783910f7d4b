"""REST of standing joins: stabbing groups, hotspots over time, and routes of rows."""

from itertools import islice

from starlette.responses import Response

from slackwater.core.types import Position
from slackwater.kinds.join.schema import called, column_of
from slackwater.processing.joined import Family, Moment, joins_of
from slackwater.processing.matching import JoinSide
from slackwater.server.rest.bodies import Hotspot, JoinFamilies, JoinFamily, JoinMoment, Route
from slackwater.server.rest.operation import JSON, Call, Parameter, RestOperation, answered
from slackwater.server.store import Scope

_MOST_FAMILIES = 100
_MOST_HOTSPOTS = 10


async def list_families(call: Call) -> Response:
    """Show the joins of each shape."""
    host = call.node.engine.host
    limit = call.integer("limit", _MOST_FAMILIES, 1, _MOST_FAMILIES) or _MOST_FAMILIES
    families = joins_of(host.operators).founded(host.latest_tables)
    listed = [_described(families[shape], host.position) for shape in islice(sorted(families), limit)]
    return answered(JoinFamilies(listed, len(families), host.position))


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
    RestOperation(
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
