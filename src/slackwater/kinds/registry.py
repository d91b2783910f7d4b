"""Registry of kinds: the list `KINDS`, and dispatch of codecs, checks and names of answers by kind."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from slackwater.core.errors import NotSupported, StoreError
from slackwater.core.query import StandingQuery
from slackwater.core.region import EVERYTHING
from slackwater.core.rights import Grant
from slackwater.core.schema import TableSchema
from slackwater.kinds.aggregate.kind import AggregateKind
from slackwater.kinds.base import QueryKind
from slackwater.kinds.cache.kind import CacheKind
from slackwater.kinds.join.kind import JoinKind
from slackwater.kinds.selection.kind import SelectionKind

KINDS: list[QueryKind[Any]] = [
    JoinKind(),
    AggregateKind(),
    CacheKind(),
    SelectionKind(),
]
"""In order of precedence: the first that matches a statement binds it, the first that decodes an encoding owns it."""


def kind_of(query: StandingQuery) -> QueryKind[Any]:
    """The kind of a query."""
    for kind in KINDS:
        if type(query) is kind.value:
            return kind
    raise NotSupported(f"{type(query).__name__} is no kind of standing query")


def classify(tree: exp.Expr) -> QueryKind[Any] | None:
    """The kind of a subscription or SELECT by its shape; None for what no kind knows (UNION, for example)."""
    return next((kind for kind in KINDS if kind.matches(tree)), None)


def plain_query(query: StandingQuery) -> list[Any]:
    """A query as lists; equal queries are equal bytes."""
    return kind_of(query).encode(query)


def query_of(plain: list[Any], text: str = "") -> StandingQuery:
    """Decode a query registered under this text."""
    for kind in KINDS:
        if kind.tag == plain[0]:
            query: StandingQuery | None = kind.decode(plain, text)
            if query is not None:
                return query
    raise StoreError(f"a query of the kind {plain[0]!r} is not known here")


def check_query(query: StandingQuery, schema: Callable[[str], TableSchema]) -> None:
    """Refuse a query that names what its tables do not have, or compares what cannot be compared."""
    kind_of(query).check(query, [schema(name) for name in query.tables])
    period = tick_period(query)
    if period is not None and period < SHORTEST_PERIOD:
        raise NotSupported(
            f"ticks are at least {SHORTEST_PERIOD} µs apart, and this query asks for one every {period} µs; choose a "
            f"longer period"
        )


def conjoin(query: StandingQuery, grant: Grant) -> StandingQuery:
    """The query over those rows of its tables alone that a grant allows."""
    for table in dict.fromkeys(query.tables):
        region = grant.of(table)
        if region != EVERYTHING:
            query = kind_of(query).conjoin(query, table, region)
    return query


def kept_as(query: StandingQuery) -> StandingQuery:
    """The query in the form that operators register."""
    kept: StandingQuery = kind_of(query).kept_as(query)
    return kept


SHORTEST_PERIOD = 1_000
"""Microseconds between two ticks that a query may need, at least: each is a record that is flushed to the disk."""


def tick_period(query: StandingQuery) -> int | None:
    """Microseconds between the ticks of the log clock that a query needs; None where it needs none."""
    kind = kind_of(query)
    return kind.tick_period(query) if kind.timed else None


def is_timed(tag: str) -> bool:
    """Whether queries whose lists begin with a tag may need ticks."""
    return any(kind.timed and kind.tag == tag for kind in KINDS)


def answer_table(query: StandingQuery) -> str:
    """Name of the schema of a query's answer rows."""
    return kind_of(query).answer_table(query)


def answer_schema(name: str, schema: Callable[[str], TableSchema]) -> TableSchema:
    """Schema of rows by name: of a table, or of the answers of a kind."""
    for kind in KINDS:
        found = kind.answer_schema(name, schema)
        if found is not None:
            return found
    return schema(name)


def bind_text(text: str, tables: Mapping[str, TableSchema]) -> tuple[StandingQuery, str] | None:
    """A query from a text that is not SQL, and that text in normal form; None for SQL."""
    return next((found for kind in KINDS if (found := kind.bind_text(text, tables)) is not None), None)
