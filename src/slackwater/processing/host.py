"""Operator host: tables, standing queries, and the operator that keeps each of them.

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
...     output = host.apply("rooms", batch, Position(position))
...     print(celsius, output.values.values.tolist() if output.values else "within bound")
20.0 [20.0]
20.4 within bound
20.6 [20.6]
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from slackwater.core.errors import NotSupported, SchemaError, StoreError
from slackwater.core.query import StandingQuery
from slackwater.core.region import Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import Instant, Position
from slackwater.kinds.checks import check_region
from slackwater.kinds.registry import answer_schema, check_query
from slackwater.processing import state
from slackwater.processing.base import Answer, Changes, Notifications, Operator, Rebuild, TableOperator
from slackwater.processing.concatenate import merged
from slackwater.processing.kept_queries import KeptQueries
from slackwater.processing.latest import LatestTable
from slackwater.processing.one_table import OneTable
from slackwater.processing.operators import operators
from slackwater.processing.regions import inside
from slackwater.sql.explain_tree import ExplainTree


class Host:
    """Tables and standing queries at one position of a log."""

    def __init__(self, kept_by: Sequence[Operator | TableOperator] | None = None) -> None:
        chosen = operators() if kept_by is None else kept_by
        self.operators = tuple(OneTable(one) if isinstance(one, TableOperator) else one for one in chosen)
        self._tables: dict[str, LatestTable] = {}
        self._queries = KeptQueries()
        self._keepers: dict[int, Operator] = {}
        """The operators of queries; those of a snapshot that were not asked for since are missing."""
        self._position = Position(0)
        self._time = Instant(0)
        self._fits: tuple[StandingQuery, Operator] | None = None
        """The query that was checked last, and its operator; None when tables have changed since."""
        self.watchers: list[Callable[[Changes], None]] = []
        """Are shown what every batch changes; not part of the state."""
        self.rebuilt: dict[str, tuple[int, ...]] = {}
        """Operators whose state was not in the snapshot, or in an older form, and the queries registered again."""

    @property
    def position(self) -> Position:
        """The end of what has been applied."""
        return self._position

    @property
    def time(self) -> Instant:
        """Log time at the position: that of the latest tick, 0 before the first. Event times never move it."""
        return self._time

    @property
    def tables(self) -> Mapping[str, TableSchema]:
        """The tables there are."""
        return {name: table.schema for name, table in self._tables.items()}

    @property
    def latest_tables(self) -> Mapping[str, LatestTable]:
        """The latest state of each table."""
        return self._tables

    @property
    def queries(self) -> KeptQueries:
        """The standing queries by number."""
        return self._queries

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
        self._fits = None
        if schema.name in self._tables:
            self._tables[schema.name].widen(schema)
        else:
            self._tables[schema.name] = LatestTable(schema)
        self._position = position

    def drop(self, table: str, position: Position) -> None:
        """A table goes; it must not have queries standing on it."""
        self._check_order(position)
        self._fits = None
        self.latest(table)
        standing = self._queries.reading(table)
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
        former = self._keeper_of(number) if number in self._queries else keeper
        if former is not keeper:
            former.unregister(number, position)
        answer = keeper.register(number, query, self._tables, position)
        self._queries.put(number, query)
        self._keepers[number] = keeper
        self._position = position
        return answer

    def foresee(self, query: StandingQuery, position: Position) -> None:
        """Another host of the same log keeps a query from now on: give its keys the slots that it gives them.

        Sums are added in the order of slots, so hosts that share queries must number keys alike.
        """
        self._check_order(position)
        self._checked(query).foresee(query, self._tables)
        self._position = position

    def attend(self, number: int, query: StandingQuery, position: Position) -> bool:
        """Another shard keeps a query from now on: find its results with the rows that are this shard's, if it can."""
        self._check_order(position)
        keeper = self._checked(query)
        self.unregister(number, position)
        return keeper.attend(number, query, position)

    def attends(self, number: int) -> bool:
        """Whether results of a query are found here, even if another shard keeps it."""
        return any(operator.attends(number) for operator in self.operators)

    def unregister(self, number: int, position: Position) -> None:
        """Forget a query; forgetting one that is not there does nothing."""
        self._check_order(position)
        if number in self._queries:
            self._keeper_of(number).unregister(number, position)
            self._keepers.pop(number, None)
            self._queries.pop(number)
        else:
            for operator in self.operators:
                if operator.attends(number):
                    operator.unregister(number, position)
        self._position = position

    def apply(self, table: str, batch: pa.RecordBatch, position: Position) -> Notifications:
        """Take a batch of updates in; what comes back is right as of `position`."""
        self._check_order(position)
        return self._publish([self.latest(table).fold(batch)], position)

    def apply_all(self, batches: Mapping[str, pa.RecordBatch], position: Position) -> Notifications:
        """Take batches of several tables in as one: a pair of rows that both changed is published once."""
        self._check_order(position)
        tables = {name: self.latest(name) for name in sorted(batches)}
        return self._publish([table.fold(batches[name]) for name, table in tables.items()], position)

    def _publish(self, changes: Sequence[Changes], position: Position) -> Notifications:
        """What the operators say to changes."""
        self._position = position
        for watch in self.watchers:
            for one in changes:
                if len(one):
                    watch(one)
        return _combined([one.apply(changes, self._tables, position) for one in self.operators], position)

    def advance(self, time: Instant, position: Position) -> Notifications:
        """Let time pass. It never goes back: a tick that is not later than log time changes only the position."""
        self._check_order(position)
        self._position = position
        if time <= self._time:
            return Notifications(position)
        self._time = time
        return _combined([operator.advance(time, position) for operator in self.operators], position)

    def answer(self, number: int) -> Answer:
        """Everything published of a query so far: the first answer of a new subscriber."""
        query = self.query(number)
        return self._keeper_of(number).answer(number, query, self._tables)

    def check_size(self, query: StandingQuery) -> None:
        """Refuse a query that fits the tables, but whose answer is larger by now than is kept."""
        self._checked(query).check_size(query, self._tables)

    def check_families(self, query: StandingQuery, known: Collection[Hashable]) -> None:
        """Refuse a query that needs something of its own, where there is too much of that."""
        self._keeper(query).check_families(query, known, len(known))

    def family(self, query: StandingQuery) -> Hashable | None:
        """Structures that are kept once for all queries that share them."""
        return self._keeper(query).family(query)

    def weight(self, number: int) -> int:
        """How much work a query is to a shard."""
        return self._keeper_of(number).weight(number, self._queries[number])

    def counters(self) -> dict[str, int]:
        """Counters of the operators."""
        return {name: count for operator in self.operators for name, count in operator.counters.items()}

    def explain(self, query: StandingQuery) -> ExplainTree | None:
        """How a query is kept, or would be."""
        return self._checked(query).explain(query, self._tables, self._position)

    def halted(self) -> dict[int, str]:
        """Queries that are not followed, and why."""
        return {number: why for operator in self.operators for number, why in operator.halted.items()}

    def limit(self, results: int, steps: int) -> None:
        """Halt what needs more results, or more steps, in one step of the log."""
        for operator in self.operators:
            operator.limit(results, steps)

    def wake(self, number: int) -> None:
        """Follow a query again that was halted; refused while it would be again."""
        self._keeper_of(number).wake(number, self._tables)

    def settle(self) -> None:
        """Run the work that was deferred when a snapshot was read."""
        for operator in self.operators:
            operator.settle(self._tables)

    def cold(self, query: StandingQuery) -> bool:
        """Whether kernels are still to be compiled before a query is registered quickly."""
        return self._keeper(query).cold

    def warm_up(self, query: StandingQuery) -> None:
        """Compile it, on any thread."""
        self._keeper(query).warm_up()

    def spread(self, part: object) -> None:
        """Be one of several shards from now on, or the only one."""
        for operator in self.operators:
            operator.spread(part)

    def survey(self, shards: int, others: Iterable[StandingQuery] = ()) -> list[Any]:
        """How rows and queries lie that would be cut for so many shards; `others` are kept by other hosts."""
        by_keeper: dict[int, list[StandingQuery]] = {}
        for query in others:
            by_keeper.setdefault(id(self._keeper(query)), []).append(query)
        return [
            seen
            for operator in self.operators
            for seen in operator.survey(self._tables, shards, by_keeper.get(id(operator), ()))
        ]

    def select(self, table: str, region: Region) -> pa.RecordBatch:
        """The rows of a table that lie in a region now."""
        latest = self.latest(table)
        check_region(region, latest.schema)
        rows = latest.rows
        chosen = inside(region, latest.schema, rows)
        return rows if chosen.all() else rows.filter(pa.array(chosen))

    def snapshot(self) -> bytes:
        """The whole state."""
        return state.pack(
            "host",
            {
                "position": self._position,
                "time": self._time,
                "tables": [self._tables[name].snapshot() for name in sorted(self._tables)],
                "queries": self._queries.plain(),
                "operators": [[one.name, one.snapshot(), one.version] for one in self.operators],
            },
        )

    def schema(self, name: str) -> TableSchema:
        """A table's, or that of the joins that go by this name."""
        return answer_schema(name, lambda table: self.latest(table).schema)

    def _checked(self, query: StandingQuery) -> Operator:
        """Return the operator that keeps a query, if it fits the tables."""
        if self._fits is None or self._fits[0] is not query:
            check_query(query, lambda name: self.latest(name).schema)
            self._fits = query, self._keeper(query)
        return self._fits[1]

    def _keeper(self, query: StandingQuery) -> Operator:
        found = next((operator for operator in self.operators if operator.accepts(query)), None)
        if found is None:
            raise NotSupported(f"no operator keeps queries of the kind {type(query).__name__}")
        return found

    def _keeper_of(self, number: int) -> Operator:
        """The operator of a query that is kept."""
        keeper = self._keepers.get(number)
        if keeper is None:
            keeper = self._keepers[number] = self._keeper(self._queries[number])
        return keeper

    def restore(self, body: bytes) -> None:
        """Restore the state from a snapshot.

        Parts of it belong to operators by name and version. An operator whose part is missing, or of another version,
        is rebuilt from its declared source (`Rebuild`); parts of operators that are not here are passed over.
        """
        parts = state.unpack("host", body)
        found = {name: (own, *version) for name, own, *version in parts["operators"]}
        if "joins" in parts:
            # As it was written before all operators were of one sort.
            found["StandingJoins"] = (parts["joins"],)
        for number in self._queries:
            self._keeper_of(number).unregister(number, self._position)
        self._tables = {table.schema.name: table for table in map(LatestTable.restore, parts["tables"])}
        self._queries, self._keepers = KeptQueries.of(parts["queries"]), {}
        self.rebuilt, self._fits = {}, None
        self._position = Position(parts["position"])
        # Snapshots of before there was a log clock are of logs without ticks.
        self._time = Instant(parts.get("time", 0))
        for operator in self.operators:
            own, *version = found.get(operator.name, (None,))
            if own is not None and (version or [1]) == [operator.version]:
                operator.restore(own)
            else:
                self._rebuild(operator)

    def _rebuild(self, operator: Operator) -> None:
        numbers = tuple(sorted(number for number in self._queries if self._keeper_of(number) is operator))
        if numbers and operator.rebuilt_from is Rebuild.LOG:
            raise StoreError(
                f"the snapshot does not have the state of {operator.name}, which only the log can give back"
            )
        if self._time:
            operator.advance(self._time, self._position)
        for number in numbers:
            operator.register(number, self._queries[number], self._tables, self._position)
        if numbers:
            self.rebuilt[operator.name] = numbers

    def _check_order(self, position: Position) -> None:
        if position < self._position:
            raise StoreError(f"records are applied in order: this host stands at {self._position}, not at {position}")


def _combined(said: Sequence[Notifications], position: Position) -> Notifications:
    """Notifications of several operators as one; rows in the order of names, as several hosts together publish it."""
    loud = [one for one in said if one.values is not None or one.rows or one.anew or one.halted]
    if not loud:
        return said[0] if said else Notifications(position)
    if len(loud) == 1 and len(loud[0]) and not loud[0].rows:
        return loud[0]
    everything = merged(loud, position)
    return replace(everything, rows=tuple(sorted(everything.rows, key=lambda rows: rows.table)))
