"""Pull scheduler protocol: queries and values go in, items to pull and the next wake-up tick come out.

A *query* is a bounded aggregate over items that live on sources which only answer requests. The aggregator holds the
value that each item had when it was last pulled; what the query shows is computed from these. The query's *error* is
its value over the held values minus its value over the true ones, and |error| ≤ `within` must hold for at least the
share `fidelity` of the ticks, with as little cost of pulling as possible.

Contract
    1. Time is a whole number of ticks, given by the caller, and never goes back. A scheduler has no clock, does no
       I/O and draws no random numbers but from a generator that it was given.
    2. `due(now)` names the items to pull at tick `now`, each at most once in an answer. An item that was named is *in
       flight* and is not named again until `pulled` or `failed` reports its outcome. `due` may be called
       again within a tick, after the answers have come: it then names what is still wanted, and in the end nothing.
    3. `pulled(now, item, value)` may also be called for an item that was not named: an unrequested value is
       knowledge like any other. Values are finite numbers.
    4. Every item that some query holds is named at least once in `longest` ticks (TTRmax), and at once when it has
       never been pulled. Items that no query holds are never named.
    5. `wake(now)` is a tick after `now` before which `due` would name nothing, whatever happens, unless a value or a
       query arrives. Being asked earlier or at every tick changes no decision.
    6. `failed(now, item)` reports a pull without a value. The item is *missing* until it is pulled again: it is not
       named before the caller brings it back with `pulled` or `retry`, and queries that hold it are suspended: they
       ask for no pulls and count neither as kept nor as broken.
    7. `snapshot()` is everything a scheduler knows, as bytes; a scheduler made with the same queries and costs that
       `restore`s them decides from there on exactly as the first would have.
    8. The same calls give the same answers.

Where b binds the client
    The aggregator may be `within` off, and a sender that holds back changes of h lets the client be `within` + h off.
    `split_between` divides the b of `WITHIN b` so that the two together never exceed it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from slackwater.core.bound import Bound
from slackwater.core.errors import PlanningError
from slackwater.core.query import AggregateFunction

LONGEST = 60
"""TTRmax: the ticks after which an item is pulled whatever is predicted."""


@dataclass(frozen=True, slots=True)
class PullQuery:
    """A bounded aggregate over items by number.

    Sums, averages and counts are weighted sums: an average has weights w/n, and a count is the sum of items that are 1
    while their row counts and 0 while it does not. MIN and MAX are over weight · value.

    >>> PullQuery.average((0, 1), Bound(0.5, 0.98)).weights
    (0.5, 0.5)
    """

    items: tuple[int, ...]
    weights: tuple[float, ...]
    bound: Bound
    function: AggregateFunction = AggregateFunction.SUM

    def __post_init__(self) -> None:
        if not self.items or len(self.items) != len(self.weights):
            raise PlanningError(
                f"a query needs one weight for each item, not {len(self.weights)} for {len(self.items)}"
            )
        if len(set(self.items)) != len(self.items) or min(self.items) < 0:
            raise PlanningError("a query names each item once, by a number of 0 or more; add its weights up first")
        if not all(math.isfinite(weight) and weight != 0 for weight in self.weights):
            raise PlanningError("weights are finite and not 0; leave out an item that does not count")
        if self.bound.always:
            raise PlanningError(
                "no number of pulls keeps a bound always, for a source may change between two of them: add FIDELITY"
            )

    @property
    def linear(self) -> bool:
        """Whether errors of items add up."""
        return self.function not in (AggregateFunction.MIN, AggregateFunction.MAX)

    @classmethod
    def total(cls, items: Sequence[int], weights: Sequence[float], bound: Bound) -> "PullQuery":
        """SUM(weight · value)."""
        return cls(tuple(items), tuple(map(float, weights)), bound)

    @classmethod
    def average(cls, items: Sequence[int], bound: Bound) -> "PullQuery":
        """AVG(value): a sum with weights 1/n."""
        return cls(tuple(items), (1.0 / len(items),) * len(items), bound, AggregateFunction.AVG)

    @classmethod
    def count(cls, items: Sequence[int], bound: Bound) -> "PullQuery":
        """COUNT: a sum of items that are 1 or 0."""
        return cls(tuple(items), (1.0,) * len(items), bound, AggregateFunction.COUNT)

    @classmethod
    def lowest(cls, items: Sequence[int], bound: Bound) -> "PullQuery":
        """MIN(value)."""
        return cls(tuple(items), (1.0,) * len(items), bound, AggregateFunction.MIN)

    @classmethod
    def highest(cls, items: Sequence[int], bound: Bound) -> "PullQuery":
        """MAX(value)."""
        return cls(tuple(items), (1.0,) * len(items), bound, AggregateFunction.MAX)

    def value(self, values: Sequence[float]) -> float:
        """The aggregate over values by item.

        >>> PullQuery.highest((0, 2), Bound(1, 0.9)).value([5.0, 9.0, 7.0])
        7.0
        """
        terms = [weight * values[item] for item, weight in zip(self.items, self.weights, strict=True)]
        if self.function is AggregateFunction.MIN:
            return min(terms)
        if self.function is AggregateFunction.MAX:
            return max(terms)
        return sum(terms)


@runtime_checkable
class Scheduler(Protocol):
    """Decides what to pull, and when; the contract stands at the top of this file."""

    def register(self, name: str, query: PullQuery) -> None:
        """Keep a query from now on."""
        ...

    def unregister(self, name: str) -> None:
        """Keep a query no longer."""
        ...

    def due(self, now: int) -> tuple[int, ...]:
        """Name the items to pull at this tick; nothing when nothing is wanted."""
        ...

    def pulled(self, now: int, item: int, value: float) -> None:
        """Take the value that an item has at this tick."""
        ...

    def failed(self, now: int, item: int) -> None:
        """Take note that a pull came to nothing: the item is missing from now on."""
        ...

    def retry(self, now: int, item: int) -> None:
        """Let a missing item be named again."""
        ...

    def wake(self, now: int) -> int:
        """Give the tick before which asking is of no use."""
        ...

    def snapshot(self) -> bytes:
        """Write down everything that is known."""
        ...

    def restore(self, data: bytes) -> None:
        """Go on from what another has written down."""
        ...


def split_between(within: float, pulling: float = 0.5) -> tuple[float, float]:
    """Divide `WITHIN b` into what pulling may be off and what sending may hold back.

    With the first part p as the bound of pulling and the second, b − p, as the change below which nothing is sent, a
    client is never further off than b when the aggregator is within p.

    >>> split_between(10.0, pulling=0.75)
    (7.5, 2.5)
    """
    if not 0 < pulling <= 1:
        raise PlanningError(f"the share of pulling lies above 0 and is at most 1, not {pulling}")
    return within * pulling, within - within * pulling
