"""Network lane: queries planned over aggregators; a session receives the plan of a query.

To sessions a plan is rows like any others, one for each part, under the epoch of the registration. So all that holds of
sessions holds of plans: a frame is applied whole, a new epoch replaces everything, nothing goes back, and a later
subscriber gets all. The bound in the description is that of the whole sum.
"""

import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

from slackwater.core.hosts import HostKind
from slackwater.dissemination.encoding import Encoding, encode_rows
from slackwater.dissemination.messages import Fact, Snapshot, Subscribed, WireRow
from slackwater.server.lanes.base import Lane
from slackwater.server.planners.network.base import LivePlan
from slackwater.server.session_host import Sessions
from slackwater.sessions.query_registry import RegisteredQuery
from slackwater.sessions.state import ServerState
from slackwater.sessions.subscriptions import SubscriptionRegistry

PlanRows: TypeAlias = list[tuple[WireRow, WireRow]]
"""The parts of a plan, each with its key."""

COLUMNS = ("part", "aggregator", "nodes", "sql", "within", "floor", "messages")
TYPES = ("BIGINT", "TEXT", "TEXT", "TEXT", "DOUBLE", "DOUBLE", "DOUBLE")
KEY = ("part",)


def plan_rows(plan: LivePlan | None, nodes_of: Callable[[str], tuple[str, ...]]) -> PlanRows:
    """A plan as rows; the addresses of an aggregator stand in one text, apart by spaces, none for the node itself."""
    rows: PlanRows = []
    for place, part in enumerate(() if plan is None else plan.parts):
        nodes = " ".join(nodes_of(part.aggregator))
        # A part that is exact sends every change: how many that are, the model cannot say.
        expected = part.messages if math.isfinite(part.messages) else None
        rows.append(((place,), (place, part.aggregator, nodes, part.text, part.within, part.floor, expected)))
    return rows


class PlanSubscriptions(SubscriptionRegistry):
    """Subscriptions to plans; `rows` gives the present plan of a query."""

    rows: Callable[[int], PlanRows]

    def subscribed(self, ref: int, kept: RegisteredQuery, was: int | None = None) -> Fact:
        """A plan has columns, and the bound of the sum; it is always sent whole."""
        bound = kept.query.bound
        return Subscribed(ref, kept.number, kept.epoch, COLUMNS, TYPES, KEY, bound.within, bound.fidelity)

    def whole(self, number: int, encoding: Encoding) -> Iterator[Fact]:
        """All parts of the plan."""
        kept = self.queries.get(number)
        assert kept is not None
        rows = self.rows(number)
        data, digest = encode_rows(rows, encoding)
        yield Snapshot(number, kept.epoch, data, len(rows), digest)


class PlanState(ServerState):
    """The sessions of this lane."""

    subscriptions: PlanSubscriptions
    subscriptions_class = PlanSubscriptions


class NetworkLane(Lane):
    """Lane of planned queries."""

    host = HostKind.NETWORK

    def __init__(self, sessions: Sessions, state: PlanState) -> None:
        super().__init__(sessions)
        self.plans = state.subscriptions
