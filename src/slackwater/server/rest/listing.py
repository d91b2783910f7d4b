"""A standing query as it is shown: what it is, what was measured of it, what it means."""

from slackwater.core.hosts import HostKind
from slackwater.core.query import AnswerShape
from slackwater.core.statement import Subscribe
from slackwater.hosting.step import Registration
from slackwater.kinds.registry import kind_of
from slackwater.server.node import Node
from slackwater.server.planners.network.explain import figures_of
from slackwater.server.rest.bodies import Subscription
from slackwater.server.upstreams import PlannedFigures
from slackwater.sql import ExplainTree, explain, hosted


def described(node: Node, one: Registration) -> Subscription:
    """All that is known of a registration."""
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
        notifications=_notified(node, one),
        subscribers=node.lanes[one.host].subscribers(one.number) if one.host in node.lanes else 0,
        plan=_planned(node, one),
    )


def _planned(node: Node, one: Registration) -> PlannedFigures | None:
    planned = None if node.network is None else node.network.state.queries.get(one.number)
    return None if node.network is None or planned is None else figures_of(node.network.state, planned)


async def subscribed(node: Node, subscription: Subscribe, host: HostKind) -> ExplainTree:
    """What a subscription means, who keeps it, and what it costs as far as that can be foretold."""
    tree = explain(subscription).with_parts(hosted(host))
    kept = node.engine.explain(subscription.query, host)
    if kept is not None:
        tree = tree.with_parts(kept)
    foretold = await node.foretold(subscription.query)
    return tree if foretold is None else tree.with_parts(foretold)


def _notified(node: Node, one: Registration) -> int:
    if one.host is HostKind.NODE:
        return node.engine.notified[one.number]
    return 0 if node.spark is None or one.host is not HostKind.SPARK else node.spark.notified[one.number]
