"""Mirrored items: the items an aggregator holds with their bounds, and the queries it can keep over them.

Tables fall into four kinds: *mirrored* (their rows are items of upstreams), *polled* at a fixed period, *pulled* when
their queries need it, and all others, which are filled here and are exact. A table is *complete* where its owner says
that there are no other keys upstream than those held.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from slackwater.aggregator.base import Item
from slackwater.aggregator.inherited_error import floor, in_words, rest
from slackwater.aggregator.pull.pull_state import feed_of, kept_by_operators
from slackwater.core.errors import NotSupported
from slackwater.core.query import AggregateFunction, AnswerShape, StandingQuery, TableQuery
from slackwater.core.region_keys import keys_in, may_hold
from slackwater.core.schema import TableSchema
from slackwater.core.types import Key
from slackwater.kinds.aggregate.kind import as_aggregate
from slackwater.kinds.registry import kind_of
from slackwater.kinds.selection.kind import as_selection

_ASK_UPSTREAM = "ask the upstream for it"


@dataclass(frozen=True, slots=True)
class _ItemsRead:
    """Read set of a query: keys, and the columns of them that its answer depends on."""

    keys: frozenset[Key]
    weights: Mapping[Key, float]
    columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class PulledTable:
    """A table whose rows are pulled: which column of them, and which keys there are."""

    value: str
    keys: frozenset[Key]


class MirroredItems:
    """All items, the tables that are polled (by the name of their source), and those that are pulled."""

    def __init__(
        self,
        items: Iterable[Item],
        complete: Iterable[str] = (),
        polled: Mapping[str, str] | None = None,
        pulled: Mapping[str, PulledTable] | None = None,
    ) -> None:
        self._complete = frozenset(complete)
        self.polled = dict(polled or {})
        self.pulled = dict(pulled or {})
        self.orphaned: frozenset[str] = frozenset()
        """Tables whose rows came from elsewhere and come no longer: what is left of them is as it was, and no more."""
        self._tables: dict[str, dict[str, dict[Key, Item]]] = {}
        for item in items:
            self._tables.setdefault(item.table, {}).setdefault(item.column, {})[item.key] = item

    @property
    def columns(self) -> dict[tuple[str, str], Mapping[Key, Item]]:
        """The items that come from upstream, by table and column, and by key."""
        return {(table, column): held for table, some in self._tables.items() for column, held in some.items()}

    def mirrored(self, table: str) -> bool:
        """Whether the rows of a table come from upstream."""
        return table in self._tables

    def exact(self, table: str) -> bool:
        """Whether the rows of a table are all there are, and as they are."""
        columns = self._tables.get(table, {}).values()
        if table in self.orphaned:
            return False
        all_there = table not in self._tables or table in self._complete
        return all_there and all(item.within == 0 for held in columns for item in held.values())

    @property
    def fed(self) -> frozenset[str]:
        """The tables whose rows come from elsewhere."""
        return frozenset({*self._tables, *self.polled, *self.pulled})

    def check(self, query: StandingQuery, schema: TableSchema) -> None:
        """Refuse a query that cannot be kept here."""
        self.held(query, schema)

    def held(self, query: StandingQuery, schema: TableSchema) -> StandingQuery:
        """The query as it has to be kept over what is held, so that it is right within its own bound."""
        query = _of_one_table(query)
        if query.table in self.orphaned:
            raise NotSupported(
                f"the rows of {query.table} came from elsewhere, and nothing brings them any more: configure where "
                f"they come from, or drop the table"
            )
        if query.table in self.polled or query.table in self.pulled:
            self._check_polled(query)
        number = as_aggregate(query)
        if number is not None and query.table in self.pulled:
            self.items(query, schema)
            return kept_by_operators(number)
        if query.table not in self._tables:
            return query
        taken = self._floor(query, schema)
        if number is None:
            return query
        if Fraction(query.bound.within) < taken:
            asked = "exactly" if query.bound.within == 0 else f"within {query.bound.within:g}"
            raise NotSupported(
                f"this aggregator holds the items of {query.table} only so closely that the query cannot be kept "
                f"{asked}: the tightest bound that can be promised here is WITHIN {in_words(taken)}"
            )
        return replace(number, bound=replace(query.bound, within=rest(query.bound.within, taken)))

    def feeds(self, query: StandingQuery, schema: TableSchema) -> frozenset[str]:
        """The upstreams, or the source, that a query which is kept here depends on."""
        query = _of_one_table(query)
        if query.table in self.polled:
            return frozenset({self.polled[query.table]})
        if query.table in self.pulled:
            return frozenset(feed_of(query.table, str(key[0])) for key in self.items(query, schema))
        if query.table not in self._tables:
            return frozenset()
        keys = self._reading(query, schema).keys
        columns = self._tables[query.table].values()
        return frozenset(held[key].upstream for held in columns for key in keys if key in held)

    def items(self, query: TableQuery, schema: TableSchema) -> frozenset[Key]:
        """The keys that a query on a pulled table reads."""
        pulled = self.pulled[query.table]
        keys = keys_in(query.region, schema)
        number = as_aggregate(query)
        if number is not None:
            if number.weights is not None:
                listed = frozenset(
                    weight.key for weight in number.weights if may_hold(query.region, weight.key, schema)
                )
                keys = listed if keys is None else keys & listed
            conditions = {name for box in query.region for name in box.columns} - set(schema.key)
            if conditions or number.column not in (None, pulled.value):
                name = min(conditions) if conditions else number.column
                raise NotSupported(
                    f"of {query.table} only {pulled.value} is pulled, and may be summed up but not asked for by a "
                    f"condition; leave out {name}"
                )
        keys = pulled.keys if keys is None else keys
        keys = frozenset(key for key in keys if may_hold(query.region, key, schema))
        if keys - pulled.keys:
            named = ", ".join(repr(key[0]) for key in sorted(keys - pulled.keys, key=repr)[:3])
            raise NotSupported(f"{named} of {query.table} is not among the keys that are pulled here")
        return keys

    def _check_polled(self, query: TableQuery) -> None:
        if query.shape is AnswerShape.NUMBER and query.bound.always:
            raise NotSupported(
                f"the rows of {query.table} are polled, and between two polls nothing is known: no bound can be kept "
                f"always; say for which share of the time it has to hold, as in WITHIN {query.bound.within or 10:g} "
                f"FIDELITY 95%"
            )

    def _floor(self, query: TableQuery, schema: TableSchema) -> Fraction:
        reading = self._reading(query, schema)
        held = self._tables[query.table]
        values = reading.columns - set(schema.key)
        for column in sorted(values):
            self._check_held(query.table, column, reading.keys)
        conditions = {name for box in query.region for name in box.columns} - set(schema.key)
        number = as_aggregate(query)
        exact = values if number is None else conditions
        for column in sorted(exact):
            if any(held[column][key].within > 0 for key in reading.keys):
                what = "rows" if number is None else f"a condition on {column}"
                raise NotSupported(
                    f"this aggregator holds {column} of {query.table} within a bound, and {what} would need it "
                    f"exactly; {_ASK_UPSTREAM}"
                )
        if number is None or number.column is None or number.column in schema.key:
            self._check_presence(query, schema, reading.keys)
            return Fraction(0)
        parts = ((reading.weights.get(key, 1.0), held[number.column][key].within) for key in reading.keys)
        return floor(number.function, number.scale, parts)

    def _reading(self, query: TableQuery, schema: TableSchema) -> _ItemsRead:
        """Which items a query reads; it is refused where that may be others than those held."""
        columns = {name for box in query.region for name in box.columns}
        weights: dict[Key, float] = {}
        number = as_aggregate(query)
        if number is None:
            columns |= set(query.columns)
        elif number.column is not None:
            columns.add(number.column)
        keys = keys_in(query.region, schema)
        if number is not None and number.weights is not None:
            weights = {weight.key: weight.factor for weight in number.weights}
            listed = frozenset(key for key in weights if may_hold(query.region, key, schema))
            keys = listed if keys is None else keys & listed
        if query.table in self._complete:
            there = frozenset(key for held in self._tables[query.table].values() for key in held)
            keys = there if keys is None else keys & there
            keys = frozenset(key for key in keys if may_hold(query.region, key, schema))
        if keys is None:
            raise NotSupported(
                f"this aggregator holds some keys of {query.table}, and the query may read others: list them, as in "
                f"WHERE {schema.key[0]} IN (…), or {_ASK_UPSTREAM}"
            )
        return _ItemsRead(keys, weights, frozenset(columns))

    def _check_held(self, table: str, column: str, keys: frozenset[Key]) -> None:
        missing = keys - self._tables[table].get(column, {}).keys()
        if missing:
            named = ", ".join(repr(key[0] if len(key) == 1 else key) for key in sorted(missing, key=repr)[:3])
            more = f" and {len(missing) - 3} others" if len(missing) > 3 else ""
            raise NotSupported(f"this aggregator does not hold {column} of {table} for {named}{more}; {_ASK_UPSTREAM}")

    def _check_presence(self, query: TableQuery, schema: TableSchema, keys: frozenset[Key]) -> None:
        """Return whether the presence of a row follows from a column that is never null."""
        telling = [
            held
            for column, held in self._tables[query.table].items()
            if schema.has(column) and not schema.column(column).nullable
        ]
        if all(any(key in held for held in telling) for key in keys):
            return
        number = as_aggregate(query)
        counted = number is not None and number.function is AggregateFunction.COUNT
        column = next(iter(self._tables[query.table]))
        instead = f"count a column, as in COUNT({column}), or {_ASK_UPSTREAM}" if counted else _ASK_UPSTREAM
        raise NotSupported(
            f"a row of {query.table} whose {column} is null cannot be told from one that is not there; {instead}"
        )


def _of_one_table(query: StandingQuery) -> TableQuery:
    if len(query.tables) > 1:
        raise NotSupported(
            f"an aggregator keeps no joins: what it holds of {' and '.join(query.tables)} need not be of one moment; "
            "subscribe to the join at the server that has both tables"
        )
    found = as_aggregate(query) or as_selection(query)
    if found is None:
        raise NotSupported(f"an aggregator keeps selections and aggregates, and no {kind_of(query).name}")
    return found
