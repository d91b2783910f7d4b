"""The operator seam: what each change does to the standing queries that it touches.

Design
    A *host* reads the log and folds updates into the latest state of each table. What a batch did to that state, net
    and key by key, are its *changes*. Operators are handed the changes and answer with *notifications*. All of it is
    in columns; a query is a number, a key is a number (its *slot*).

    The moments that can be observed are the ends of batches. A bound is therefore checked against the net change of
    a batch: a value that left its bound and came back inside one batch has not been seen by anybody.

Contract (kept by every operator, tested in `tests/contracts/test_operators.py`)

1.  *Function of the log.* The state of an operator and all that it has said are a function of the records and of
    where the batches were cut: no clock, no randomness, no order of a hash table. The same log and the same cuts give
    equal bytes in every host; other cuts give the same final truth, within every bound.
2.  *Bounds hold at every batch end.* For each aggregate, |value last said − truth| ≤ bound, against the value that
    was *said*, never against the last sample. With bound 0 the value said equals the truth. An aggregate over nothing
    has no value; becoming so, or ceasing to be, is always said.
3.  *Silence means unchanged.* At most one notification for a query (and, for rows, for a query and key) comes of one
    batch, and none where nothing has to be said.
4.  *Rows are exact.* What was said of a selection, applied in order, equals recomputing it from the latest state. A
    row enters or changes by an upsert, leaves by a delete, and a row whose selected columns did not change is not
    mentioned.
5.  *Sums do not drift.* After any number of changes a sum differs from the correctly rounded sum of the present
    values by no more than 1e-9 of the sum of their magnitudes. Accumulators stand verbatim in snapshots.
6.  *Snapshots.* `restore(snapshot())` gives an operator that goes on exactly like the first, equal bytes included.
7.  *Register and unregister at any time.* What a query is told first is the answer as of that moment. Registering a
    number that is there replaces it: that is how a query gets another bound, under a new plan epoch.
8.  *Cost.* The work of a batch grows with the changes and with the queries they touch, not with the number of
    queries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.core.query import StandingQuery
from slackwater.core.schema import TableSchema
from slackwater.core.types import Instant, Key, Position

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


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """What one batch did to the latest state of a table, net: a row for each key whose row is another one now.

    `slots` number the keys, in rising order. `before` and `after` hold the table's columns; where `had` or `has` is
    False there was or is no row, and the columns hold nothing that counts. `times` are the event times.
    """

    table: str
    slots: Integers
    had: Flags
    has: Flags
    before: pa.RecordBatch
    after: pa.RecordBatch
    times: Integers

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

    def take(self, slots: Integers) -> tuple[Flags, pa.RecordBatch]:
        """Which of these slots have a row, and their rows (nothing that counts where there is none)."""
        ...


class RowKind(IntEnum):
    """What happened to a row of a selection."""

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
    table's columns; of a row that left, only the key columns count. The query itself says which columns it shows.
    `slots` are those of `rows`, in rising order, where the host has any. Rows of joins go by the name of the pair of
    tables (`core.joined`) and have the columns of both.
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
    """All that one step has to say, as of `position`."""

    position: Position
    values: Values | None = None
    rows: Sequence[Rows] = field(default=())
    anew: tuple[int, ...] = ()
    """Queries whose answers changed in more places than can be told: whoever listens needs the whole answer."""
    halted: tuple[int, ...] = ()
    """Queries of which nothing more is said until they are woken, because following them takes too long."""

    def __len__(self) -> int:
        return (0 if self.values is None else len(self.values)) + sum(len(rows) for rows in self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Everything that has been said of one query, as one piece: what a new subscriber is told.

    Of an aggregate it is the value last *said*, not the truth: the next notification is measured against it.
    `rows` has the table's columns. `changed` is the position at which the answer last changed.
    """

    query: int
    changed: Position
    value: float | None = None
    rows: pa.RecordBatch | None = None


class Operator(Protocol):
    """One way of keeping one kind of query; see the module for what is promised."""

    @property
    def partitioning(self) -> Partitioning:
        """How it can be spread over shards."""
        ...

    def accepts(self, query: StandingQuery) -> bool:
        """Whether this operator keeps queries of this kind."""
        ...

    def register(self, number: int, query: StandingQuery, latest: Latest, position: Position) -> Answer:
        """Keep a query from now on."""
        ...

    def unregister(self, number: int, position: Position) -> None:
        """Forget a query; forgetting one that is not there does nothing."""
        ...

    def apply(self, changes: Changes, latest: Latest, position: Position) -> Notifications:
        """Take changes in; `latest` is the state after them, `position` the end of their batch."""
        ...

    def advance(self, time: Instant, position: Position) -> Notifications:
        """Let time pass, for queries that depend on it."""
        ...

    def answer(self, number: int, latest: Latest) -> Answer:
        """What has been said of a query so far."""
        ...

    def snapshot(self) -> bytes:
        """The whole state."""
        ...

    def restore(self, state: bytes) -> None:
        """Become what the snapshot was taken of."""
        ...


class JoinOperator(Protocol):
    """The same seam for queries that read two tables: the same promises, with all tables at hand.

    A batch may change both tables of a join, and a pair is said at most once of a batch: so the changes of all tables
    of a batch come at once.
    """

    @property
    def partitioning(self) -> Partitioning:
        """How it can be spread over shards."""
        ...

    def accepts(self, query: StandingQuery) -> bool:
        """Whether this operator keeps queries of this kind."""
        ...

    def register(self, number: int, query: StandingQuery, tables: Mapping[str, Latest], position: Position) -> Answer:
        """Keep a query from now on."""
        ...

    def unregister(self, number: int, position: Position) -> None:
        """Forget a query; forgetting one that is not there does nothing."""
        ...

    def apply(self, changes: Sequence[Changes], tables: Mapping[str, Latest], position: Position) -> Notifications:
        """Take the changes of a batch in, of each table at most once; `tables` are the state after them."""
        ...

    def answer(self, number: int, tables: Mapping[str, Latest]) -> Answer:
        """What has been said of a query so far."""
        ...

    def snapshot(self) -> bytes:
        """The whole state; the tables are not part of it."""
        ...

    def restore(self, state: bytes) -> None:
        """Become what the snapshot was taken of."""
        ...
