"""Aggregate kind: `SUBSCRIBE SELECT SUM(column) FROM table WHERE region WITHIN bound`, and its like."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from slackwater.core.bound import Bound
from slackwater.core.errors import AlgebraError, SchemaError
from slackwater.core.hosts import HostKind
from slackwater.core.query import Aggregate, AggregateFunction, StandingQuery, Weight
from slackwater.core.region import Region
from slackwater.core.region_codec import plain_region, region_of
from slackwater.core.schema import TableSchema
from slackwater.core.types import DataType, Key, Scalar
from slackwater.kinds.aggregate.binder import aggregate
from slackwater.kinds.aggregate.syntax import aggregate_select
from slackwater.kinds.base import TableKind, UnboundSubscription, subscription
from slackwater.kinds.checks import check_region
from slackwater.sql.catalog import Catalog
from slackwater.sql.condition import where
from slackwater.sql.explain_tree import Detail, ExplainTree, bound_details, rows_tree
from slackwater.sql.shape import has_aggregates
from slackwater.sql.syntax import table_schema
from slackwater.sql.tables import from_table


class AggregateKind(TableKind[Aggregate]):
    """One number over rows of one table."""

    name = "aggregate"
    value = Aggregate
    hosts = frozenset({HostKind.NODE, HostKind.SPARK, HostKind.NETWORK})
    bounded = True

    def matches(self, tree: exp.Expr) -> bool:
        """One table, perhaps with a list of weights, and an aggregate function over it."""
        return has_aggregates(tree)

    def bind(self, asked: UnboundSubscription) -> Aggregate:
        """Function, column, scale, weights and region."""
        table, names = from_table(asked.select, asked.catalog, asked.text)
        within = asked.tree.args.get("within")
        if within is not None and asked.bound.always and asked.catalog.pull_only(table.name):
            asked.text.refuse(
                f"table {table.name} is only known when its sources are fetched, so no bound holds always; "
                f"say how often it must hold, as in WITHIN {within.this.sql()} FIDELITY 98%",
                within,
            )
        return aggregate(asked.select, table, names, asked.bound, where(asked.select, names), asked.text)

    def syntax(self, query: Aggregate, catalog: Catalog) -> exp.Expr:
        """SELECT function FROM table JOIN weights WHERE region WITHIN bound."""
        return subscription(aggregate_select(query, table_schema(query.table, catalog)), query.bound)

    def explain(self, query: Aggregate) -> ExplainTree:
        """Its function, its bound and its region."""
        details = [Detail("function", query.function.value), Detail("column", query.column or "*")]
        if query.scale != 1.0:
            details.append(Detail("scale", query.scale))
        if query.weights is not None:
            details.append(Detail("weighted items", len(query.weights)))
        details += bound_details(query.bound)
        return ExplainTree("aggregate", tuple(details), (rows_tree(query.table, query.region),))

    def encode(self, query: Aggregate) -> list[Any]:
        """As lists."""
        weights = None if query.weights is None else [[list(weight.key), weight.factor] for weight in query.weights]
        bound = [query.bound.within, query.bound.fidelity]
        region = plain_region(query.region)
        return [self.tag, query.table, query.function.value, query.column, bound, region, weights, query.scale]

    def decode(self, plain: list[Any], text: str) -> Aggregate | None:
        """From lists."""
        _, table, function, column, bound, region, listed, scale = plain
        weights = None if listed is None else tuple(Weight(tuple(key), factor) for key, factor in listed)
        return Aggregate(table, AggregateFunction(function), column, Bound(*bound), region_of(region), weights, scale)

    def check(self, query: Aggregate, schemas: Sequence[TableSchema]) -> None:
        """Its column is of numbers, its weights are of keys, its region fits the table."""
        [table] = schemas
        check_region(query.region, table)
        if query.column is not None:
            kind = table.column(query.column).type
            if query.function is not AggregateFunction.COUNT and not kind.numeric:
                raise SchemaError(f"{query.function.value} needs numbers and column {query.column} is {kind.value}")
        kinds = [table.column(name).type for name in table.key]
        for weight in query.weights or ():
            if len(weight.key) != len(kinds) or not all(map(DataType.holds, kinds, weight.key)):
                raise SchemaError(
                    f"the key of table {table.name} is {', '.join(table.key)} ({', '.join(k.value for k in kinds)}); "
                    f"a weight is given to {weight.key}"
                )
            if not math.isfinite(query.scale * weight.factor):
                raise AlgebraError(f"the weight of {weight.key} times {query.scale:g} is beyond DOUBLE")

    def conjoin(self, query: Aggregate, table: str, rows: Region) -> Aggregate:
        """The same number over fewer rows."""
        return replace(query, region=query.region.intersect(rows))

    def contribution(
        self, query: Aggregate, key: Key, row: Mapping[str, Scalar | None]
    ) -> tuple[Scalar | None, ...] | None:
        """scale · weight · value, of a row in the region with a value and a weight."""
        factor: float | None = 1.0
        if query.weights is not None:
            factor = next((weight.factor for weight in query.weights if weight.key == key), None)
        if factor is None or not query.region.contains(row.__getitem__):
            return None
        value = 1.0 if query.column is None else row[query.column]
        if query.function is AggregateFunction.COUNT:
            return None if value is None else (1.0,)
        if value is None:
            return None
        assert isinstance(value, float | int)
        return (query.scale * factor * float(value),)

    def fold(self, query: Aggregate, contributions: Iterable[tuple[Scalar | None, ...]]) -> float | None:
        """The function over the contributions, correctly rounded."""
        numbers = [number for (number,) in contributions if isinstance(number, float)]
        match query.function:
            case AggregateFunction.COUNT:
                return float(len(numbers))
            case _ if not numbers:
                return None
            case AggregateFunction.MIN:
                return min(numbers)
            case AggregateFunction.MAX:
                return max(numbers)
            case AggregateFunction.SUM:
                return math.fsum(numbers)
            case AggregateFunction.AVG:
                return math.fsum(numbers) / len(numbers)


def as_aggregate(query: StandingQuery | None) -> Aggregate | None:
    """The query, if it is an aggregate."""
    return query if isinstance(query, Aggregate) else None
