"""A standing query as it is shown: what it is, and what was measured of it."""

from slackwater.core.hosts import HostKind
from slackwater.core.query import Aggregate, Join
from slackwater.hosting.steps import Registration
from slackwater.server.network.explaining import figures_of
from slackwater.server.node import Node
from slackwater.server.rest.bodies import Subscription
from slackwater.server.upstreams import PlannedFigures


def described(node: Node, one: Registration) -> Subscription:
    """All that is known of a registration."""
    query = node.engine.query(one.number)
    bound = query.bound if isinstance(query, Aggregate) else None
    pulling = node.pulling(one.number)
    return Subscription(
        number=one.number,
        name=one.name,
        owner=one.owner,
        sql=one.text,
        epoch=one.epoch,
        position=one.position,
        kind="join" if isinstance(query, Join) else "selection" if bound is None else "aggregate",
        table=query.table,
        within=None if bound is None else bound.within,
        fidelity=None if bound is None else bound.fidelity,
        host=one.host.value,
        pulls=None if pulling is None else pulling[0],
        delivered=None if pulling is None else pulling[1],
        notifications=_notified(node, one),
        subscribers=node.lanes[one.host].subscribers(one.number) if one.host in node.lanes else 0,
        plan=_planned(node, one),
    )


def _planned(node: Node, one: Registration) -> PlannedFigures | None:
    planned = None if node.network is None else node.network.state.queries.get(one.number)
    return None if node.network is None or planned is None else figures_of(node.network.state, planned)


def _notified(node: Node, one: Registration) -> int:
    if one.host is HostKind.NODE:
        return node.engine.notified[one.number]
    return 0 if node.spark is None or one.host is not HostKind.SPARK else node.spark.notified[one.number]
