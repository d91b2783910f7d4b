"""Cache kind: a selection of whole rows that planning changes; its text is `CACHE client OF table LIMIT rows`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from slackwater.core.errors import SchemaError
from slackwater.core.hosts import HostKind
from slackwater.core.query import StandingQuery
from slackwater.core.region import NOTHING, Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import Key, Scalar
from slackwater.kinds.base import TableKind, UnboundSubscription
from slackwater.kinds.cache.query import CacheQuery, CacheText
from slackwater.kinds.selection.kind import SelectionKind
from slackwater.sql.catalog import Catalog
from slackwater.sql.explain_tree import Detail, ExplainTree, rows_tree

_SELECTIONS = SelectionKind()


class CacheKind(TableKind[CacheQuery]):
    """A client's copy of a table, of which a part is pushed."""

    name = "cache"
    value = CacheQuery
    tag = _SELECTIONS.tag
    hosts = frozenset({HostKind.NODE})
    holds_table = False

    def bind_text(self, text: str, tables: Mapping[str, TableSchema]) -> tuple[CacheQuery, str] | None:
        """`CACHE desk-7 OF cars LIMIT 10000`: it begins with labels that push nothing."""
        cache = CacheText.read(text)
        if cache is None:
            return None
        table = tables.get(cache.table)
        if table is None:
            known = ", ".join(sorted(tables)) or "none"
            raise SchemaError(f"there is no table {cache.table!r}; the tables are: {known}")
        columns = tuple(column.name for column in table.columns)
        return CacheQuery(cache.client, cache.limit, table.name, columns, NOTHING), str(cache)

    def matches(self, tree: exp.Expr) -> bool:
        """No SQL is a cache."""
        return False

    def bind(self, asked: UnboundSubscription) -> CacheQuery:
        """No SQL is a cache."""
        raise NotImplementedError

    def syntax(self, query: CacheQuery, catalog: Catalog) -> exp.Expr:
        """The rows that are pushed, as a selection of them."""
        return _SELECTIONS.syntax(query.selection, catalog)

    def explain(self, query: CacheQuery) -> ExplainTree:
        """Its client and the pushed region."""
        details = (Detail("client", query.client), Detail("room", query.limit, "rows"))
        return ExplainTree("cache", details, (rows_tree(query.table, query.region),))

    def encode(self, query: CacheQuery) -> list[Any]:
        """As the selection of the rows that are pushed."""
        return _SELECTIONS.encode(query.selection)

    def decode(self, plain: list[Any], text: str) -> CacheQuery | None:
        """From such a selection, where it was registered as a cache."""
        cache = CacheText.read(text)
        pushed = _SELECTIONS.decode(plain, text) if cache is not None else None
        if cache is None or pushed is None:
            return None
        return CacheQuery(cache.client, cache.limit, pushed.table, pushed.columns, pushed.region)

    def check(self, query: CacheQuery, schemas: Sequence[TableSchema]) -> None:
        """As for a selection."""
        _SELECTIONS.check(query.selection, schemas)

    def conjoin(self, query: CacheQuery, table: str, rows: Region) -> CacheQuery:
        """Fewer rows are pushed."""
        return replace(query, region=query.region.intersect(rows))

    def kept_as(self, query: CacheQuery) -> StandingQuery:
        """The selection of the rows that are pushed."""
        return query.selection

    def contribution(
        self, query: CacheQuery, key: Key, row: Mapping[str, Scalar | None]
    ) -> tuple[Scalar | None, ...] | None:
        """The whole row, if it is pushed."""
        return _SELECTIONS.contribution(query.selection, key, row)
