"""The kinds of question, as values.

A *selection* asks for the rows of one table inside a region. An *aggregate* asks for one number over such
rows and may carry a bound. A *join* asks for pairs of rows of two tables. A *one-shot* is any SELECT, answered
once. The first three can stand for ever; their parts are plain values, so that two queries that mean the same are
equal and can share their work.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import NewType, TypeAlias

from slackwater.core.bound import EXACT, Bound
from slackwater.core.errors import AlgebraError
from slackwater.core.extent import Interval
from slackwater.core.region import EVERYTHING, Region
from slackwater.core.types import Key

QueryId = NewType("QueryId", str)
"""The name of a standing query, unique in a deployment."""


class AggregateFunction(Enum):
    """The aggregates that can be kept within a bound."""

    SUM = "SUM"
    AVG = "AVG"
    COUNT = "COUNT"
    MIN = "MIN"
    MAX = "MAX"


@dataclass(frozen=True, slots=True)
class Selection:
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
class Aggregate:
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
class Join:
    """Pairs of a row of `left` in its region and a row of `right` in its; exact, every change counts.

    With a `band`, right_column − left_column lies in it, computed as DOUBLE; without one the two columns are equal. The
    columns shown are called by their tables, as in `unit.pos` (see `core.joined`). Both tables may be the same; then a
    row is a partner of itself too, if the condition says so.
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
"""What stands on one table."""

StandingQuery: TypeAlias = TableQuery | Join


@dataclass(frozen=True, slots=True)
class OneShot:
    """Any SELECT, to be answered once from the latest state.

    `text` is the statement in normal form; `tables` what it reads; `selection` the same question as a
    selection where it is one, so that a cache can answer the part it holds.
    """

    text: str
    tables: tuple[str, ...]
    selection: Selection | None = None
