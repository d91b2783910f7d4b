"""Operator protocol: incremental maintenance of standing queries under batches of changes.

Design
    A *host* reads the log and folds updates into the latest state of each table. What a batch did to that state, net
    and key by key, are its *changes*. Operators are handed the changes and answer with *notifications*. All of it is
    in columns; a query is a number, a key is a number (its *slot*).

    The moments that can be observed are the ends of batches. A bound is therefore checked against the net change of
    a batch: a value that left its bound and came back inside one batch has not been seen by anybody.

Contract (kept by every operator, tested in `tests/contracts/test_operators.py`)

1.  *Function of the log.* The state of an operator and all its output are a function of the records and of
    where the batches were cut: no clock, no randomness, no order of a hash table. The same log and the same cuts give
    equal bytes in every host; other cuts give the same final truth, within every bound.
2.  *Bounds hold at every batch end.* For each aggregate, |value last published − truth| ≤ bound, against the value that
    was *published*, never against the last sample. With bound 0 the published value equals the truth. An aggregate over
    nothing has no value; becoming so, or ceasing to be, is always published.
3.  *Silence means unchanged.* At most one notification for a query (and, for rows, for a query and key) comes of one
    batch, and none where nothing has to be published.
4.  *Rows are exact.* The published rows of a selection, applied in order, equal recomputing it from the latest state. A
    row enters or changes by an upsert, leaves by a delete, and a row whose selected columns did not change is not
    mentioned.
5.  *Sums do not drift.* After any number of changes a sum differs from the correctly rounded sum of the present
    values by no more than 1e-9 of the sum of their magnitudes. Accumulators stand verbatim in snapshots.
6.  *Snapshots.* `restore(snapshot())` gives an operator that goes on exactly like the first, equal bytes included.
7.  *Register and unregister at any time.* A query's first notification is its answer as of that moment. Registering a
    number that is there replaces it: that is how a query gets another bound, under a new plan epoch.
8.  *Cost.* The work of a batch grows with the changes and with the queries they touch, not with the number of
    queries.
"""

from abc import ABC, abstractmethod
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.core.query import StandingQuery
from slackwater.core.schema import TableSchema
from slackwater.core.types import Instant, Key, Position
from slackwater.sql.explain_tree import ExplainTree

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Partitioning(Enum):
    """How an operator can be spread over shards."""

    BY_QUERY = "by query"
    """Every shard has all rows and some queries: a change goes to all shards."""
    BY_KEY = "by key"
    """Every shard has some rows and all queries."""
    BY_RANGE = "by range"
    """Of two tables that are compared every shard has a range, of the second with a margin, and all queries whose
    margin is not too wide; of equal keys the range is one of scattered keys. Can be spread by query as well."""


class RowCells(Protocol):
    """Rows that become an Arrow batch on first access."""

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows as a batch."""
        ...

    def cells(self, column: str) -> tuple[npt.NDArray[Any], Flags]:
        """The values of a column, and which of them there are."""
        ...


class Changes:
    """Net changes of one batch to the latest state of a table: a row for each key whose row is another one now.

    `slots` number the keys, in rising order. `before` and `after` hold the table's columns; where `had` or `has` is
    False there was or is no row, and the columns hold nothing that counts. `times` are the event times. `old` and `new`
    are the same rows as they came; an operator that needs few columns reads them there, through a `Sheet`.
    """

    __slots__ = ("had", "has", "new", "old", "slots", "table", "times")

    def __init__(
        self,
        table: str,
        slots: Integers,
        had: Flags,
        has: Flags,
        old: pa.RecordBatch | RowCells,
        new: pa.RecordBatch | RowCells,
        times: Integers,
    ) -> None:
        self.table, self.slots, self.had, self.has = table, slots, had, has
        self.old, self.new, self.times = old, new, times

    @property
    def before(self) -> pa.RecordBatch:
        """The rows as they were."""
        return self.old if isinstance(self.old, pa.RecordBatch) else self.old.batch

    @property
    def after(self) -> pa.RecordBatch:
        """The rows as they are."""
        return self.new if isinstance(self.new, pa.RecordBatch) else self.new.batch

    def __len__(self) -> int:
        return len(self.slots)


class Latest(Protocol):
    """The latest state of one table, as an operator may look at it."""

    @property
    def schema(self) -> TableSchema:
        """The table."""
        ...

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows that there are now, in order of their slots."""
        ...

    @property
    def slots(self) -> Integers:
        """The slots of those rows."""
        ...

    def slot_of(self, key: Key) -> int:
        """The number of a key, given now if it has none: a query may name a key before there is a row."""
        ...

    def slots_of(self, keys: Sequence[Key]) -> Integers:
        """The same for several keys."""
        ...

    def take(self, slots: Integers) -> tuple[Flags, pa.RecordBatch]:
        """Which of these slots have a row, and their rows (nothing that counts where there is none)."""
        ...


class RowKind(IntEnum):
    """Kind of a change to a row of a selection."""

    UPSERT = 0
    DELETE = 1


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """New values of aggregates: a query's number, its value, and whether there is one at all."""

    queries: Integers
    values: Floats
    there: Flags

    def __len__(self) -> int:
        return len(self.queries)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows that entered, changed or left selections on one table, or joins of two.

    Entry k says that row `places[k]` of `rows` is now in the answer of `queries[k]`, or that it left it. `rows` has the
    table's columns; of a row that left, only the key columns count. The query itself names the columns it shows.
    `slots` are those of `rows`, in rising order, where the host has any. Rows of joins go by the name of the pair of
    tables (`kinds.join.schema`) and have the columns of both.
    """

    table: str
    queries: Integers
    places: Integers
    kinds: npt.NDArray[np.int8]
    rows: pa.RecordBatch
    slots: Integers | None = None

    def __len__(self) -> int:
        return len(self.queries)


@dataclass(frozen=True, slots=True, eq=False)
class Notifications:
    """The notifications of one step, as of `position`."""

    position: Position
    values: Values | None = None
    rows: Sequence[Rows] = field(default=())
    anew: tuple[int, ...] = ()
    """Queries whose answers changed in more places than fit: subscribers need the whole answer."""
    halted: tuple[int, ...] = ()
    """Queries that are suspended until they are woken, because following them takes too long."""

    def __len__(self) -> int:
        return (0 if self.values is None else len(self.values)) + sum(len(rows) for rows in self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Everything published of one query, as one piece: the first answer of a new subscriber.

    Of an aggregate it is the value last *published*, not the truth: the next notification is measured against it.
    `rows` has the table's columns. `changed` is the position at which the answer last changed.
    """

    query: int
    changed: Position
    value: float | None = None
    rows: pa.RecordBatch | None = None


class Rebuild(Enum):
    """Source of a rebuild when a snapshot lacks an operator's state, or has it in an older form."""

    TABLES = "the tables"
    """The queries are registered again over the rows as they are."""
    LOG = "the log"
    """The output depends on the past: the whole log is read again."""
    NOTHING = "nothing"
    """It begins anew: the queries are registered again, and what they knew of the past is gone."""


class Operator(ABC):
    """One way of keeping some kinds of query; see the module for what is promised.

    A batch may change several tables of a query, and a row of its answer is published at most once a batch: so the
    changes of all tables of a batch come at once. What reads one table alone is written as a `TableOperator`.
    """

    name: str
    """Name of its part of a snapshot."""
    version: int = 1
    """Raise it when its snapshots change; one of another version is not handed to `restore`."""
    rebuilt_from: Rebuild = Rebuild.TABLES
    partitioning: Partitioning = Partitioning.BY_QUERY
    """How it can be spread over shards."""

    @abstractmethod
    def accepts(self, query: StandingQuery) -> bool:
        """Whether this operator keeps queries of this kind."""

    @abstractmethod
    def register(self, number: int, query: StandingQuery, tables: Mapping[str, Latest], position: Position) -> Answer:
        """Keep a query from now on."""

    @abstractmethod
    def unregister(self, number: int, position: Position) -> None:
        """Forget a query; forgetting one that is not there does nothing."""

    @abstractmethod
    def apply(self, changes: Sequence[Changes], tables: Mapping[str, Latest], position: Position) -> Notifications:
        """Take the changes of a batch in, of each table at most once; `tables` are the state after them."""

    def advance(self, time: Instant, position: Position) -> Notifications:
        """Let time pass, for queries that depend on it. `time` is later at each call; each is a step by itself."""
        return Notifications(position)

    @abstractmethod
    def answer(self, number: int, query: StandingQuery, tables: Mapping[str, Latest]) -> Answer:
        """Everything published of a query so far."""

    @abstractmethod
    def snapshot(self) -> bytes:
        """The whole state; the tables are not part of it."""

    @abstractmethod
    def restore(self, state: bytes) -> None:
        """Restore the state from a snapshot."""

    # ---- what an operator need not have

    def family(self, query: StandingQuery) -> Hashable | None:
        """Shared structure of a query on several tables, kept once for all queries that have it."""
        return None

    def check_families(self, query: StandingQuery, known: Container[Hashable], count: int) -> None:
        """Refuse a query of yet another family, where there are too many."""

    def weight(self, number: int, query: StandingQuery) -> int:
        """How much work a query is to a shard, against one that is looked at once a change."""
        return 1

    @property
    def counters(self) -> Mapping[str, int]:
        """Counters since the operator began, for metrics."""
        return _NO_COUNTS

    @property
    def cold(self) -> bool:
        """Whether `warm_up` has something to do before the first query."""
        return False

    def foresee(self, query: StandingQuery, tables: Mapping[str, Latest]) -> None:
        """Another host of the same log keeps a query from now on: give its keys the slots that it gives them."""

    def explain(self, query: StandingQuery, tables: Mapping[str, Latest], position: Position) -> ExplainTree | None:
        """How a query is kept, or would be, together with those that are kept already."""
        return None

    def check_size(self, query: StandingQuery, tables: Mapping[str, Latest]) -> None:
        """Refuse a query whose answer has become larger than is kept, or that takes too much to keep."""

    def settle(self, tables: Mapping[str, Latest]) -> None:
        """Run the work that a restored operator defers to the next batch."""

    def warm_up(self) -> None:
        """Compile what keeping a query needs, ahead of the first; on any thread."""

    @property
    def halted(self) -> Mapping[int, str]:
        """Queries that are not followed until they are woken, and why."""
        return _NOTHING_HALTED

    def limit(self, results: int, steps: int) -> None:
        """Limit the results and the work of one step of the log; queries that need more are halted."""

    def wake(self, number: int, tables: Mapping[str, Latest]) -> None:
        """Follow a query again that was halted; refused while it would be again."""

    # ---- operators whose rows are spread over shards

    def spread(self, part: Any) -> None:
        """Be one of several shards from now on, or the only one."""

    def attend(self, number: int, query: StandingQuery, position: Position) -> bool:
        """Another shard keeps a query: find its results with the rows that are had here. False if nothing is to do."""
        return False

    def attends(self, number: int) -> bool:
        """Whether a query is known here, kept or attended to."""
        return False

    def survey(self, tables: Mapping[str, Latest], shards: int, others: Iterable[StandingQuery]) -> Sequence[Any]:
        """How rows and queries lie that would be cut for so many shards; `others` are kept elsewhere."""
        return ()


_NOTHING_HALTED: Mapping[int, str] = MappingProxyType({})
_NO_COUNTS: Mapping[str, int] = MappingProxyType({})


class TableOperator(ABC):
    """The same seam for queries that read one table: the changes of each table come by themselves."""

    name: str
    version: int = 1
    rebuilt_from: Rebuild = Rebuild.TABLES
    partitioning: Partitioning = Partitioning.BY_QUERY

    @abstractmethod
    def accepts(self, query: StandingQuery) -> bool:
        """Whether this operator keeps queries of this kind."""

    @abstractmethod
    def register(self, number: int, query: StandingQuery, latest: Latest, position: Position) -> Answer:
        """Keep a query from now on."""

    @abstractmethod
    def unregister(self, number: int, position: Position) -> None:
        """Forget a query; forgetting one that is not there does nothing."""

    @abstractmethod
    def apply(self, changes: Changes, latest: Latest, position: Position) -> Notifications:
        """Take changes in; `latest` is the state after them, `position` the end of their batch."""

    def advance(self, time: Instant, position: Position) -> Notifications:
        """Let time pass, for queries that depend on it. `time` is later at each call; each is a step by itself."""
        return Notifications(position)

    @abstractmethod
    def answer(self, number: int, latest: Latest) -> Answer:
        """Everything published of a query so far."""

    def foresee(self, query: StandingQuery, latest: Latest) -> None:
        """Another host keeps a query from now on: give its keys the slots that it gives them."""

    def weight(self, number: int, query: StandingQuery) -> int:
        """How much work a query is to a shard, against one that is looked at once a change."""
        return 1

    @abstractmethod
    def snapshot(self) -> bytes:
        """The whole state."""

    @abstractmethod
    def restore(self, state: bytes) -> None:
        """Restore the state from a snapshot."""
