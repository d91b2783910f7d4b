"""Bound statements: one value for each statement of the language, all names resolved."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from slackwater.core.query import OneShot, QueryId, StandingQuery
from slackwater.core.schema import TableSchema


@dataclass(frozen=True, slots=True)
class CreateTable:
    """`CREATE TABLE …`."""

    schema: TableSchema
    if_not_exists: bool = False


class SourceKind(Enum):
    """How a source is reached."""

    HTTP = "HTTP"
    FILE = "FILE"


@dataclass(frozen=True, slots=True)
class SourceOption:
    """One `name = value` of a source's WITH clause."""

    name: str
    value: bool | int | float | str


@dataclass(frozen=True, slots=True)
class CreateSource:
    """`CREATE SOURCE name FOR table FROM kind 'address' WITH (…)`. `every` is in microseconds."""

    name: str
    table: str
    kind: SourceKind
    address: str
    every: int | None = None
    options: tuple[SourceOption, ...] = ()


@dataclass(frozen=True, slots=True)
class Select:
    """A one-shot SELECT."""

    query: OneShot


@dataclass(frozen=True, slots=True)
class Subscribe:
    """`SUBSCRIBE [name AS] SELECT …`."""

    query: StandingQuery
    name: QueryId | None = None


class Catalogued(Enum):
    """The kinds of thing that have names: what SHOW lists (in the plural) and DROP removes."""

    TABLE = "TABLE"
    SOURCE = "SOURCE"
    SUBSCRIPTION = "SUBSCRIPTION"


@dataclass(frozen=True, slots=True)
class Show:
    """`SHOW TABLES`, `SHOW SOURCES`, `SHOW SUBSCRIPTIONS`."""

    what: Catalogued


@dataclass(frozen=True, slots=True)
class Drop:
    """`DROP kind [IF EXISTS] name`."""

    what: Catalogued
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class Explain:
    """`EXPLAIN statement`."""

    statement: "Statement"


Statement: TypeAlias = CreateTable | CreateSource | Select | Subscribe | Show | Drop | Explain
