"""Registry of lanes: each entry makes one for a node, or none where the node is not configured for it."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from slackwater.core.hosts import HostKind
from slackwater.log.extent import LogExtent
from slackwater.server.lanes.base import Lane
from slackwater.server.lanes.local import LocalLane
from slackwater.server.lanes.network import NetworkLane, PlanState
from slackwater.server.lanes.spark import SparkLane
from slackwater.server.lanes.views import EngineView
from slackwater.server.session_host import Sessions
from slackwater.sessions.state import ServerState

if TYPE_CHECKING:
    from slackwater.server.node import Node


def local_lane(node: "Node") -> Lane:
    """Every node keeps queries itself."""
    channels = node.channels
    place = None if channels is None else channels.place
    state = ServerState(*node.identity, node.settings.rules, EngineView(node.engine, node.registrar), place)
    return LocalLane(node.engine, Sessions(state, node.append, channels))


def spark_lane(node: "Node") -> Lane | None:
    """Lane over the publication log of a Spark host."""
    folder = node.settings.spark
    if folder is None:
        return None
    rules = replace(node.settings.rules, host=HostKind.SPARK)
    reached = lambda: node.engine.position  # noqa: E731

    def extent() -> LogExtent:
        # As the sessions' engine knows the log: a writer all of it, a follower what it has checked.
        return LogExtent(node.engine.lineage, node.log.end if node.writable else node.engine.position)

    return SparkLane(folder, *node.identity, rules, node.registrar, node.append, reached, extent, node.channels)


def network_lane(node: "Node") -> Lane | None:
    """Lane of plans over aggregators."""
    if HostKind.NETWORK not in node.settings.hosts:
        return None
    view = EngineView(node.engine, node.registrar)
    state = PlanState(*node.identity, replace(node.settings.rules, host=HostKind.NETWORK), view)
    return NetworkLane(Sessions(state, node.append), state)


LANES: list[Callable[["Node"], Lane | None]] = [local_lane, spark_lane, network_lane]
