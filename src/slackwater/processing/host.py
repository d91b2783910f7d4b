"""The host of operators: tables, standing queries, and which operator keeps which.

A host is handed the records of a log one after the other, each with the position at its end, and has no other input:
its state is a function of the log and of where the batches were cut. It does no I/O. A node drives it from its log, a
Spark executor from a micro-batch, the simulator from a script.

>>> from slackwater.core import Aggregate, AggregateFunction, Bound, Column, DataType, Instant, Origin, Position
>>> from slackwater.core import TableSchema, Update
>>> from slackwater.core.arrow import to_batch
>>> columns = (Column("room", DataType.TEXT, nullable=False), Column("celsius", DataType.DOUBLE))
>>> rooms = TableSchema("rooms", columns, key=("room",))
>>> host = Host()
>>> host.define(rooms, Position(1))
>>> host.register(1, Aggregate("rooms", AggregateFunction.AVG, "celsius", Bound(0.5)), Position(2)).value
>>> for position, celsius in enumerate([20.0, 20.4, 20.6], start=3):
...     batch = to_batch(rooms, [Update("rooms", ("a", celsius), Instant(position), Origin("sensor", position))])
...     said = host.apply("rooms", batch, Position(position))
...     print(celsius, said.values.values.tolist() if said.values else "nothing to say")
20.0 [20.0]
20.4 nothing to say
20.6 [20.6]
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import msgspec
import pyarrow as pa

from slackwater.core.errors import NotSupported, SchemaError, StoreError
from slackwater.core.joined import schema_named
from slackwater.core.query import Aggregate, Join, Selection, StandingQuery
from slackwater.core.region import Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import Instant, Position
from slackwater.processing import state
from slackwater.processing.base import Answer, Changes, Notifications, Operator
from slackwater.processing.bounded import BoundedAggregates
from slackwater.processing.bounded.item_list import listed
from slackwater.processing.concatenate import gathered
from slackwater.processing.joined import Family, FamilyShape, StandingJoins, Surveyed
from slackwater.processing.latest import LatestTable
from slackwater.processing.queries import check_join, check_query, plain_query, query_of
from slackwater.processing.regions import inside
from slackwater.processing.selection import Selections


def operators() -> tuple[Operator, ...]:
    """The operators a host has unless it is told otherwise; the first that accepts a query keeps it."""
    return (BoundedAggregates(), Selections())


class Host:
    """Tables and standing queries at one position of a log."""

    def __init__(self, kept_by: Sequence[Operator] | None = None) -> None:
        self.joins = StandingJoins()
        self._operators = tuple(operators() if kept_by is None else kept_by)
        self._tables: dict[str, LatestTable] = {}
        self._queries: dict[int, StandingQuery] = {}
        self._keepers: dict[int, Operator | StandingJoins] = {}
        self._encoded: dict[int, msgspec.Raw] = {}
        """Queries as they stand in a snapshot, made when the first one is taken: most queries outlive many."""
        self._position = Position(0)
        self.watch: Callable[[Changes], None] | None = None
        """Is shown what every batch changes; not part of the state."""

    @property
    def position(self) -> Position:
        """The end of what has been applied."""
        return self._position

    @property
    def tables(self) -> Mapping[str, TableSchema]:
        """The tables there are."""
        return {name: table.schema for name, table in self._tables.items()}

    @property
    def queries(self) -> Mapping[int, StandingQuery]:
        """The standing queries by number."""
        return MappingProxyType(self._queries)

    def query(self, number: int) -> StandingQuery:
        """The standing query of this number."""
        try:
            return self._queries[number]
        except KeyError:
            raise StoreError(f"there is no standing query {number}; it was never registered, or was dropped") from None

    def latest(self, table: str) -> LatestTable:
        """The latest state of a table."""
        try:
            return self._tables[table]
        except KeyError:
            known = ", ".join(sorted(self._tables)) or "none"
            raise SchemaError(f"there is no table {table!r}; the tables are: {known}") from None

    def define(self, schema: TableSchema, position: Position) -> None:
        """A table is made, or gets more columns."""
        self._check_order(position)
        if schema.name in self._tables:
            self._tables[schema.name].widen(schema)
        else:
            self._tables[schema.name] = LatestTable(schema)
        self._position = position

    def drop(self, table: str, position: Position) -> None:
        """A table goes; it must not have queries standing on it."""
        self._check_order(position)
        self.latest(table)
        standing = sorted(number for number, query in self._queries.items() if table in query.tables)
        if standing:
            some = ", ".join(map(str, standing[:10])) + (", …" if len(standing) > 10 else "")
            raise SchemaError(
                f"table {table} cannot be dropped: {len(standing)} standing "
                f"{'query reads' if len(standing) == 1 else 'queries read'} it ({some}); drop them first"
            )
        del self._tables[table]
        self._position = position

    def register(self, number: int, query: StandingQuery, position: Position) -> Answer:
        """Keep a query from now on; one of the same number is replaced."""
        self._check_order(position)
        keeper = self._checked(query)
        former = self._keepers.get(number)
        if former is not None and former is not keeper:
            former.unregister(number, position)
        if isinstance(keeper, StandingJoins):
            answer = keeper.register(number, query, self._tables, position)
        else:
            answer = keeper.register(number, query, self.latest(query.table), position)
        self._queries[number], self._keepers[number] = query, keeper
        self._encoded.pop(number, None)
        self._position = position
        return answer

    def foresee(self, query: StandingQuery, position: Position) -> None:
        """Another host of the same log keeps a query from now on: give its keys the slots that it gives them.

        Sums are added in the order of slots, so hosts that share queries must number keys alike.
        """
        self._check_order(position)
        self._checked(query)
        latest = self.latest(query.table)
        if isinstance(query, Aggregate) and listed(query, latest) is None:
            for weight in query.weights or ():
                latest.slot_of(weight.key)
        self._position = position

    def attend(self, number: int, query: StandingQuery, position: Position) -> None:
        """Another shard keeps a join from now on: find its results with the rows that are this shard's."""
        self._check_order(position)
        self._checked(query)
        self.unregister(number, position)
        self.joins.attend(number, query, position)

    def unregister(self, number: int, position: Position) -> None:
        """Forget a query; forgetting one that is not there does nothing."""
        self._check_order(position)
        if number in self._queries:
            self._keepers.pop(number).unregister(number, position)
            self._encoded.pop(number, None)
            del self._queries[number]
        else:
            self.joins.unregister(number, position)
        self._position = position

    def apply(self, table: str, batch: pa.RecordBatch, position: Position) -> Notifications:
        """Take a batch of updates in; what comes back is right as of `position`."""
        return self.apply_all({table: batch}, position)

    def apply_all(self, batches: Mapping[str, pa.RecordBatch], position: Position) -> Notifications:
        """Take batches of several tables in as one: a pair of rows that both changed is said once."""
        self._check_order(position)
        tables = {name: self.latest(name) for name in sorted(batches)}
        changes = [table.fold(batches[name]) for name, table in tables.items()]
        self._position = position
        if self.watch is not None:
            for one in changes:
                if len(one):
                    self.watch(one)
        said = [
            operator.apply(one, tables[one.table], position)
            for one in changes
            if len(one)
            for operator in self._operators
        ]
        pairs = self.joins.apply(changes, self._tables, position)
        everything = merged([*said, pairs], position)
        # In the order of names, as several hosts together say it.
        rows = tuple(sorted(everything.rows, key=lambda rows: rows.table))
        return replace(everything, rows=rows)

    def advance(self, time: Instant, position: Position) -> Notifications:
        """Let time pass."""
        self._check_order(position)
        self._position = position
        return merged([operator.advance(time, position) for operator in self._operators], position)

    def answer(self, number: int) -> Answer:
        """What has been said of a query so far: what a new subscriber is told."""
        query = self.query(number)
        keeper = self._keepers[number]
        if isinstance(keeper, StandingJoins):
            return keeper.answer(number, self._tables)
        return keeper.answer(number, self._tables[query.table])

    def check_size(self, query: StandingQuery) -> None:
        """Refuse a query that fits the tables, but whose answer has more rows by now than are kept."""
        if isinstance(query, Join):
            self._checked(query)
            self.joins.check_size(query, self._tables)

    def wake(self, number: int) -> None:
        """Follow a query again that was halted; refused while it would be again."""
        self.joins.wake(number, self._tables)

    def select(self, table: str, region: Region) -> pa.RecordBatch:
        """The rows of a table that lie in a region now."""
        latest = self.latest(table)
        check_query(Selection(table, (), region), latest.schema)
        rows = latest.rows
        chosen = inside(region, latest.schema, rows)
        return rows if chosen.all() else rows.filter(pa.array(chosen))

    def snapshot(self) -> bytes:
        """The whole state."""
        return state.pack(
            "host",
            {
                "position": self._position,
                "tables": [self._tables[name].snapshot() for name in sorted(self._tables)],
                "queries": [self._plain(number) for number in sorted(self._queries)],
                "operators": [[type(operator).__name__, operator.snapshot()] for operator in self._operators],
                "joins": self.joins.snapshot(),
            },
        )

    def families(self) -> Mapping[FamilyShape, Family]:
        """The joins that stand, by what they have in common."""
        return self.joins.founded(self._tables)

    def survey(self, shards: int, others: Iterable[Join] = ()) -> list[Surveyed]:
        """How the rows and joins lie that would be cut for so many shards; `others` are joins that other hosts keep."""
        return self.joins.survey(self._tables, shards, others)

    def schema(self, name: str) -> TableSchema:
        """A table's, or that of the joins that go by this name."""
        return schema_named(name, lambda table: self.latest(table).schema)

    def _checked(self, query: StandingQuery) -> Operator | StandingJoins:
        """Who keeps a query, if it fits the tables."""
        schemas = [self.latest(name).schema for name in query.tables]
        if isinstance(query, Join):
            check_join(query, *schemas)
        else:
            check_query(query, *schemas)
        return self._keeper(query)

    def _keeper(self, query: StandingQuery) -> Operator | StandingJoins:
        if self.joins.accepts(query):
            return self.joins
        found = next((operator for operator in self._operators if operator.accepts(query)), None)
        if found is None:
            raise NotSupported(f"no operator keeps queries of the kind {type(query).__name__}")
        return found

    def _plain(self, number: int) -> msgspec.Raw:
        known = self._encoded.get(number)
        if known is None:
            plain = [number, plain_query(self._queries[number])]
            known = self._encoded[number] = msgspec.Raw(msgspec.msgpack.encode(plain))
        return known

    def restore(self, body: bytes) -> None:
        """Become what the snapshot was taken of; it must have been a host with the same operators."""
        parts = state.unpack("host", body)
        names = [type(operator).__name__ for operator in self._operators]
        found = [name for name, _ in parts["operators"]]
        if names != found:
            raise StoreError(f"the snapshot is of a host with {', '.join(found)}; this one has {', '.join(names)}")
        tables = [LatestTable.restore(table) for table in parts["tables"]]
        for operator, (_, own) in zip(self._operators, parts["operators"], strict=True):
            operator.restore(own)
        self.joins = StandingJoins(self.joins.most_results, self.joins.most_steps)
        if "joins" in parts:
            self.joins.restore(parts["joins"])
        self._tables = {table.schema.name: table for table in tables}
        self._queries = {number: query_of(plain) for number, plain in parts["queries"]}
        self._keepers = {number: self._keeper(query) for number, query in self._queries.items()}
        self._encoded = {}
        self._position = Position(parts["position"])

    def _check_order(self, position: Position) -> None:
        if position < self._position:
            raise StoreError(f"records are applied in order: this host stands at {self._position}, not at {position}")


def merged(said: Sequence[Notifications], position: Position) -> Notifications:
    """What several operators say, as one; values in order of their queries."""
    rows = tuple(part for one in said for part in one.rows if len(part))
    anew = tuple(sorted(number for one in said for number in one.anew))
    halted = tuple(sorted(number for one in said for number in one.halted))
    return Notifications(position, gathered(one.values for one in said), rows, anew, halted)
