"""A standing query as it is shown: what it is, and what was measured of it."""

from slackwater.core.query import Aggregate
from slackwater.hosting.steps import Registration
from slackwater.server.node import Node
from slackwater.server.rest.bodies import Subscription


def described(node: Node, one: Registration) -> Subscription:
    """All that is known of a registration."""
    query = node.engine.query(one.number)
    bound = query.bound if isinstance(query, Aggregate) else None
    return Subscription(
        number=one.number,
        name=one.name,
        owner=one.owner,
        sql=one.text,
        epoch=one.epoch,
        position=one.position,
        kind="selection" if bound is None else "aggregate",
        table=query.table,
        within=None if bound is None else bound.within,
        fidelity=None if bound is None else bound.fidelity,
        notifications=node.engine.notified[one.number],
        subscribers=node.sessions.subscribers(one.number),
    )
