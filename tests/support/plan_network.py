"""Plan network processes: a server that plans over five aggregators, watching clients, and a judge."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import slackwater.client as library
from slackwater.client.planned.service import PlannedSum
from slackwater.core.query import Aggregate, AggregateFunction
from slackwater.core.region import EVERYTHING
from slackwater.core.region_keys import keys_in
from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType, Key
from slackwater.hosting.binder import Binder
from tests.support.aggregators import LEASE, SYMBOLS, Prices, Written, aggregator, configuration, define
from tests.support.server_process import AggregatorProcess, ServerProcess

HELD = {
    "a": ("S0", "S1", "S2", "S3"),
    "b": ("S2", "S3", "S4", "S5"),
    "c": ("S4", "S5", "S6", "S7"),
    "d": ("S0", "S2", "S4", "S6"),
    "e": ("S1", "S3", "S5", "S7"),
}
WITHIN = 0.1
"""What each of them holds its items within."""
WINDOW = 0.4
NETWORK = f"window = {WINDOW}\nlost_after = 1.5\n" + "".join(
    f'[[aggregators]]\nname = "{name}"\nnodes = ["{name}"]\n' for name in HELD
)
QUOTES = TableSchema(
    "quotes",
    (Column("symbol", DataType.TEXT, nullable=False), Column("price", DataType.DOUBLE, nullable=False)),
    ("symbol",),
)


def weighted(weights: dict[str, float], within: float) -> str:
    values = ", ".join(f"('{symbol}', {weight})" for symbol, weight in weights.items())
    head = "SUBSCRIBE SELECT SUM(w * price) FROM quotes JOIN"
    return f"{head} (VALUES {values}) AS p(symbol, w) USING (symbol) WITHIN {within}"


SUMS = (
    weighted({"S0": 1.0, "S1": 2.0, "S4": 1.5, "S7": -1.0}, 4.0),
    weighted(dict.fromkeys(SYMBOLS, 1.0), 6.0),
    "SUBSCRIBE SELECT SUM(price) FROM quotes WHERE symbol IN ('S2', 'S3', 'S6') WITHIN 2.5",
)


@dataclass
class PlannedNetwork:
    folder: Path
    server: ServerProcess
    aggregators: dict[str, AggregatorProcess]

    def reports(self) -> str:
        return "".join(one.report()[-1500:] for one in (self.server, *self.aggregators.values()))


@contextmanager
def network(folder: Path) -> Iterator[PlannedNetwork]:
    (folder / "network.toml").write_text(NETWORK)
    server = ServerProcess(folder / "server", "--lease", str(LEASE), "--network", str(folder / "network.toml"))
    aggregators = {
        name: aggregator(folder / name, configuration("server", "server", WITHIN, HELD[name])) for name in HELD
    }
    with ThreadPoolExecutor(8) as many:
        try:
            list(many.map(lambda one: one.start(), (server, *aggregators.values())))
            define(server.url)
            yield PlannedNetwork(folder, server, aggregators)
        finally:
            list(many.map(lambda one: one.stop(), (*aggregators.values(), server)))


@dataclass
class WatchedSum:
    """One planned sum and everything that was shown of it."""

    subscription: library.Subscription
    seen: list[tuple[bool, float | None, tuple[int, int], tuple[tuple[str, int], ...]]] = field(default_factory=list)
    plans: dict[tuple[int, int], list[tuple[str, str]]] = field(default_factory=dict)
    """By number and epoch of the registration, the aggregators and texts of the parts."""
    looks: int = 0
    uncertain: int = 0

    def look(self) -> None:
        shown = self.subscription.shown
        if shown.positions is None or shown.query is None or shown.epoch is None:
            return
        service = self.subscription._service
        assert isinstance(service, PlannedSum)
        which = (shown.query, shown.epoch)
        if which not in self.plans:
            adding = service.adding
            assert adding.which == which
            self.plans[which] = [(adding.parts[one].aggregator, adding.parts[one].sql) for one in adding.places]
        self.looks += 1
        self.uncertain += not shown.certain
        known = (shown.certain, shown.value, which, shown.positions)
        if not self.seen or self.seen[-1] != known:
            self.seen.append(known)


async def look_on(watched: list[WatchedSum], stop: asyncio.Event) -> None:
    while not stop.is_set():
        for one in watched:
            one.look()
        await asyncio.sleep(0.003)


async def load(url: str, stop: asyncio.Event, prices: dict[str, float], restless: set[str]) -> None:
    """Rows, each until it is acknowledged; some symbols move more than others."""
    chance = random.Random(5)
    sent = 0
    async with library.connect(url, patience=60) as client:
        while not stop.is_set():
            rows = []
            for _ in range(4):
                symbol = chance.choice(SYMBOLS)
                prices[symbol] += chance.gauss(0, 3.0 if symbol in restless else 0.15)
                rows.append({"symbol": symbol, "price": prices[symbol]})
            await client.ingest("quotes", rows, source="load", first=sent)
            sent += len(rows)
            await asyncio.sleep(0.01)


def judge(folder: Path, watched: list[WatchedSum]) -> int:
    """Compare everything that was shown with the truth from the logs; returns how many values were compared."""
    truth = Prices(folder / "server")
    written = {name: Written.read(folder / name) for name in HELD}
    compared = 0
    for one in watched:
        asked = query_of(one.subscription.sql)
        for which, parts in one.plans.items():
            check_cut(asked, [query_of(sql) for _, sql in parts], which)
        for certain, value, which, positions in one.seen:
            total = 0.0
            for (aggregator_name, sql), (name, position) in zip(one.plans[which], positions, strict=True):
                assert aggregator_name == name, "positions are those of the plan's parts"
                top = written[name].position(position) if name else position
                assert top is not None
                prices = truth.at(top)
                part = query_of(sql)
                total += sum(weight.factor * prices.get(str(weight.key[0]), 0.0) for weight in part.weights or ())
            assert value is not None
            most = asked.bound.within + 1e-9 * abs(total)
            assert abs(value - total) <= most, (one.subscription.sql, certain, value, total, which, positions)
            compared += 1
    return compared


def check_cut(asked: Aggregate, parts: list[Aggregate], which: object = None) -> None:
    """The parts are the sum that was asked, each item once and with its weight, and their bounds exactly within its."""
    listed = _weights(asked)
    cut = Counter(one for part in parts for one in _weights(part))
    assert cut == Counter(listed), (which, asked, parts)
    assert all(part.bound.always for part in parts), (which, parts)
    bounds = sum((Fraction(part.bound.within) for part in parts), Fraction(0))
    assert bounds <= Fraction(asked.bound.within), (which, parts)


def _weights(query: Aggregate) -> list[tuple[Key, float]]:
    """Every item that counts, and how much."""
    assert (query.function, query.table, query.column) == (AggregateFunction.SUM, "quotes", "price")
    if query.weights is None:
        keys = keys_in(query.region, QUOTES)
        assert keys is not None
        return [(key, query.scale) for key in keys]
    assert query.region == EVERYTHING
    return [(weight.key, weight.factor * query.scale) for weight in query.weights]


_binder = Binder()


def query_of(sql: str) -> Aggregate:
    found = _binder.bind(sql, {"quotes": QUOTES})[0]
    assert isinstance(found, Aggregate)
    return found
