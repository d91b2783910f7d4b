"""Who keeps which part of a standing query within which bound, from which position on.

A plan cuts a query into parts. Each part is given to one node with a share of the bound; a client adds the
parts up, so the shares must not exceed the whole. Plans of different epochs are never mixed.
"""

from dataclasses import dataclass

from slackwater.core.errors import AlgebraError
from slackwater.core.query import Aggregate, QueryId
from slackwater.core.types import Position

_ROUNDING = 1e-9
"""Shares come out of floating-point arithmetic: this much of the bound, relatively, is not an overrun."""


@dataclass(frozen=True, slots=True)
class PlanPart:
    """A sub-query at a node; its own bound is its share. `messages_per_hour` is predicted, where it can be."""

    node: str
    query: Aggregate
    messages_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of one query under one epoch."""

    query_id: QueryId
    query: Aggregate
    epoch: int
    takes_effect: Position
    parts: tuple[PlanPart, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise AlgebraError(f"the plan of {self.query_id} has no parts")
        shares = sum(part.query.bound.within for part in self.parts)
        if shares > self.query.bound.within * (1 + _ROUNDING):
            raise AlgebraError(
                f"the parts of {self.query_id} may be {shares:g} off together, "
                f"more than the {self.query.bound.within:g} that the query allows"
            )
