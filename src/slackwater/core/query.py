"""Query values: the interface of standing queries, selections, aggregates, joins and one-shot queries.

A *selection* asks for the rows of one table inside a region. An *aggregate* asks for one number over such
rows and may carry a bound. A *join* asks for pairs of rows of two tables. A *one-shot* is any SELECT, answered
once. The first three can stand for ever; their parts are plain values, so that two queries that mean the same are
equal and can share their work. What else belongs to a kind of standing query is in its folder in `kinds`.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import NewType, Protocol, TypeAlias

from slackwater.core.bound import EXACT, Bound
from slackwater.core.errors import AlgebraError
from slackwater.core.extent import Interval
from slackwater.core.region import EVERYTHING, Region
from slackwater.core.types import Key

QueryId = NewType("QueryId", str)
"""The name of a standing query, unique in a deployment."""


class AnswerShape(Enum):
    """What the answer of a standing query is."""

    NUMBER = "number"
    """One number, or none, kept within a bound."""
    ROWS = "rows"
    """Rows by key, exact."""


class StandingQuery(Hashable, Protocol):
    """Interface of standing queries; a frozen value, so that equal questions are one query."""

    @property
    def table(self) -> str:
        """The table under which its records stand in the log."""
        ...

    @property
    def tables(self) -> tuple[str, ...]:
        """What it reads."""
        ...

    @property
    def shape(self) -> AnswerShape:
        """Whether its answer is one number or rows."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its answer; none where that is one number."""
        ...

    @property
    def bound(self) -> Bound:
        """Allowed distance between the value last sent and the truth."""
        ...

    @property
    def pushed(self) -> Region | None:
        """The part of the answer that is pushed; the client pulls the rest. None where all of it is pushed."""
        ...


class OfNumber:
    """Base of queries whose answer is one number; subclasses define `bound`."""

    __slots__ = ()

    @property
    def shape(self) -> AnswerShape:
        """One number."""
        return AnswerShape.NUMBER

    @property
    def columns(self) -> tuple[str, ...]:
        """None: the answer is one number."""
        return ()

    @property
    def pushed(self) -> Region | None:
        """All of it is sent."""
        return None


class OfRows:
    """Base of queries whose answer is rows; subclasses define `columns`."""

    __slots__ = ()

    @property
    def shape(self) -> AnswerShape:
        """Rows by key."""
        return AnswerShape.ROWS

    @property
    def bound(self) -> Bound:
        """Rows are exact."""
        return EXACT

    @property
    def pushed(self) -> Region | None:
        """All of it is sent."""
        return None


class AggregateFunction(Enum):
    """The aggregates that can be kept within a bound."""

    SUM = "SUM"
    AVG = "AVG"
    COUNT = "COUNT"
    MIN = "MIN"
    MAX = "MAX"


@dataclass(frozen=True, slots=True)
class Selection(OfRows):
    """`SELECT columns FROM table WHERE region`; exact, every change counts."""

    table: str
    columns: tuple[str, ...]
    region: Region = EVERYTHING

    @property
    def tables(self) -> tuple[str, ...]:
        """What it reads."""
        return (self.table,)


@dataclass(frozen=True, slots=True)
class Weight:
    """How much one item counts in a weighted aggregate: the row with this key, times this factor."""

    key: Key
    factor: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.factor):
            raise AlgebraError(f"the weight of {self.key} must be a finite number, not {self.factor}")


@dataclass(frozen=True, slots=True)
class Aggregate(OfNumber):
    """One number over the rows of a table, kept within a bound.

    The value is function(scale · weight(key) · column) over the rows in the region. `column` is None for
    COUNT(*). `weights` is None where every row counts once; otherwise rows whose key is not listed do not count,
    and the weights stand in order of their keys.
    """

    table: str
    function: AggregateFunction
    column: str | None
    bound: Bound = EXACT
    region: Region = EVERYTHING
    weights: tuple[Weight, ...] | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.column is None and self.function is not AggregateFunction.COUNT:
            raise AlgebraError(f"{self.function.value} needs a column")
        if not math.isfinite(self.scale):
            raise AlgebraError(f"the scale of an aggregate must be a finite number, not {self.scale}")
        if self.weights is not None:
            keys = [weight.key for weight in self.weights]
            if len(set(keys)) != len(keys):
                raise AlgebraError("an item is weighted twice; add its weights up first")

    @property
    def tables(self) -> tuple[str, ...]:
        """What it reads."""
        return (self.table,)


@dataclass(frozen=True, slots=True)
class Join(OfRows):
    """Pairs of a row of `left` in its region and a row of `right` in its; exact, every change counts.

    With a `band`, right_column − left_column lies in it, computed as DOUBLE; without one the two columns are equal. The
    columns shown are called by their tables, as in `unit.pos` (see `kinds.join.schema`). Both tables may be the same;
    then a row is a partner of itself too, if the condition says so.
    """

    left: str
    right: str
    left_column: str
    right_column: str
    columns: tuple[str, ...]
    band: Interval | None = None
    left_region: Region = EVERYTHING
    right_region: Region = EVERYTHING

    @property
    def table(self) -> str:
        """The first of its tables, under which its records stand in the log."""
        return self.left

    @property
    def tables(self) -> tuple[str, ...]:
        """What it reads."""
        return (self.left, self.right)


TableQuery: TypeAlias = Selection | Aggregate
"""A standing query on one table."""


@dataclass(frozen=True, slots=True)
class OneShot:
    """Any SELECT, to be answered once from the latest state.

    `text` is the statement in normal form; `tables` what it reads; `selection` the same question as a
    selection where it is one, so that a cache can answer the part it holds.
    """

    text: str
    tables: tuple[str, ...]
    selection: Selection | None = None
