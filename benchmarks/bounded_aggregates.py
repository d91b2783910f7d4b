"""100 000 bounded sums of 5 items over 10 000 items: updates a second on one core, beside DuckDB and Polars.

Items of queries are drawn Zipf(1). Updates are drawn over items uniformly, or Zipf(1) too. Steps are sized so that
about 2 % of the queries that a batch touches have something to say. The time is that of `Host.apply`: folding the batch
into the latest state, and the operator.

The peers are handed the new latest state and the changed items, and compute the sums of the affected queries only;
keeping the state and comparing with what was said is not counted for them. All run with one thread, in turns. Seconds
are on the wall clock; beside them stand those of the processor, which other programs on the machine disturb less.
"""

import os

os.environ["POLARS_MAX_THREADS"] = "1"

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa

from benchmarks import report
from slackwater.core import (
    Aggregate,
    AggregateFunction,
    Bound,
    Box,
    Column,
    DataType,
    Interval,
    Position,
    Region,
    Selection,
    Side,
    TableSchema,
    Weight,
)
from slackwater.core.arrow import INSTANT, update_schema
from slackwater.processing.bounded import BoundedAggregates
from slackwater.processing.bounded.column_aggregates import ListedAggregates
from slackwater.processing.bounded.regional import RegionalAggregates
from slackwater.processing.host import Host
from slackwater.processing.latest import LatestTable
from slackwater.processing.regions import Sheet
from slackwater.processing.selection import Selections

ITEMS, QUERIES, MEMBERS = 10_000, 100_000, 5
SHARE = 0.02
"""Of the touched queries so many should have something to say."""
WARM, MEASURED, PEERS = 100_000, 1.5, 1.0
"""Updates before measuring; seconds to measure Slackwater and each peer."""
QUOTES = TableSchema(
    "quotes", (Column("symbol", DataType.TEXT, nullable=False), Column("price", DataType.DOUBLE)), key=("symbol",)
)
SYMBOLS = np.array([f"S{n:05d}" for n in range(ITEMS)], object)
ZIPF = (1 / np.arange(1, ITEMS + 1)) / (1 / np.arange(1, ITEMS + 1)).sum()


@dataclass
class World:
    """Prices that walk at random, and the batches that say so."""

    random: np.random.Generator
    prices: np.ndarray
    step: float = 0.05
    sequence: int = 0

    def items(self, count: int, skew: np.ndarray | None) -> np.ndarray:
        """Which items a batch updates, repeats included."""
        if skew is None:
            return self.random.integers(0, ITEMS, count)
        return np.minimum(np.searchsorted(np.cumsum(skew), self.random.random(count)), ITEMS - 1)

    def batch(self, items: np.ndarray) -> pa.RecordBatch:
        """Each update moves its item by a small step."""
        steps = self.random.standard_normal(len(items)) * self.step
        # Each update carries the price after its own step; the last of an item is where it then stands.
        order = np.argsort(items, kind="stable")
        walked = np.cumsum(steps[order])
        first = np.searchsorted(items[order], items[order])
        moved = walked - (walked - steps[order])[first]
        prices = np.empty(len(items))
        prices[order] = self.prices[items[order]] + moved
        self.prices[items] = prices
        sequences = np.arange(self.sequence, self.sequence + len(items))
        self.sequence += len(items)
        return pa.RecordBatch.from_arrays(
            [
                pa.array(SYMBOLS[items], pa.string()),
                pa.array(prices),
                pa.array(np.zeros(len(items), np.int8)),
                pa.array(sequences).cast(INSTANT),
                pa.array(["bench"] * len(items)),
                pa.array(sequences),
            ],
            schema=update_schema(QUOTES),
        )


def members(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Five different items for each query, and their weights."""
    ends = np.cumsum(ZIPF)
    items = np.empty((QUERIES, MEMBERS), np.int64)
    for query in range(QUERIES):
        chosen: set[int] = set()
        while len(chosen) < MEMBERS:
            chosen.add(min(int(np.searchsorted(ends, random.random())), ITEMS - 1))
        items[query] = sorted(chosen)
    return items, random.integers(1, 10, (QUERIES, MEMBERS)).astype(np.float64)


Peer = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


class DuckPeer:
    """DuckDB: members joined with the latest prices, grouped by query, for the affected queries only."""

    def __init__(self, items: np.ndarray, weights: np.ndarray) -> None:
        self.db = duckdb.connect()
        self.db.execute("SET threads = 1")
        made = _members_table(items, weights)
        self.db.register("made", made)
        self.db.execute("CREATE TABLE members AS SELECT * FROM made ORDER BY query")

    def sums(self, prices: np.ndarray, changed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The affected queries and their sums."""
        self.db.register("latest", pa.table({"item": np.arange(ITEMS), "price": prices}))
        self.db.register("changed", pa.table({"item": changed}))
        found = self.db.execute(
            "SELECT query, SUM(weight * price) AS total FROM members JOIN latest USING (item) WHERE query IN "
            "(SELECT query FROM members SEMI JOIN changed USING (item)) GROUP BY query"
        ).fetchnumpy()
        return found["query"], found["total"]


class PolarsPeer:
    """Polars: the same with lazy frames."""

    def __init__(self, items: np.ndarray, weights: np.ndarray) -> None:
        self.members = polars.from_arrow(_members_table(items, weights))

    def sums(self, prices: np.ndarray, changed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The affected queries and their sums."""
        assert isinstance(self.members, polars.DataFrame)
        lazy = self.members.lazy()
        latest = polars.LazyFrame({"item": np.arange(ITEMS), "price": prices})
        touched = lazy.join(polars.LazyFrame({"item": changed}), on="item", how="semi").select("query")
        found = (
            lazy.join(touched, on="query", how="semi")
            .join(latest, on="item")
            .group_by("query")
            .agg((polars.col("weight") * polars.col("price")).sum().alias("total"))
            .collect()
        )
        return found["query"].to_numpy(), found["total"].to_numpy()


def _members_table(items: np.ndarray, weights: np.ndarray) -> pa.Table:
    queries = np.repeat(np.arange(QUERIES), MEMBERS)
    return pa.table({"query": queries, "item": items.reshape(-1), "weight": weights.reshape(-1)})


def touched_queries(items: np.ndarray, changed: np.ndarray) -> int:
    flags = np.zeros(ITEMS, np.bool_)
    flags[changed] = True
    return int(np.count_nonzero(flags[items].any(axis=1)))


def scenario(
    host: Host,
    operator: BoundedAggregates,
    world: World,
    size: int,
    skew: np.ndarray | None,
    members_of: tuple[np.ndarray, np.ndarray],
    peers: dict[str, Peer],
) -> dict[str, Any]:
    """One kind of batch: warm until the share of notifications is as wanted, measure, let the peers do the same."""
    items, weights = members_of

    used = 0.0

    def step() -> tuple[float, int, np.ndarray]:
        nonlocal used
        drawn = world.items(size, skew)
        batch = world.batch(drawn)
        started, processor = time.perf_counter(), time.process_time()
        said = host.apply("quotes", batch, Position(host.position + size))
        used += time.process_time() - processor
        return time.perf_counter() - started, len(said), drawn

    for _ in range(6):
        said = touched = 0
        for _ in range(max(3, WARM // 6 // size)):
            _, count, drawn = step()
            said += count
            touched += touched_queries(items, drawn)
        world.step *= min(2.0, max(0.5, math.sqrt(SHARE * touched / max(said, 1))))
    seconds, batches, said, touched, before = 0.0, 0, 0, 0, operator.touches
    used = 0.0
    while seconds < MEASURED:
        took, count, drawn = step()
        seconds, batches, said = seconds + took, batches + 1, said + count
        touched += touched_queries(items, drawn) if batches % 10 == 1 else 0
    sampled = -(-batches // 10)
    figures: dict[str, Any] = {
        "updates_a_second": round(batches * size / seconds),
        "updates_a_processor_second": round(batches * size / used),
        "query_touches_a_second": round((operator.touches - before) / seconds),
        "milliseconds_a_batch": round(1000 * seconds / batches, 3),
        "share_of_touched_that_notify": round(said / batches / (touched / sampled), 4),
    }
    for name, peer in peers.items():
        own = theirs = 0.0
        while theirs < PEERS:
            took, _, drawn = step()
            started = time.perf_counter()
            queries, totals = peer(world.prices.copy(), np.unique(drawn))
            theirs += time.perf_counter() - started
            own += took
        truth = (weights[queries] * world.prices[items[queries]]).sum(axis=1)
        assert len(queries) == touched_queries(items, drawn)
        assert np.allclose(totals, truth)
        figures[f"times_faster_than_{name}"] = round(theirs / own, 1)
    return figures


def drift() -> dict[str, float]:
    """Relative errors after 10⁸ changes: the worst of 200 listed sums, and that of a sum over a region."""
    random = np.random.default_rng(5)
    rounds = 10_000
    slots = np.arange(ITEMS)
    prices, steps = 100 + random.standard_normal(ITEMS), random.standard_normal(ITEMS)
    forest = ListedAggregates(slots, prices)
    lists = [random.choice(ITEMS, 50 if number else ITEMS, replace=False) for number in range(200)]
    for number, chosen in enumerate(lists):
        forest.add(number, AggregateFunction.SUM, chosen, np.ones(len(chosen)), 0.0, 0)

    table = LatestTable(QUOTES)
    table.fold(World(random, prices.copy(), 0.0).batch(slots))
    changes = table.fold(World(random, prices + 1, 0.0, ITEMS).batch(slots))
    regional = RegionalAggregates()
    region = Region((Box.of(Side("price", Interval(-1e9, 1e9))),))
    query = Aggregate("quotes", AggregateFunction.SUM, "price", Bound(0.0), region)
    regional.add(1, query, np.zeros(0, np.int64), table, 0)

    symbols, present = changes.after.column(0), np.ones(ITEMS, np.bool_)
    before = Sheet(changes.after, present)
    prices = before.numbers("price")
    for at in range(rounds):
        prices = prices + np.roll(steps, 7 * at)
        forest.apply(slots, prices, Position(at))
        after = Sheet(pa.RecordBatch.from_arrays([symbols, pa.array(prices)], ["symbol", "price"]), present)
        regional.apply(changes, before, after, table, Position(at))
        before = after
    # Each change is a subtraction and an addition; fewer would mean that the total was read from the rows again.
    assert regional.parts()["steps"].tolist() == [2 * rounds * ITEMS]

    def error(value: float | None, parts: np.ndarray) -> float:
        assert value is not None
        return abs(value - math.fsum(parts)) / math.fsum(np.abs(parts))

    worst = max(error(forest.published(number)[0], prices[chosen]) for number, chosen in enumerate(lists))
    return {"changes": rounds * ITEMS, "listed": worst, "over_a_region": error(regional.published(1)[0], prices)}


def others(world: World) -> dict[str, Any]:
    """Queries by region: 100 000 selections and 10 000 sums, each over prices a thousandth of the range apart."""
    figures: dict[str, Any] = {}
    for name, count in (("selections", 100_000), ("sums over regions", 10_000)):
        host = Host([BoundedAggregates(), Selections()])
        host.define(QUOTES, Position(0))
        spread = World(world.random, world.random.uniform(0, 1000, ITEMS), 5.0)
        host.apply("quotes", spread.batch(np.arange(ITEMS)), Position(ITEMS))
        for number in range(count):
            low = float(spread.random.uniform(0, 999))
            region = Region((Box.of(Side("price", Interval(low, low + 1.0))),))
            query = (
                Selection("quotes", ("symbol", "price"), region)
                if name == "selections"
                else Aggregate("quotes", AggregateFunction.SUM, "price", Bound(500.0), region)
            )
            host.register(number, query, host.position)
        seconds, batches, said = 0.0, -1, 0
        while seconds < MEASURED:
            batch = spread.batch(spread.items(1000, None))
            started = time.perf_counter()
            told = host.apply("quotes", batch, Position(host.position + 1000))
            # The first batch builds the index.
            seconds, said = (seconds + time.perf_counter() - started, said + len(told)) if batches >= 0 else (0.0, 0)
            batches += 1
        figures[name] = {
            "queries": count,
            "updates_a_second": round(batches * 1000 / seconds),
            "notifications_a_second": round(said / seconds),
        }
    return figures


def main() -> None:
    random = np.random.default_rng(2)
    world = World(random, 100 + random.standard_normal(ITEMS))
    items, weights = members(random)
    operator = BoundedAggregates()
    host = Host([operator])
    host.define(QUOTES, Position(0))
    host.apply("quotes", world.batch(np.arange(ITEMS)), Position(ITEMS))
    started = time.perf_counter()
    for number in range(QUERIES):
        listed = tuple(
            Weight((SYMBOLS[item],), factor)
            for item, factor in zip(items[number].tolist(), weights[number].tolist(), strict=True)
        )
        bound = Bound(float(np.sqrt((weights[number] ** 2).mean())))
        query = Aggregate("quotes", AggregateFunction.SUM, "price", bound, weights=listed)
        host.register(number, query, host.position)
    registered = time.perf_counter() - started
    peers: dict[str, Peer] = {"duckdb": DuckPeer(items, weights).sums, "polars": PolarsPeer(items, weights).sums}
    figures: dict[str, Any] = {"registrations_a_second": round(QUERIES / registered)}
    for name, skew in (("uniform", None), ("zipf", ZIPF)):
        for size in (100, 1000, 10_000):
            key = f"{name} updates, batches of {size}"
            figures[key] = scenario(host, operator, world, size, skew, (items, weights), peers)
    started = time.perf_counter()
    state = host.snapshot()
    figures["snapshot"] = {
        "megabytes": round(len(state) / 1e6, 1),
        "seconds": round(time.perf_counter() - started, 2),
    }
    figures["relative_error_after_changes"] = drift()
    figures["others, batches of 1000"] = others(world)
    report.write("bounded_aggregates", {"queries": QUERIES, "items": ITEMS, "items_a_query": MEMBERS, **figures})


if __name__ == "__main__":
    main()
