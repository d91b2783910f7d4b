"""Pull state of one source, without I/O: due items, pulls in flight and doubt.

Design
    Items are the keys of a table; the scheduler of `planning.pulling` knows them by number and time by ticks. Here both
    are translated, and what went wrong is kept: an item that could not be had is *missing*, is tried again when its
    time has come, and until then suspends the queries that need it, with the reason.

    Of the bound that a query allows, the scheduler gets a part and the operators the rest: the held values may be off
    by the first, what was last said by the second.
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from slackwater.core.bound import Bound
from slackwater.core.errors import SlackwaterError
from slackwater.core.query import Aggregate, AggregateFunction
from slackwater.core.types import Key
from slackwater.planning.pulling.base import PullQuery, Scheduler, split_between
from slackwater.planning.pulling.history_sampling import ItemHistory, Motion
from slackwater.planning.pulling.item_prior import ItemPrior
from slackwater.planning.pulling.scheduler_state import NEVER
from slackwater.planning.pulling.uncertainty import Uncertainty
from slackwater.planning.pulling.warm_start import begin

_ANY = 1e300
_FORMAT = 2
NEW = -1
"""The number, in a trial, of a query that has none yet."""
PULLING = 0.75
"""The part of a bound that pulling may use up."""
MOST_REMEMBERED, REMEMBERED = 200_000, 600
"""Pulls that are remembered of all items together, and of one."""


def feed_of(table: str, key: str) -> str:
    """Name of an item of a table in questions of doubt.

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
    history: list[list[tuple[int, float]]]


@dataclass(frozen=True, slots=True)
class Trial:
    """Queries to be tried on the past of their items; items are numbered as in `memories`, times are microseconds."""

    queries: dict[int, PullQuery]
    memories: tuple[ItemHistory, ...]
    costs: tuple[float, ...]
    longest: int
    tick: int


@dataclass(slots=True)
class _Missing:
    why: str
    again: int


@dataclass(slots=True)
class Pulls:
    """The requests so far."""

    items: int = 0
    failed: int = 0
    by_query: dict[int, int] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)
    """When a query was first pulled for."""


class PulledState:
    """Times are microseconds of any clock that does not go back; `tick` is how long a tick is."""

    def __init__(self, name: str, keys: Sequence[str], scheduler: Scheduler, tick: int) -> None:
        self.name = name
        self.keys = tuple(keys)
        self.scheduler = scheduler
        self.pulls = Pulls()
        self.changes = 0
        """How often an item came to be doubted, or relied on: a reader of this number has seen all doubts."""
        self.unpriced: set[int] = set()
        """Queries whose price is the usual one still."""
        self._numbers = {key: number for number, key in enumerate(self.keys)}
        self._tick = tick
        self._first = 0
        self._latest = 0
        self._missing: dict[int, _Missing] = {}
        self._values: dict[int, float] = {}
        self._queries: dict[int, tuple[int, ...]] = {}
        self._priors: dict[int, Motion] = {}
        kept = max(32, min(REMEMBERED, MOST_REMEMBERED // len(self.keys)))
        self._history: list[deque[tuple[int, float]]] = [deque(maxlen=kept) for _ in self.keys]

    def begin(self, priors: Mapping[str, ItemPrior]) -> None:
        """Initialise items from statistics."""
        known = [priors.get(key) for key in self.keys]
        self._priors = {item: Motion.of_prior(prior) for item, prior in enumerate(known) if prior is not None}
        if isinstance(self.scheduler, Uncertainty):
            begin(self.scheduler, known)

    # ---- queries

    def register(self, number: int, query: Aggregate, keys: Iterable[Key]) -> None:
        """Have a query kept: the weights of its items, by key."""
        self.unregister(number)
        made = self._pull_query(query, keys)
        if made is not None:
            self.scheduler.register(str(number), made)
            self._queries[number] = made.items
            self.unpriced.add(number)

    def unregister(self, number: int) -> None:
        """Keep a query no longer."""
        if self._queries.pop(number, None) is not None:
            self.scheduler.unregister(str(number))
            self.pulls.by_query.pop(number, None)
            self.pulls.since.pop(number, None)
            self.unpriced.discard(number)

    @property
    def standing(self) -> frozenset[int]:
        """The queries that are kept."""
        return frozenset(self._queries)

    def trial(self, query: Aggregate, keys: Iterable[Key]) -> Trial | None:
        """Input of a trial run of one query alone; None where it pulls nothing."""
        made = self._pull_query(query, keys)
        return None if made is None else self._trial({NEW: made})

    def trial_of(self, number: int) -> Trial | None:
        """The same for a query that stands."""
        if number not in self._queries or not isinstance(self.scheduler, Uncertainty):
            return None
        return self._trial({number: self.scheduler.queries[str(number)]})

    def trial_of_all(self) -> Trial | None:
        """The same for the weighted sums that stand, together, as far as enough is known of their items."""
        if not isinstance(self.scheduler, Uncertainty):
            return None
        held = {item for items in self._queries.values() for item in items}
        told = {item for item in held if item in self._priors or self._memory(item).has_pulls}
        standing = {number: self.scheduler.queries[str(number)] for number in self._queries}
        ready = {number: made for number, made in standing.items() if made.linear and told.issuperset(made.items)}
        return self._trial(ready) if ready else None

    def begin_price(self, number: int, by: float) -> None:
        """Let a query begin with e^by times the usual price of a tick outside its bound."""
        if number in self._queries and isinstance(self.scheduler, Uncertainty):
            self.scheduler.raise_price(str(number), by)

    def _trial(self, queries: Mapping[int, PullQuery]) -> Trial:
        used = sorted({item for query in queries.values() for item in query.items})
        places = {item: place for place, item in enumerate(used)}
        moved = {
            number: replace(query, items=tuple(places[item] for item in query.items))
            for number, query in queries.items()
        }
        costs, longest = (1.0,) * len(used), 1
        if isinstance(self.scheduler, Uncertainty):
            costs, longest = tuple(self.scheduler.costs[item] for item in used), self.scheduler.longest
        return Trial(moved, tuple(self._memory(item) for item in used), costs, longest, self._tick)

    def _memory(self, item: int) -> ItemHistory:
        learnt = None
        if isinstance(self.scheduler, Uncertainty) and self.scheduler.models[item].sums[0] > 0.0:
            learnt = Motion.of_model(self.scheduler.models[item])
        return ItemHistory(self.keys[item], tuple(self._history[item]), learnt, self._priors.get(item))

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

    # ---- due items and their outcomes

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
                self.pulls.since.setdefault(number, now)
        return [self.keys[item] for item in wanted]

    def got(self, now: int, key: str, value: float) -> None:
        """An item has this value."""
        item = self._numbers[key]
        if self._missing.pop(item, None) is not None or item not in self._values:
            self.changes += 1
        self._values[item] = value
        at = self._at(now)
        if self._history[item] and self._history[item][-1][0] == at:
            self._history[item].pop()
        self._history[item].append((at, value))
        self.scheduler.pulled(at, item, value)

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

    # ---- learnt state

    def saved(self, now: int) -> bytes:
        """The learnt state of the scheduler, for a restart."""
        history = [list(pulls) for pulls in self._history]
        kept = _Saved(
            _FORMAT, list(self.keys), sorted(self._queries), self._at(now), self.scheduler.snapshot(), history
        )
        return msgspec.msgpack.encode(kept)

    def recall(self, body: bytes, now: int) -> bool:
        """Go on from what was saved. Where queries are others, items still keep their models; False if nothing fits."""
        try:
            kept = msgspec.msgpack.decode(body, type=_Saved)
            if kept.format != _FORMAT:
                return False
            if (kept.keys, kept.queries) == (list(self.keys), sorted(self._queries)):
                self.scheduler.restore(kept.scheduler)
                self.unpriced.clear()
            elif not self._recall_items(kept):
                return False
        except (msgspec.MsgspecError, SlackwaterError):
            return False
        for key, pulls in zip(kept.keys, kept.history, strict=True):
            if key in self._numbers:
                self._history[self._numbers[key]].extend(pulls)
        self._first = kept.tick + 1 - now // self._tick
        return True

    def _recall_items(self, kept: _Saved) -> bool:
        """Take over the models of the items that were there before; what happened meanwhile teaches them nothing."""
        if not isinstance(self.scheduler, Uncertainty) or not set(kept.keys) & set(self.keys):
            return False
        try:
            whole = json.loads(kept.scheduler)["known"]
            for key, known, loading in zip(kept.keys, whole["models"], whole["kinship"]["loading"], strict=True):
                item = self._numbers.get(key)
                if item is None or not known["learnt"] or set(known) != set(self.scheduler.models[item].known()):
                    continue
                self.scheduler.models[item].recall({**known, "last": NEVER})
                self.scheduler.common_factor.loading[item] = loading
        except (ValueError, KeyError, TypeError):
            return False
        return True

    def rate(self, number: int, now: int) -> float | None:
        """Pulls an hour for a query since it began here; None while it is too early."""
        passed = now - self.pulls.since.get(number, now)
        if passed < 60 * self._tick:
            return None
        return self.pulls.by_query[number] * 3600e6 / passed

    def delivered(self, number: int) -> float | None:
        """Share of the time that a query was within its bound, estimated from pulled values."""
        told = getattr(self.scheduler, "delivered", None)
        return None if told is None or number not in self._queries else told(str(number))

    def _at(self, now: int) -> int:
        """The scheduler's tick at a moment; it never goes back."""
        self._latest = max(self._latest, self._first + now // self._tick)
        return self._latest

    # ---- doubt

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
        """The keys whose last pull failed."""
        return tuple(self.keys[item] for item in sorted(self._missing))
