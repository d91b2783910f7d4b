"""Planner protocol: watches the steps of a node and changes plans under epochs.

Contract
    A planner sees the log only through the node's engine, and changes what is kept only by registrations that it has
    appended: so every host of the log comes to the same plans. `followed` is called after each step, and must be quick;
    what takes long is `work`, which runs for as long as the node runs.
"""

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any

from slackwater.core.query import StandingQuery
from slackwater.server.upstreams import PlannedFigures
from slackwater.sql.explain_tree import ExplainTree


class NodePlanner(ABC):
    """One planner; the module states its contract."""

    def start(self) -> None:  # noqa: B027 (most have nothing to take up)
        """Resume the plans of an earlier process from its registrations."""

    @abstractmethod
    def work(self) -> list[Coroutine[Any, Any, None]]:
        """Background task of the planner, run while the node runs."""

    def followed(self) -> None:  # noqa: B027
        """The node has applied a step."""

    def explain(self, query: StandingQuery, number: int | None = None) -> ExplainTree | None:
        """The plan of a query, or the one that it would have; None where it is not planned here."""
        return None

    def figures(self, number: int) -> PlannedFigures | None:
        """Predictions and measurements of a plan."""
        return None
