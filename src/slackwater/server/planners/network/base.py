"""Network planner contract: the promises, in words, and the values of plans.

Contract

1.  A sum of listed items WITHIN C (`plannable` says which) that is asked of the node is not kept by it. The node cuts
    it into parts (`planning.aggregation`), and tells the client *where to ask*: the answer to the query in the
    lane `network` is its plan, a row for each part: the aggregator, its addresses, the SQL text of the part, its bound.
    The client asks for the parts there and adds them up (`client.planned.partial_sum`), without the node.
2.  The bounds of the parts add up to no more than C, exactly, and none is below what its aggregator can promise. So
    the sum of values that are right is within C, whatever the plan; a plan that is bad is a plan of many messages.
3.  A plan is known by the number of its registration and an epoch, and takes effect at a position of the log, as every
    registration does. An epoch has one plan. A plan that is late changes nothing.
4.  An aggregator is *lost* when for `lost_after` it has not answered, or has said that it cannot vouch for its items.
    Plans that use it are made anew at once without it. When it is back it may be used by the next plan that is made.
5.  The messages of each part are counted, at the aggregators, in windows. When the counts of the windows leave the
    prediction (`statistics.page_hinkley`), what was counted corrects what is believed of the items, and the query is
    planned anew: at most once in `windows_between`. A plan that would save little is not put in force.
6.  What no aggregator holds, or none closely enough for the bound, is asked of the node itself, where that is allowed
    (`unheld`). Where there is no plan the query is suspended, and the sentence says the tightest bound for which there
    is one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from slackwater.core.query import Aggregate
from slackwater.core.types import Key
from slackwater.planning.aggregation.movement import Column

_SECOND = 1_000_000

HERE = ""
"""The name of the node itself among those that keep parts."""

Held: TypeAlias = Mapping[Column, Mapping[Key, float]]
"""The items that an aggregator holds, by column and key, and within what."""


@dataclass(frozen=True, slots=True)
class NetworkRules:
    """The numbers that an operator may choose; times are microseconds."""

    window: int = 60 * _SECOND
    """In which messages are counted."""
    lost_after: int = 5 * _SECOND
    windows_between: int = 10
    """From one plan of a query to the next one that is made because of counts."""
    worth: float = 0.95
    """A new plan is put in force if it is expected to need less than this share of the messages."""
    exact_items: int = 10
    """Queries of more items are planned by most-saved: the exact planner takes 3ⁿ steps."""
    unheld: bool = True
    """Whether the node itself serves items that no aggregator holds, or none closely enough."""
    append_again: int = 5 * _SECOND


@dataclass(frozen=True, slots=True)
class AggregatorReport:
    """Report of an aggregator about itself. `counts`: notifications of each of its queries, by text
    since this `generation` of its process began. `doubt`: why it cannot vouch for its items, if so."""

    generation: int
    held: Held
    doubt: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LivePart:
    """A part: the query that is asked of the aggregator, as text too; messages an hour are predicted. `floors` are what
    each of its items may be off there, |w|·c."""

    aggregator: str
    items: tuple[str, ...]
    query: Aggregate
    text: str
    floors: tuple[float, ...]
    messages: float

    @property
    def floor(self) -> float:
        """The tightest bound that the aggregator could promise, but for rounding."""
        return sum(self.floors)

    @property
    def within(self) -> float:
        """Its own bound."""
        return self.query.bound.within


@dataclass(frozen=True, slots=True)
class LivePlan:
    """The parts of a query, with the name of their planner."""

    planner: str
    parts: tuple[LivePart, ...]

    @property
    def messages(self) -> float:
        """Messages an hour expected of all parts."""
        return sum(part.messages for part in self.parts)

    def like(self, other: "LivePlan") -> bool:
        """True if another plan gives the same parts to the same aggregators."""
        return {(part.aggregator, part.text) for part in self.parts} == {
            (part.aggregator, part.text) for part in other.parts
        }


# What is to be done.


@dataclass(frozen=True, slots=True)
class Replan:
    """Append a registration of this number under this epoch; its plan takes effect when the log says so."""

    number: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Suspend:
    """Suspend a query for lack of a plan, with the reason; repeated for another reason."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Resume a query that has a plan again."""

    number: int


Instruction: TypeAlias = Replan | Suspend | Resume
