"""A source that is asked only as often as its queries need, without its sockets: what is due, what can be relied on.

Design
    Items are the keys of a table; the scheduler of `planning.pulling` knows them by number and time by ticks. Here both
    are translated, and what went wrong is kept: an item that could not be had is *missing*, is tried again when its
    time has come, and until then suspends the queries that need it, with the reason.

    Of the bound that a query allows, the scheduler gets a part and the operators the rest: the held values may be off
    by the first, what was last said by the second.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from slackwater.core.bound import Bound
from slackwater.core.errors import SlackwaterError
from slackwater.core.query import Aggregate, AggregateFunction
from slackwater.core.types import Key
from slackwater.planning.pulling.base import PullQuery, Scheduler, split_between

_ANY = 1e300
PULLING = 0.75
"""The part of a bound that pulling may use up."""


def feed_of(table: str, key: str) -> str:
    """What an item of a table is called where it is asked whether it can be relied on.

    >>> item_of(feed_of("rates", "EUR/USD"))
    ('rates', 'EUR/USD')
    """
    return f"\n{table}\n{key}"


def item_of(feed: str) -> tuple[str, str] | None:
    """The table and the key of such a name; None where it is none."""
    first, *rest = feed.split("\n", 2)
    return None if first or len(rest) != 2 else (rest[0], rest[1])


def kept_by_operators(query: Aggregate) -> Aggregate:
    """The query within what pulling leaves of its bound."""
    _, sending = split_between(query.bound.within, PULLING)
    return replace(query, bound=replace(query.bound, within=sending))


class _Saved(msgspec.Struct, array_like=True):
    format: int
    keys: list[str]
    queries: list[int]
    tick: int
    scheduler: bytes


@dataclass(slots=True)
class _Missing:
    why: str
    again: int


@dataclass(slots=True)
class Pulls:
    """What was asked for so far."""

    items: int = 0
    failed: int = 0
    by_query: dict[int, int] = field(default_factory=dict)


class PulledState:
    """Times are microseconds of any clock that does not go back; `tick` is how long a tick is."""

    def __init__(self, name: str, keys: Sequence[str], scheduler: Scheduler, tick: int) -> None:
        self.name = name
        self.keys = tuple(keys)
        self.scheduler = scheduler
        self.pulls = Pulls()
        self.changes = 0
        """How often an item came to be doubted, or relied on: who has seen this number has seen all doubts."""
        self._numbers = {key: number for number, key in enumerate(self.keys)}
        self._tick = tick
        self._first = 0
        self._latest = 0
        self._missing: dict[int, _Missing] = {}
        self._values: dict[int, float] = {}
        self._queries: dict[int, tuple[int, ...]] = {}

    # ---- queries

    def register(self, number: int, query: Aggregate, keys: Iterable[Key]) -> None:
        """Have a query kept: the weights of its items, by key."""
        self.unregister(number)
        made = self._pull_query(query, keys)
        if made is not None:
            self.scheduler.register(str(number), made)
            self._queries[number] = made.items

    def unregister(self, number: int) -> None:
        """Keep a query no longer."""
        if self._queries.pop(number, None) is not None:
            self.scheduler.unregister(str(number))

    def _pull_query(self, query: Aggregate, keys: Iterable[Key]) -> PullQuery | None:
        pulling, _ = split_between(query.bound.within, PULLING)
        weights = {weight.key: weight.factor for weight in query.weights or ()}
        chosen = sorted({self._numbers[str(key[0])] for key in keys})
        factors = [query.scale * weights.get((self.keys[item],), 1.0) for item in chosen]
        if query.function is AggregateFunction.AVG:
            factors = [factor / len(chosen) for factor in factors]
        pairs = [(item, factor) for item, factor in zip(chosen, factors, strict=True) if factor]
        if not pairs:
            return None
        items, counted = zip(*pairs, strict=True)
        if query.function is AggregateFunction.COUNT:
            # How many there are does not depend on their values: now and then is enough.
            return PullQuery(items, counted, Bound(_ANY, query.bound.fidelity))
        return PullQuery(items, counted, replace(query.bound, within=pulling), query.function)

    # ---- what is due, and what came of it

    def due(self, now: int) -> list[str]:
        """The keys to ask for now."""
        at = self._at(now)
        for item, missing in list(self._missing.items()):
            if missing.again <= now:
                self.scheduler.retry(at, item)
                missing.again = now + self._tick
        wanted = self.scheduler.due(at)
        self.pulls.items += len(wanted)
        for number, items in self._queries.items():
            shared = len(set(items).intersection(wanted))
            if shared:
                self.pulls.by_query[number] = self.pulls.by_query.get(number, 0) + shared
        return [self.keys[item] for item in wanted]

    def got(self, now: int, key: str, value: float) -> None:
        """An item has this value."""
        item = self._numbers[key]
        if self._missing.pop(item, None) is not None or item not in self._values:
            self.changes += 1
        self._values[item] = value
        self.scheduler.pulled(self._at(now), item, value)

    def same(self, now: int, key: str) -> None:
        """An item has the value of before."""
        self.got(now, key, self._values[self._numbers[key]])

    def missed(self, now: int, key: str, why: str, again: float) -> None:
        """An item could not be had; it is tried again after so many seconds."""
        item = self._numbers[key]
        self.pulls.failed += 1
        self.changes += item not in self._missing or self._missing[item].why != why
        self._missing[item] = _Missing(why, now + max(round(again * 1_000_000), self._tick))
        self.scheduler.failed(self._at(now), item)

    def wake(self, now: int) -> int:
        """When to look again at the earliest, unless a query comes."""
        due = [missing.again for missing in self._missing.values()]
        if self._queries:
            due.append((self.scheduler.wake(self._at(now)) - self._first) * self._tick)
        return min(due, default=now + 3600 * 1_000_000)

    # ---- what was learnt

    def saved(self, now: int) -> bytes:
        """What the scheduler has learnt, to go on from after a restart."""
        kept = _Saved(1, list(self.keys), sorted(self._queries), self._at(now), self.scheduler.snapshot())
        return msgspec.msgpack.encode(kept)

    def recall(self, body: bytes, now: int) -> bool:
        """Go on from what was saved; False where it is of other items or queries, and is learnt anew."""
        try:
            kept = msgspec.msgpack.decode(body, type=_Saved)
            if (kept.format, kept.keys, kept.queries) != (1, list(self.keys), sorted(self._queries)):
                return False
            self.scheduler.restore(kept.scheduler)
        except (msgspec.MsgspecError, SlackwaterError):
            return False
        self._first = kept.tick + 1 - now // self._tick
        return True

    def delivered(self, number: int) -> float | None:
        """For which share of the time a query was within its bound, as far as that can be told from what was pulled."""
        told = getattr(self.scheduler, "delivered", None)
        return None if told is None or number not in self._queries else told(str(number))

    def _at(self, now: int) -> int:
        """The scheduler's tick at a moment; it never goes back."""
        self._latest = max(self._latest, self._first + now // self._tick)
        return self._latest

    # ---- what can be relied on

    def doubt(self, key: str) -> str | None:
        """Why an item cannot be relied on; None where it can."""
        item = self._numbers[key]
        missing = self._missing.get(item)
        if missing is not None:
            return f"{key} of {self.name} could not be had: {missing.why}"
        if item not in self._values:
            return f"{key} of {self.name} has not been asked for yet"
        return None

    @property
    def lost(self) -> tuple[str, ...]:
        """The keys that could not be had when they were last asked for."""
        return tuple(self.keys[item] for item in sorted(self._missing))
