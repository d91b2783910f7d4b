"""Live cache experiment: caching clients against a real server over sockets, every answer compared with the truth.

Two ways to run it. A *replay* gives each client labels planned for exactly what it is going to ask and what is going to
change, one event after the other, and counts messages: they are what the plan said. A *load* lets all clients ask at
once while rows change and labels follow, and counts answers.

The truth is a list of all changes with the positions at which they stand in the log, which the receipts name. An answer
as of a position that no receipt has reached yet waits until one has.
"""

import asyncio
import time
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any, ClassVar

import httpx
import numpy as np
import numpy.typing as npt

from slackwater.client import Cache, Client, connect
from slackwater.core.extent import Interval
from slackwater.core.labels import Labels, labels_line
from slackwater.core.region import Box, Region, Side
from slackwater.core.types import Position
from slackwater.planning.push_pull.cost_models import Messages
from slackwater.planning.push_pull.encoding import Asked, Changed, encode
from slackwater.planning.push_pull.exact import exact

FIRST_LABELS = 60.0
TOGETHER = 4
"""Rows that change with one request under load."""
TABLE = "CREATE TABLE cars (id BIGINT PRIMARY KEY, price DOUBLE, year BIGINT)"
_STATES = 4_096
"""States of the table that are kept ready for comparison; earlier ones are made again."""

_TRUTHS = 4_096
"""Answers that are kept ready, until there are more."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """A question: the cars between two prices, both included."""

    low: float
    high: float

    @cached_property
    def sql(self) -> str:
        """As SQL."""
        return f"SELECT id, price FROM cars WHERE price BETWEEN {self.low} AND {self.high}"

    @property
    def region(self) -> Region:
        """As a region."""
        return Region((Box.of(Side("price", Interval(self.low, self.high))),))


class Prices:
    """All prices that there were, by position."""

    def __init__(self, random: Random, rows: int) -> None:
        self._random = random
        self.start = np.array([round(random.uniform(0, 1000), 2) for _ in range(rows)])
        self.now = self.start.copy()
        self.ends: list[int] = []
        self._changes: list[tuple[int, float]] = []
        self._states: dict[int, Floats] = {}

    @property
    def known(self) -> int:
        """The position up to which everything is known."""
        return self.ends[-1] if self.ends else 0

    def draw(self, spread: float) -> tuple[int, float]:
        """A car and its next price."""
        car = self._random.randrange(len(self.now))
        before = float(self.now[car])
        price = round(min(1000.0, max(0.0, before + self._random.gauss(0, spread))), 2)
        return car, price if price != before else round(1000.0 - price, 2)

    def change(self, car: int, price: float, end: int) -> None:
        """A change that stands before a position."""
        self.now[car] = price
        self.ends.append(end)
        self._changes.append((car, price))
        self._states[len(self.ends)] = self.now.copy()
        self._states.pop(len(self.ends) - _STATES, None)

    def version(self, position: int) -> int:
        """How many changes there are up to a position."""
        return bisect_right(self.ends, position)

    def state(self, version: int) -> Floats:
        """All prices after so many changes."""
        found = self._states.get(version)
        if found is None:
            found = self.start.copy()
            for car, price in self._changes[:version]:
                found[car] = price
        return found


@dataclass(slots=True)
class Checked:
    """Answers compared with the truth."""

    prices: Prices
    answers: int = 0
    wrong: list[str] = field(default_factory=list)
    back: int = 0
    """Answers as of an earlier position than what had been delivered before the question."""
    distinct: int = 0
    """Pairs of a question and a state of the table for which the truth was looked up, each once while it is recent."""
    _truths: dict[tuple[Range, int], dict[int, float]] = field(default_factory=dict)
    _waiting: deque[tuple[Range, int, dict[int, float]]] = field(default_factory=deque)

    def take(self, asked: Range, delivered: int, as_of: int, rows: tuple[dict[str, Any], ...]) -> None:
        """Compare an answer, now or when its position is known."""
        self.back += as_of < delivered
        found = {row["id"]: row["price"] for row in rows}
        if len(found) != len(rows):
            self.wrong.append(f"{asked} has a row twice")
        self._waiting.append((asked, as_of, found))
        self.settle(last=False)

    def settle(self, *, last: bool) -> None:
        """Compare what can be compared; with `last` nothing more will change."""
        while self._waiting and (last or self._waiting[0][1] <= self.prices.known):
            asked, as_of, found = self._waiting.popleft()
            truth = self._truth(asked, as_of)
            self.answers += 1
            if found != truth:
                self.wrong.append(f"{asked} as of {as_of}: {len(found)} rows, {len(truth)} in truth")

    def _truth(self, asked: Range, as_of: int) -> dict[int, float]:
        version = self.prices.version(as_of)
        truth = self._truths.get((asked, version))
        if truth is None:
            if len(self._truths) >= _TRUTHS:
                self._truths.clear()
            state = self.prices.state(version)
            inside = np.flatnonzero((state >= asked.low) & (state <= asked.high))
            truth = dict(zip(inside.tolist(), state[inside].tolist(), strict=True))
            self._truths[asked, version] = truth
            self.distinct += 1
        return truth


@asynccontextmanager
async def fleet(url: str, clients: int, rows: int, seed: int) -> AsyncIterator[tuple[list[Client], Prices]]:
    """Clients with caches of a table that is full."""
    random = Random(seed)
    prices = Prices(random, rows)
    async with AsyncExitStack() as stack:
        async with connect(url) as owner:
            await owner.execute(TABLE)
            full = [{"id": car, "price": float(price), "year": 1990} for car, price in enumerate(prices.start)]
            receipt = await owner.ingest("cars", full, source="market", first=0)
            prices.change(0, float(prices.start[0]), receipt.position)
        made = [connect(url, cache=Cache(rows=rows, name=f"c{nth}")) for nth in range(clients)]
        for client in made:
            await stack.enter_async_context(client)
        yield made, prices


async def _settled(web: httpx.AsyncClient, position: int) -> None:
    """Wait until a server has come to a position, so that what comes next is a step of its own."""
    while (await web.get("/v1/ready")).json()["position"] < position:
        await asyncio.sleep(0.001)


@dataclass(frozen=True, slots=True)
class Replayed:
    """Cost of a replay, and the plans made."""

    planned: float
    planned_pushes: int
    planned_pulls: int
    pushes: int
    pulls: int
    fills: int
    asked_again: int
    answers: int
    wrong: tuple[str, ...]
    back: int
    events: int


async def replay(
    url: str, clients: int = 50, rows: int = 300, events: int = 40, updates: int = 300, seed: int = 1
) -> Replayed:
    """Each client asks `events` times while `updates` rows change, under labels planned for just that."""
    random = Random(seed)
    async with fleet(url, clients, rows, seed) as (fleet_of, prices), httpx.AsyncClient(base_url=url) as web:
        questions = [_questions(random, events) for _ in fleet_of]
        changes, drawn = [], prices.now.copy()
        for _ in range(updates):
            car, price = prices.draw(60.0)
            changes.append((car, price, float(drawn[car])))
            drawn[car] = price
            prices.now[car] = price
        prices.now = prices.start.copy()
        # The first question of each client begins its cache, before there are labels: it is not counted.
        for client in fleet_of:
            await client.query(Range(-2.0, -1.0).sql)
            while (own := client.cache.state.cached("cars")) is None or own.epoch is None:
                await asyncio.sleep(0.005)
        planned = [_planned(f"c{nth}", asked, changes) for nth, asked in enumerate(questions)]
        body = "\n".join(labels_line(labels) for labels, _, _ in planned)
        taken = (
            await web.post("/v1/caches/labels", content=body, headers={"content-type": "application/x-ndjson"})
        ).json()
        for client in fleet_of:
            while client.cache.state.cached("cars").epoch != 1 or client.cache.state.seen < taken["position"]:  # type: ignore[union-attr]
                await asyncio.sleep(0.005)
        before = [Counter(client.cache.counts) for client in fleet_of]
        checked = Checked(prices)
        order = [(-1, nth) for nth in range(updates)] + [(who, nth) for who in range(clients) for nth in range(events)]
        random.shuffle(order)
        first = rows
        upcoming = iter(changes)
        for who, nth in order:
            if who < 0:
                car, price, _ = next(upcoming)
                receipt = await fleet_of[0].ingest(
                    "cars", [{"id": car, "price": price, "year": 1990}], source="market", first=first
                )
                first += 1
                prices.change(car, price, receipt.position)
                await _settled(web, receipt.position)
            else:
                client, asked = fleet_of[who], questions[who][nth]
                delivered = client.cache.state.seen
                found = await client.query(asked.sql)
                checked.take(asked, delivered, found.as_of, found.rows)
        end = prices.known
        for client in fleet_of:
            while client.cache.state.seen < end:
                await asyncio.sleep(0.02)
        checked.settle(last=True)
        spent = [Counter(client.cache.counts) - former for client, former in zip(fleet_of, before, strict=True)]
        return Replayed(
            sum(cost for _, cost, _ in planned),
            sum(pushes for _, _, (pushes, _) in planned),
            sum(pulls for _, _, (_, pulls) in planned),
            sum(one["pushed"] for one in spent),
            sum(one["asked"] for one in spent),
            sum(one["filled"] for one in before),
            sum(one["asked again"] for one in spent),
            checked.answers,
            tuple(checked.wrong),
            checked.back,
            len(order),
        )


def _questions(random: Random, many: int) -> list[Range]:
    """Queries of one client: a few ranges around a place of its own, over and over, and some that never come again."""
    centre = random.uniform(100, 900)
    favourites = [_range(random, random.gauss(centre, 60)) for _ in range(6)]
    return [
        random.choice(favourites) if random.random() < 0.8 else _range(random, random.uniform(0, 1000))
        for _ in range(many)
    ]


class Habits:
    """Queries of one client under load: a few ranges over and over, some beside them, some far off, some never again.

    Ranges beside the favourites are answered in part at home, those far off by the server.
    """

    SHARES: ClassVar = {"favourite": 0.93, "beside": 0.03, "far off": 0.03, "new": 0.01}

    def __init__(self, random: Random) -> None:
        self._random = random
        centre = random.uniform(100, 900)
        favourites = [_range(random, random.gauss(centre, 60)) for _ in range(6)]
        beside = [_beside(random, random.choice(favourites)) for _ in range(12)]
        far = [_range(random, random.uniform(0, 1000)) for _ in range(12)]
        self._ranges = {"favourite": favourites, "beside": beside, "far off": far}
        self._kinds, self._shares = list(self.SHARES), list(self.SHARES.values())

    def next(self) -> tuple[str, Range]:
        """The kind of a question, and the question."""
        (kind,) = self._random.choices(self._kinds, self._shares)
        if kind == "new":
            return kind, _range(self._random, self._random.uniform(0, 1000))
        return kind, self._random.choice(self._ranges[kind])


def _beside(random: Random, favourite: Range) -> Range:
    """A range that has about half of another one."""
    off = random.choice((-1, 1)) * (favourite.high - favourite.low) * random.uniform(0.3, 0.8)
    return Range(round(favourite.low + off, 2), round(favourite.high + off, 2))


def _range(random: Random, middle: float) -> Range:
    half = random.uniform(2, 30)
    return Range(round(middle - half, 2), round(middle + half, 2))


def _planned(
    client: str, questions: list[Range], changes: list[tuple[int, float, float]]
) -> tuple[Labels, float, tuple[int, int]]:
    """Labels for a client, what they cost, and how much of that are pushes and pulls."""
    asked = [Asked(one.region) for one in questions]
    changed = [Changed({"price": price}, {"price": former}) for _, price, former in changes]
    encoded = encode(["price"], asked, changed, Messages())
    labelling = exact(encoded.workload)
    pushed = encoded.pushed(labelling)
    pulls = sum(not pushed.covers(one.region) for one in asked)
    pushes = sum(
        pushed.contains(one.place.get) or (one.before is not None and pushed.contains(one.before.get))
        for one in changed
    )
    return Labels(client, "cars", 1, Position(0), ("price",), pushed), labelling.cost, (pushes, pulls)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Result of a load; `asked` counts the questions of each kind."""

    answers: int
    distinct: int
    asked: Counter[str]
    wrong: tuple[str, ...]
    back: int
    updates: int
    seconds: float
    counts: Counter[str]
    epochs: int


async def load(
    url: str,
    queries: int,
    clients: int = 50,
    rows: int = 1_000,
    seed: int = 2,
    pause: float = 0.02,
    seconds: float = float("inf"),
    told: Callable[[int], None] = lambda answers: None,
) -> Loaded:
    """All clients ask at once until there are so many answers, or time is up, while rows change all the time.

    Each asks what `Habits` says. A quick machine may be through before labels are made: then they go on, for
    `FIRST_LABELS` seconds at most.
    """
    async with fleet(url, clients, rows, seed) as (fleet_of, prices):
        checked, began = Checked(prices), time.monotonic()
        left, updates, ended = queries, 0, asyncio.Event()

        kinds: Counter[str] = Counter()

        def on() -> bool:
            passed = time.monotonic() - began
            if left > 0 or passed >= seconds:
                return passed < seconds
            return passed < FIRST_LABELS and not any(one.cache.counts["answered at home"] for one in fleet_of)

        async def ask(client: Client, priors: Habits) -> None:
            nonlocal left
            state = client.cache.state
            while on():
                left -= 1
                kind, asked = priors.next()
                kinds[kind] += 1
                delivered = state.seen
                found = await client.query(asked.sql)
                checked.take(asked, delivered, found.as_of, found.rows)
                told(checked.answers)
                # Answers from the cache never wait: the writer of rows has to have its turn.
                await asyncio.sleep(0)

        async def change() -> None:
            nonlocal updates
            async with connect(url) as owner:
                while not ended.is_set():
                    drawn = dict(prices.draw(60.0) for _ in range(TOGETHER))
                    changed = [{"id": car, "price": price, "year": 1990} for car, price in drawn.items()]
                    receipt = await owner.ingest("cars", changed, source="market", first=rows + updates)
                    updates += len(changed)
                    for before, (car, price) in zip(reversed(range(len(drawn))), drawn.items(), strict=True):
                        prices.change(car, price, receipt.position - before)
                    checked.settle(last=False)
                    await asyncio.sleep(pause)

        changing = asyncio.create_task(change())
        try:
            async with asyncio.TaskGroup() as group:
                for nth, client in enumerate(fleet_of):
                    group.create_task(ask(client, Habits(Random(seed * 1_000 + nth))))
        finally:
            ended.set()
            await changing
        checked.settle(last=True)
        counts: Counter[str] = Counter()
        for client in fleet_of:
            counts.update(client.cache.counts)
        epochs = sum(own.epoch or 0 for client in fleet_of if (own := client.cache.state.cached("cars")) is not None)
        return Loaded(
            checked.answers,
            checked.distinct,
            kinds,
            tuple(checked.wrong),
            checked.back,
            updates,
            time.monotonic() - began,
            counts,
            epochs,
        )
