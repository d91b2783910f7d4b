"""Query router: assigns queries to hosts by name, by plan or by the placement rule, and sessions to lanes.

All registrations are known to the engine of the node, whichever host keeps them.
"""

from collections.abc import Callable
from typing import Protocol

from slackwater.core.errors import SlackwaterError
from slackwater.core.hosts import HostKind, Placement
from slackwater.core.query import StandingQuery
from slackwater.hosting.registrations import Registrations
from slackwater.kinds.registry import kind_of


class Elsewhere(SlackwaterError):
    """The query belongs to another host than the lane's."""

    def __init__(self, host: HostKind) -> None:
        super().__init__(f"this query is kept by the host {host.value!r}: connect to the lane with ?host={host.value}")
        self.host = host


class Plans(Protocol):
    """Interface to the network planner: which queries it takes."""

    def takes(self, query: StandingQuery) -> bool:
        """True if a query is planned rather than run here."""
        ...

    def could_take(self, query: StandingQuery) -> bool:
        """True if a query can be planned at all."""
        ...


class Router:
    """The host of each query, and the lane that a session has to be in for it."""

    def __init__(
        self,
        registry: Callable[[], Registrations],
        placement: Placement,
        lanes: frozenset[HostKind] = frozenset(),
        plans: Plans | None = None,
    ) -> None:
        self._registry = registry
        self.placement = placement
        self.lanes = lanes
        self.plans = plans

    def host_of(self, query: StandingQuery, name: str | None) -> HostKind:
        """Host of a query: the host of its name, else a network that takes it, else the placement rule.

        A query with a name is kept also while it has no listener that could add parts up: it is not planned.
        """
        known = None if name is None else self._registry().named(name)
        if known is not None:
            return known.host
        if name is None and self.plans is not None and self.plans.takes(query):
            return HostKind.NETWORK
        placed, hosts = self.placement.of(query.table, name), kind_of(query).hosts
        return placed if placed in hosts else HostKind.NODE

    def check_lane(self, query: StandingQuery, name: str | None, lane: HostKind) -> None:
        """Refuse a query that is for another lane."""
        if lane is HostKind.NETWORK and name is None and self.plans is not None and self.plans.could_take(query):
            # A client that resumes may be here before the aggregators have been heard of.
            return
        self.check_host(self.host_of(query, name), lane)

    def check_host(self, host: HostKind, lane: HostKind) -> None:
        """Refuse a host that is not the lane's, with the lane to use."""
        if host is lane:
            return
        if host in self.lanes:
            raise Elsewhere(host)
        raise SlackwaterError(
            f"this query is kept by the host {host.value!r}, which this server does not have: start it with one, or "
            f"drop the subscription"
        )
