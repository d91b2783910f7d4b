"""100 000 bounded sums of 5 items over 10 000 items, beside thirty lines of scipy and forty of numba.

The rivals are two short programs (`../shared/rivals/bounded_sums.py`): a sparse product, and a compiled loop. Each is
handed the same Arrow batch as `Host.apply` and returns the queries to publish with their values. Everybody is timed
from the batch in memory to what is to be sent, in turns: one contender takes a run of batches, then the next takes the
same ones. Prices lie on a grid of 2⁻¹⁰ and weights are whole, so sums are exact and all answers can be compared.

Times are those of the processor. Beside them stand the growth with queries and keys, and the bytes each of them takes.
"""

import gc
import importlib.util
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import report
from slackwater.core import (
    Aggregate,
    AggregateFunction,
    Bound,
    Column,
    DataType,
    Position,
    TableSchema,
    Weight,
)
from slackwater.core.arrow import INSTANT, update_schema
from slackwater.processing.host import Host

ITEMS, QUERIES, MEMBERS = 10_000, 100_000, 5
BOUND, GRID = 8.0, 1024
SHARE = 0.02
"""Of the touched queries about so many should be published."""
SIZES = (1, 100, 1_000, 10_000)
GROWTH = (1_000, 10_000, 100_000, 1_000_000)
ROUNDS, RUN = 12, 0.15
"""So many runs of each contender are timed; a run takes about so many seconds."""
RIVALS = Path(__file__).resolve().parents[2] / "shared" / "rivals" / "bounded_sums.py"
QUOTES = TableSchema(
    "quotes", (Column("symbol", DataType.TEXT, nullable=False), Column("price", DataType.DOUBLE)), key=("symbol",)
)

Taken = tuple[np.ndarray, np.ndarray]
Contender = Callable[[pa.RecordBatch], Taken]


@dataclass
class World:
    """Items and queries, and prices that walk on a grid."""

    items: int
    queries: int
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(2))
    step: float = 50.0
    sequence: int = 0

    def __post_init__(self) -> None:
        shares = 1 / np.arange(1, self.items + 1)
        self.ends = np.cumsum(shares / shares.sum())
        self.symbols = np.array([f"S{n:07d}" for n in range(self.items)], object)
        self.prices = self.random.integers(50 * GRID, 150 * GRID, self.items)
        self.members = np.sort(self._different(), axis=1)
        self.weights = self.random.integers(1, 10, self.members.shape).astype(np.float64)

    def _different(self) -> np.ndarray:
        """Five different items for each query, drawn by Zipf's law."""
        drawn = self._zipf((self.queries, MEMBERS))
        while True:
            drawn.sort(axis=1)
            again = (np.diff(drawn, axis=1) == 0).any(axis=1)
            if not again.any():
                return drawn
            drawn[again] = self._zipf((int(again.sum()), MEMBERS))

    def _zipf(self, shape: int | tuple[int, ...]) -> np.ndarray:
        return np.minimum(np.searchsorted(self.ends, self.random.random(shape)), self.items - 1)

    def batch(self, size: int, zipf: bool) -> pa.RecordBatch:
        """A batch in which every row moves its item by a small step."""
        items = self._zipf(size) if zipf else self.random.integers(0, self.items, size)
        steps = np.rint(self.random.standard_normal(size) * self.step).astype(np.int64)
        order = np.argsort(items, kind="stable")
        walked = np.cumsum(steps[order])
        first = np.searchsorted(items[order], items[order])
        prices = np.empty(size, np.int64)
        prices[order] = self.prices[items[order]] + walked - (walked - steps[order])[first]
        self.prices[items] = prices
        return self.rows(items, prices / GRID)

    def rows(self, items: np.ndarray, prices: np.ndarray) -> pa.RecordBatch:
        """An update batch of these prices."""
        sequences = np.arange(self.sequence, self.sequence + len(items))
        self.sequence += len(items)
        columns = [
            pa.array(self.symbols[items], pa.string()),
            pa.array(prices),
            pa.array(np.zeros(len(items), np.int8)),
            pa.array(sequences).cast(INSTANT),
            pa.array(["bench"] * len(items)),
            pa.array(sequences),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=update_schema(QUOTES))

    def sums(self) -> list[Aggregate]:
        """The queries as values."""
        names = self.symbols[self.members].tolist()
        bound = Bound(BOUND)
        return [
            Aggregate(
                QUOTES.name,
                AggregateFunction.SUM,
                "price",
                bound,
                weights=tuple(Weight((name,), weight) for name, weight in zip(*pair, strict=True)),
            )
            for pair in zip(names, self.weights.tolist(), strict=True)
        ]


class Slackwater:
    """The product: a host with the operators that every node has."""

    def __init__(self, world: World) -> None:
        self.host = Host()
        self.host.define(QUOTES, Position(0))
        self.host.apply("quotes", world.rows(np.arange(world.items), world.prices / GRID), Position(world.items))
        queries = world.sums()
        started = time.process_time()
        for number, query in enumerate(queries):
            self.host.register(number, query, self.host.position)
        self.microseconds_a_registration = round(1e6 * (time.process_time() - started) / len(queries), 1)

    def take(self, batch: pa.RecordBatch) -> Taken:
        """The queries to publish, and their values."""
        values = self.host.apply("quotes", batch, Position(self.host.position + batch.num_rows)).values
        return (np.zeros(0, np.int64), np.zeros(0)) if values is None else (values.queries, values.values)


def rivals(world: World) -> dict[str, Contender]:
    """The short programs, unchanged; none where their folder is absent."""
    if not RIVALS.exists():
        print(f"the rivals are not beside the checkout ({RIVALS.name} in ../shared/rivals): timing Slackwater alone")
        return {}
    spec = importlib.util.spec_from_file_location("bounded_sums_rivals", RIVALS)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    given = (world.symbols.tolist(), world.prices / GRID, world.members, world.weights, BOUND)
    return {"scipy": module.ScipySparse(*given).take, "numba": module.NumbaLoop(*given).take}


def compare(outputs: dict[str, list[Taken]]) -> int:
    """All contenders published the same; how many values that were."""
    (first, expected), *others = outputs.items()
    for name, found in others:
        for (queries, values), (own, numbers) in zip(expected, found, strict=True):
            assert np.array_equal(queries, own), f"{name} publishes other queries than {first}"
            assert np.array_equal(values, numbers), f"{name} publishes other values than {first}"
    return sum(len(queries) for queries, _ in expected)


def touched(world: World, batches: list[pa.RecordBatch]) -> int:
    """How many queries list an item of a batch."""
    count = 0
    for batch in batches:
        changed = np.zeros(world.items, np.bool_)
        changed[[int(name[1:]) for name in batch.column(0).to_pylist()]] = True
        count += int(np.count_nonzero(changed[world.members].any(axis=1)))
    return count


def scenario(world: World, contenders: dict[str, Contender], size: int, zipf: bool) -> dict[str, Any]:
    """One size of batch: compare while the share of published queries settles, then time in turns."""
    for _ in range(6):
        batches = [world.batch(size, zipf) for _ in range(max(3, 2_000 // size))]
        published = compare({name: [take(one) for one in batches] for name, take in contenders.items()})
        share = published / max(touched(world, batches[:50]) / len(batches[:50]) * len(batches), 1)
        world.step *= min(2.0, max(0.5, (SHARE / max(share, 1e-6)) ** 0.5))
    count, spent = max(3, 1_000 // size), dict[str, list[float]]((name, []) for name in contenders)
    for lap in range(ROUNDS + 1):
        batches = [world.batch(size, zipf) for _ in range(count)]
        outputs: dict[str, list[Taken]] = {}
        for name, take in contenders.items():
            gc.collect()
            started = time.process_time()
            outputs[name] = [take(one) for one in batches]
            used = time.process_time() - started
            if lap:
                spent[name].append(used / count)
            else:
                # The first run is not counted; it says how long the next ones should be.
                count = max(3, min(20 + 1_000 // size, int(RUN / (used / count))))
        published = compare(outputs)
    figures: dict[str, Any] = {
        f"{name}_milliseconds": round(1000 * float(np.median(one)), 4) for name, one in spent.items()
    }
    figures["published_a_batch"] = round(published / count, 2)
    own = figures["slackwater_milliseconds"]
    for name in contenders.keys() - {"slackwater"}:
        figures[f"times_{name}"] = round(own / figures[f"{name}_milliseconds"], 2)
    return figures


def grown(items: int, queries: int) -> dict[str, float]:
    """A host of so many items and queries: an update in batches of 100, a registration, a snapshot and a restore."""
    world = World(items, queries)
    own = Slackwater(world)
    spent = []
    for _ in range(ROUNDS):
        batches = [world.batch(100, False) for _ in range(20)]
        started = time.process_time()
        for batch in batches:
            own.take(batch)
        spent.append((time.process_time() - started) / 2_000)
    started = time.process_time()
    state = own.host.snapshot()
    packed = time.process_time() - started
    again = Host()
    started = time.process_time()
    again.restore(state)
    restored = time.process_time() - started
    assert again.snapshot() == state
    return {
        "microseconds_an_update": round(1e6 * float(np.median(spent[1:])), 2),
        "microseconds_a_registration": own.microseconds_a_registration,
        "seconds_to_snapshot": round(packed, 3),
        "seconds_to_restore": round(restored, 3),
    }


def sizes() -> dict[str, float]:
    """Bytes that a key and a subscription take: the host's own, beside the query value that its caller made."""
    world = World(100_000, 100_000)
    queries = world.sums()
    batch = world.rows(np.arange(world.items), world.prices / GRID)
    host = Host()
    host.define(QUOTES, Position(0))
    gc.collect()
    tracemalloc.start()
    host.apply("quotes", batch, Position(world.items))
    gc.collect()
    keys = tracemalloc.get_traced_memory()[0]
    for number, query in enumerate(queries):
        host.register(number, query, host.position)
    gc.collect()
    both = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {
        "bytes_a_key": round(keys / world.items, 1),
        "bytes_a_subscription": round((both - keys) / len(queries), 1),
    }


def main() -> None:
    world = World(ITEMS, QUERIES)
    own = Slackwater(world)
    contenders = {"slackwater": own.take, **rivals(world)}
    figures: dict[str, Any] = {"microseconds_a_registration": own.microseconds_a_registration}
    for zipf in (False, True):
        for size in SIZES:
            name = f"{'zipf' if zipf else 'uniform'} updates, batches of {size}"
            figures[name] = scenario(world, contenders, size, zipf)
            print(name, figures[name], flush=True)
    about = {"queries": QUERIES, "items": ITEMS, "items_a_query": MEMBERS}
    report.write("sums_beside_rivals", {**about, **figures})
    del own, contenders
    figures["sizes"] = sizes()
    by_queries = figures["growth with queries, a tenth as many keys"] = {}
    by_keys = figures["growth with keys, 10 000 queries"] = {}
    for count in GROWTH:
        by_queries[str(count)] = grown(count // 10, count)
        by_keys[str(count)] = grown(count, 10_000)
        # What has been measured is kept, should the largest not fit into this machine.
        report.write("sums_beside_rivals", {**about, **figures})


if __name__ == "__main__":
    main()
