"""Host placement: the rule that assigns a standing query to the node, to Spark or to the network of aggregators."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from slackwater.core.errors import SlackwaterError


class HostKind(StrEnum):
    """Where the operators of a query run; written into the log with its registration."""

    NODE = "node"
    """In the process that serves: the lowest latency, one core."""
    SPARK = "spark"
    """On Spark's executors: as many cores as there are, a micro-batch of latency."""
    NETWORK = "network"
    """At aggregators, in parts that the client adds up; the node only plans. No placement rule assigns a query here."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The rule by which new queries are given a host: by their name, else by their table, else the default.

    >>> rule = Placement(HostKind.SPARK, tables={"alarms": HostKind.NODE}, queries={"tech": HostKind.NODE})
    >>> rule.of("quotes", None), rule.of("Alarms", None), rule.of("quotes", "Tech")
    (<HostKind.SPARK: 'spark'>, <HostKind.NODE: 'node'>, <HostKind.NODE: 'node'>)
    """

    default: HostKind = HostKind.NODE
    tables: Mapping[str, HostKind] = field(default_factory=dict)
    queries: Mapping[str, HostKind] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if HostKind.NETWORK in {self.default, *self.tables.values(), *self.queries.values()}:
            raise SlackwaterError(
                "who keeps new queries is node or spark; which of them go to a network of aggregators is planned"
            )
        for rule in ("tables", "queries"):
            object.__setattr__(self, rule, {name.lower(): kind for name, kind in getattr(self, rule).items()})

    @property
    def kinds(self) -> frozenset[HostKind]:
        """The hosts that may be given a query."""
        return frozenset({self.default, *self.tables.values(), *self.queries.values()})

    def of(self, table: str, name: str | None) -> HostKind:
        """The host of a new query on this table, under this name if it has one."""
        if name is not None and name.lower() in self.queries:
            return self.queries[name.lower()]
        return self.tables.get(table.lower(), self.default)
