"""Selection kind: `SUBSCRIBE SELECT columns FROM table WHERE region`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from slackwater.core.query import Selection, StandingQuery
from slackwater.core.region import Region
from slackwater.core.region_codec import plain_region, region_of
from slackwater.core.schema import TableSchema
from slackwater.core.types import Key, Scalar
from slackwater.kinds.base import TableKind, UnboundSubscription, subscription
from slackwater.kinds.checks import check_region
from slackwater.kinds.selection.binder import selection
from slackwater.sql.catalog import Catalog
from slackwater.sql.explain_tree import Detail, ExplainTree, rows_tree
from slackwater.sql.shape import plain_select
from slackwater.sql.syntax import column_node, name_node, table_schema, where_node


class SelectionKind(TableKind[Selection]):
    """Rows of one table."""

    name = "selection"
    value = Selection

    def matches(self, tree: exp.Expr) -> bool:
        """Any SELECT; kinds that ask for more stand before this one."""
        return plain_select(tree) is not None

    def bind(self, asked: UnboundSubscription) -> Selection:
        """Columns as they are, and a region."""
        return selection(asked.select, asked.catalog, asked.text)

    def syntax(self, query: Selection, catalog: Catalog) -> exp.Expr:
        """SELECT columns FROM table WHERE region."""
        table = table_schema(query.table, catalog)
        select = exp.Select(
            expressions=[column_node(name) for name in query.columns],
            from_=exp.From(this=exp.Table(this=name_node(query.table))),
            joins=[],
            where=where_node(query.region, table),
        )
        return subscription(select)

    def explain(self, query: Selection) -> ExplainTree:
        """Its columns and its region."""
        return ExplainTree("selection", (Detail("columns", query.columns),), (rows_tree(query.table, query.region),))

    def encode(self, query: Selection) -> list[Any]:
        """As lists."""
        return [self.tag, query.table, list(query.columns), plain_region(query.region)]

    def decode(self, plain: list[Any], text: str) -> Selection | None:
        """From lists."""
        _, table, columns, region = plain
        return Selection(table, tuple(columns), region_of(region))

    def check(self, query: Selection, schemas: Sequence[TableSchema]) -> None:
        """Its columns are there and its region fits them."""
        [table] = schemas
        check_region(query.region, table)
        for name in query.columns:
            table.column(name)

    def conjoin(self, query: Selection, table: str, rows: Region) -> Selection:
        """A smaller region."""
        return replace(query, region=query.region.intersect(rows))

    def contribution(
        self, query: Selection, key: Key, row: Mapping[str, Scalar | None]
    ) -> tuple[Scalar | None, ...] | None:
        """The columns shown."""
        return tuple(row[name] for name in query.columns) if query.region.contains(row.__getitem__) else None


def as_selection(query: StandingQuery | None) -> Selection | None:
    """The query, if it is a selection."""
    return query if isinstance(query, Selection) else None
