"""Query-kind protocol: what a kind of standing query brings.

Contract (kept by every kind, tested in `tests/contracts/test_kinds.py`)

1.  *A value.* Queries of a kind are frozen values of one class. Equal questions are equal values.
2.  *There and back.* `decode(encode(query), text)` is the query; equal queries give equal bytes; what `syntax` writes
    binds to the query again.
3.  *Told apart by shape.* `matches` looks at the syntax tree alone. The first kind of `KINDS` that matches binds it.
4.  *Bad input is refused where it stands.* `bind` fails with the place in the text; `check` refuses what does not fit
    the tables as they are now, however the query came to be.
5.  *An oracle.* `recompute` says by itself, from nothing but the rows, what the answer is. Operators are measured
    against it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from sqlglot import exp

from slackwater.core.bound import EXACT, Bound
from slackwater.core.hosts import HostKind
from slackwater.core.query import AnswerShape, StandingQuery
from slackwater.core.region import Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import Key, Scalar
from slackwater.sql import nodes
from slackwater.sql.catalog import Catalog
from slackwater.sql.explain_tree import ExplainTree
from slackwater.sql.place import Text
from slackwater.sql.syntax import literal_node

TableRows: TypeAlias = Mapping[Key, Mapping[str, Scalar | None]]
"""The rows of a table by key, each with its values by column."""
AnswerRows: TypeAlias = Mapping[tuple[Scalar | None, ...], tuple[Scalar | None, ...]]
"""The rows of an answer by key, each with the columns that the query shows."""

Q = TypeVar("Q", bound=StandingQuery)


@dataclass(frozen=True, slots=True, eq=False)
class UnboundSubscription:
    """A subscription to be bound: its tree, its SELECT out of brackets, its bound, and what the names may mean."""

    tree: nodes.Subscribe
    select: exp.Select
    bound: Bound
    catalog: Catalog
    text: Text


class QueryKind(ABC, Generic[Q]):
    """One kind of standing query; see the module for what is promised."""

    name: ClassVar[str]
    """Name of the kind, in the singular: `aggregate`."""
    value: ClassVar[type]
    """The class of its queries."""
    hosts: ClassVar[frozenset[HostKind]] = frozenset({HostKind.NODE, HostKind.SPARK})
    """Hosts that can run queries of this kind."""
    holds_table: ClassVar[bool] = True
    """True if a table must not be dropped while a query of this kind reads it."""
    bounded: ClassVar[bool] = False
    """True if WITHIN is allowed."""
    timed: ClassVar[bool] = False
    """True if queries may depend on the log clock; `tick_period` then says how often."""

    @property
    def tag(self) -> str:
        """First element of its encoded form."""
        return self.name

    # ---- SQL

    def bind_text(self, text: str, tables: Mapping[str, TableSchema]) -> tuple[Q, str] | None:
        """A query from a text that is not SQL, and that text in normal form; None where it is no such text."""
        return None

    @abstractmethod
    def matches(self, tree: exp.Expr) -> bool:
        """True if a subscription or SELECT of this shape is of this kind."""

    @abstractmethod
    def bind(self, asked: UnboundSubscription) -> Q:
        """The query that a subscription means; a `SqlError` or `NotSupported` with its place where it means none."""

    @abstractmethod
    def syntax(self, query: Q, catalog: Catalog) -> exp.Expr:
        """A subscription that binds to the query."""

    @abstractmethod
    def explain(self, query: Q) -> ExplainTree:
        """EXPLAIN tree of a query."""

    # ---- the query as a value

    @abstractmethod
    def encode(self, query: Q) -> list[Any]:
        """The query as lists, the first element being the tag."""

    @abstractmethod
    def decode(self, plain: list[Any], text: str) -> Q | None:
        """Decode a query registered under this text; None where the lists belong to another kind."""

    @abstractmethod
    def check(self, query: Q, schemas: Sequence[TableSchema]) -> None:
        """Refuse a query that does not fit the tables it reads; they come in the order of `query.tables`."""

    @abstractmethod
    def conjoin(self, query: Q, table: str, rows: Region) -> Q:
        """The same question of those rows of a table alone that lie in a region."""

    def kept_as(self, query: Q) -> StandingQuery:
        """The query in the form that operators register."""
        return query

    def tick_period(self, query: Q) -> int | None:
        """Microseconds between the ticks that the query needs, at multiples of it; None where it needs none.

        A host may see ticks of other queries as well, and one tick in the place of several after a gap.
        """
        return None

    # ---- the answer

    def answer_table(self, query: Q) -> str:
        """Name of the schema of its answer's rows: a table, or a name that `answer_schema` knows."""
        return query.table

    def answer_schema(self, name: str, schema: Callable[[str], TableSchema]) -> TableSchema | None:
        """Schema of answer rows by this name; None where it is not a name of this kind."""
        return None

    @abstractmethod
    def recompute(self, query: Q, tables: Mapping[str, TableRows]) -> float | AnswerRows | None:
        """The answer from scratch: a number or None, or rows by key."""


class TableKind(QueryKind[Q]):
    """A kind on one table whose answer is a fold over contributions of single rows."""

    @abstractmethod
    def contribution(self, query: Q, key: Key, row: Mapping[str, Scalar | None]) -> tuple[Scalar | None, ...] | None:
        """Contribution of a row to the answer: the columns shown, or a number; None where it lies outside."""

    def fold(self, query: Q, contributions: Iterable[tuple[Scalar | None, ...]]) -> float | None:
        """Combine contributions into the answer's number; kinds of rows have none."""
        return None

    def recompute(self, query: Q, tables: Mapping[str, TableRows]) -> float | AnswerRows | None:
        """Row by row."""
        inside: dict[tuple[Scalar | None, ...], tuple[Scalar | None, ...]] = {}
        for key, row in tables[query.table].items():
            given = self.contribution(query, key, row)
            if given is not None:
                inside[key] = given
        return self.fold(query, inside.values()) if query.shape is AnswerShape.NUMBER else inside


def subscription(select: exp.Expr, bound: Bound = EXACT) -> nodes.Subscribe:
    """SUBSCRIBE to a SELECT, with the bound written out where it is not exact."""
    return nodes.Subscribe(
        this=select,
        alias=None,
        within=nodes.Within(this=literal_node(bound.within)) if bound != EXACT else None,
        fidelity=nodes.FidelityClause(this=literal_node(bound.fidelity)) if not bound.always else None,
    )
