"""Registry of planners: each entry makes one for a node, or none where the node is not configured for it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from slackwater.core.hosts import HostKind
from slackwater.server.lanes.network import NetworkLane
from slackwater.server.planners.base import NodePlanner
from slackwater.server.planners.labels import LabelPlanner
from slackwater.server.planners.network.service import NetworkPlanner

if TYPE_CHECKING:
    from slackwater.server.node import Node


def label_planner(node: "Node") -> NodePlanner:
    """Which rows are pushed to clients' caches."""
    return LabelPlanner(node, node.settings.labelling)


def network_planner(node: "Node") -> NodePlanner | None:
    """Which aggregators keep which parts of sums."""
    settings, lane = node.settings.network, node.lanes.get(HostKind.NETWORK)
    if settings is None or not isinstance(lane, NetworkLane):
        return None
    return NetworkPlanner(settings, node, node.engine, node.router, lane, node.append, node.beside)


PLANNERS: list[Callable[["Node"], NodePlanner | None]] = [label_planner, network_planner]
