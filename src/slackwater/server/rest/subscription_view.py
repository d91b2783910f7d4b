"""REST view of a standing query: definition, measurements, EXPLAIN."""

from slackwater.core.hosts import HostKind
from slackwater.core.query import AnswerShape
from slackwater.core.statement import Subscribe
from slackwater.hosting.step import Registration
from slackwater.kinds.registry import kind_of
from slackwater.server.node import Node
from slackwater.server.rest.bodies import Subscription
from slackwater.sql import ExplainTree, explain, hosted


def described(node: Node, one: Registration) -> Subscription:
    """REST value of a registration."""
    query = node.engine.query(one.number)
    bound = query.bound if query.shape is AnswerShape.NUMBER else None
    pulling = node.pulling(one.number)
    return Subscription(
        number=one.number,
        name=one.name,
        owner=one.owner,
        sql=one.text,
        epoch=one.epoch,
        position=one.position,
        kind=kind_of(query).tag,
        table=query.table,
        within=None if bound is None else bound.within,
        fidelity=None if bound is None else bound.fidelity,
        host=one.host.value,
        pulls=None if pulling is None else pulling.pulls,
        pulls_an_hour=None if pulling is None else pulling.an_hour,
        predicted_pulls_an_hour=None if pulling is None else pulling.predicted_an_hour,
        delivered=None if pulling is None else pulling.delivered,
        notifications=node.lanes[one.host].notified(one.number) if one.host in node.lanes else 0,
        subscribers=node.lanes[one.host].sessions.subscribers(one.number) if one.host in node.lanes else 0,
        plan=next((plan for one_of in node.planners if (plan := one_of.figures(one.number)) is not None), None),
    )


async def subscribed(node: Node, subscription: Subscribe, host: HostKind) -> ExplainTree:
    """EXPLAIN tree of a subscription: its meaning, host, and predicted cost."""
    tree = explain(subscription).with_parts(hosted(host))
    kept = node.engine.explain(subscription.query, host)
    if kept is not None:
        tree = tree.with_parts(kept)
    forecast = await node.explain_forecast(subscription.query)
    return tree if forecast is None else tree.with_parts(forecast)
