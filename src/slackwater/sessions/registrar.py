"""Registration: from a statement to its record in the log, by one path for REST and for live sessions.

    statement ─▶ bind ─▶ rights conjoined ─▶ host ─▶ name ─▶ limits ─▶ record

A named registration over REST and an unnamed one of a live session differ in their arguments alone. Two nodes, or two
requests at once, may ask for one name: the log decides, on every node for the first record.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import UNSET, UnsetType

from slackwater.core.errors import SlackwaterError, SqlError
from slackwater.core.hosts import HostKind
from slackwater.core.lineage import Lineage
from slackwater.core.query import StandingQuery
from slackwater.core.rights import EVERY_ROW, Grant, Rights
from slackwater.core.schema import TableSchema
from slackwater.hosting.registrations import Registrations
from slackwater.kinds.registry import check_query, conjoin, plain_query
from slackwater.log.records import Registered, Unregistered
from slackwater.sessions.limits import ServerLimits
from slackwater.sessions.router import Router


class RegistrationRefused(SlackwaterError):
    """A registration that breaks a rule of names or a limit; `code` is `exists` or `limit`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A statement as it was bound: its query, its text in normal form without the name, its name, and its host."""

    query: StandingQuery
    text: str
    name: str | None
    host: HostKind
    rights: Grant = EVERY_ROW
    """What the query is conjoined with."""


class Bindings(Protocol):
    """Interface of the engine to registration."""

    @property
    def lineage(self) -> Lineage:
        """The incarnations of the log that registrations are records of."""
        ...

    @property
    def registry(self) -> Registrations:
        """The registrations in force."""
        ...

    def bind(self, sql: str) -> tuple[StandingQuery, str, str | None]:
        """A subscription's query, its text in normal form without the name, and its name where it has one."""
        ...

    def check(self, query: StandingQuery) -> None:
        """Refuse a bound query that cannot be kept."""
        ...

    def schema(self, table: str) -> TableSchema:
        """The table of this name."""
        ...


class Registrar:
    """The rules of registration; `router` is None where there is one host."""

    def __init__(self, engine: Bindings, limits: ServerLimits | None = None, router: Router | None = None) -> None:
        self.limits = limits or ServerLimits()
        self.rights = Rights()
        """The rights of all principals, as they are now."""
        self._engine = engine
        self._router = router

    @property
    def lineage(self) -> Lineage:
        """The incarnations of the log that registrations are records of."""
        return self._engine.lineage

    def bind(self, sql: str, principal: str, lane: HostKind | None = None) -> BoundQuery:
        """What a statement of a principal means: for a new registration, or to a lane, where a name will do as well."""
        if len(sql) > self.limits.statement:
            raise SqlError(f"a statement may have {self.limits.statement} characters, this one has {len(sql)}")
        known = None if lane is None else self._engine.registry.named(sql.strip())
        if known is not None and lane is not None:
            self._check_host(known.host, lane)
            query = self._engine.registry.query(known.number)
            rights = self.rights.of(principal).on(query.tables)
            if rights != known.rights:
                raise SlackwaterError(
                    f"the subscription {known.name} is kept under other rights than yours: subscribe to its text"
                )
            return BoundQuery(query, known.text, known.name, known.host, rights)
        query, text, name = self._engine.bind(sql)
        query, rights = self.conjoined(query, principal)
        if self._router is None:
            return BoundQuery(query, text, name, lane or HostKind.NODE, rights)
        if lane is None:
            return BoundQuery(query, text, name, self._router.host_of(query, name), rights)
        self._router.check_lane(query, name, lane)
        return BoundQuery(query, text, name, lane, rights)

    def conjoined(self, query: StandingQuery, principal: str) -> tuple[StandingQuery, Grant]:
        """A query over the rows that a principal may see, and the rights that say so."""
        rights = self.rights.of(principal).on(query.tables)
        if rights.regions:
            query = conjoin(query, rights)
            check_query(query, self._engine.schema)
            self._engine.check(query)
        return query, rights

    def outdated(self) -> list[Registered | Unregistered]:
        """The records that bring registrations under the present rights of their owners, as the next epoch each.

        What cannot be kept under them is ended: it must not go on under the former ones.
        """
        records: list[Registered | Unregistered] = []
        for one in self._engine.registry.all.values():
            grant = self.rights.of(one.owner)
            if not (grant.regions or one.rights.regions):
                continue
            tables = self._engine.registry.tables(one.number)
            if grant.on(tables) == one.rights:
                continue
            try:
                query, rights = self.conjoined(self._engine.bind(one.text)[0], one.owner)
            except SlackwaterError:
                records.append(Unregistered(tables[0], one.number))
                continue
            records.append(
                Registered(
                    query.table,
                    one.text,
                    one.owner,
                    one.name,
                    one.number,
                    one.epoch + 1,
                    plain_query(query),
                    one.host.value,
                    plain_rights(rights),
                )
            )
        return records

    def check_name(self, name: str, lane: HostKind) -> None:
        """Refuse, as `Elsewhere`, a name that a query in another lane has by now."""
        known = self._engine.registry.named(name)
        if known is not None:
            self._check_host(known.host, lane)

    def is_registered(self, bound: BoundQuery) -> bool:
        """Whether the log has this registration already, and its host has yet to say so."""
        return self._engine.registry.has(bound.host, bound.text, bound.name, bound.rights)

    def record(self, bound: BoundQuery, owner: str) -> Registered:
        """The record that registers a query, unless its name is taken or a limit is reached."""
        registry, limits = self._engine.registry, self.limits
        if bound.name is not None and registry.named(bound.name) is not None:
            raise taken(bound.name)
        owned = registry.owned(owner)
        if owned >= limits.registrations_a_token:
            raise RegistrationRefused(
                "limit", f"you have registered {owned} queries, as many as are allowed; drop some"
            )
        if len(registry.all) >= limits.registrations:
            raise RegistrationRefused(
                "limit", f"{len(registry.all)} queries are registered here, as many as are allowed; drop some"
            )
        plain, host = plain_query(bound.query), bound.host.value
        rights = plain_rights(bound.rights)
        return Registered(bound.query.table, bound.text, owner, bound.name, query=plain, host=host, rights=rights)

    def _check_host(self, host: HostKind, lane: HostKind) -> None:
        if self._router is not None:
            self._router.check_host(host, lane)


def plain_rights(rights: Grant) -> list[Any] | UnsetType:
    """Rights as a record has them: left out where there are none."""
    return rights.plain() if rights.regions else UNSET


def taken(name: str) -> RegistrationRefused:
    """The refusal of a name that is in use."""
    return RegistrationRefused(
        "exists", f"there is already a subscription {name}; drop it first, or choose another name"
    )
