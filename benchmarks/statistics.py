"""How many rows a second the summaries count, by size of batch; how the similarity of all pairs grows with the items.

The summaries use one thread; their rates are rows for each second of processor time, so that a busy machine does not
blur what one core can do. The similarity uses BLAS with as many threads as it takes, and is measured by the clock.
"""

import multiprocessing
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import report
from slackwater.statistics import Histogram, Markov, Moments, Movement, Rules, Similarity, Statistics, Summary, Ticks

ITEMS, TICKS = 100, 20_000
SECOND = 1_000_000


def batches(items: int, ticks: int, rows: int, *, text: bool = False) -> Iterator[pa.RecordBatch]:
    """Walks in steps of cents, in order of time, items mixed: as a log or a wide trace would have them."""
    rng = np.random.default_rng(1)
    names = pa.array([f"S{item}" for item in range(items)])
    level = np.full(items, 100.0)
    height = max(1, rows // items)
    for start in range(0, ticks, height):
        count = min(height, ticks - start)
        values = level + np.cumsum(np.round(rng.normal(0, 0.05, (count, items)), 2), axis=0)
        level = values[-1]
        codes = pa.array(np.tile(np.arange(items), count), pa.int32())
        item = pa.DictionaryArray.from_arrays(codes, names)
        times = np.repeat(np.arange(start, start + count) * SECOND, items)
        columns = {"item": item.cast(pa.string()) if text else item, "time": times, "value": values.reshape(-1)}
        yield pa.record_batch(columns)


def rates(rows: int, rules: Rules, *, text: bool = False) -> dict[str, int]:
    """Rows for each second of processor time, by step; the best of five rounds, the first of which compiles."""
    given = list(batches(ITEMS, TICKS, rows, text=text))
    best: dict[str, float] = {}
    for _ in range(5):
        parts: list[Summary] = [Movement(rules), Moments(rules), Markov(rules), Histogram(rules)]
        took = dict.fromkeys(["in order", *(part.kind for part in parts)], 0.0)
        for batch in given:
            started = time.process_time()
            ticks = Ticks.from_arrow(batch)
            took["in order"] += time.process_time() - started
            for part in parts:
                started = time.process_time()
                part.update(ticks)
                took[part.kind] += time.process_time() - started
        took["movement + moments + markov, in order"] = sum(took.values()) - took["histogram"]
        best = {name: min(best.get(name, spent), spent) for name, spent in took.items()}
    return {name: round(ITEMS * TICKS / spent) for name, spent in best.items()}


def merging() -> dict[str, Any]:
    """What it costs to send and merge a piece."""
    halves = []
    for part in range(2):
        halves.append(Statistics("t", "v"))
        for batch in list(batches(ITEMS, 2000, 100_000))[part : part + 1]:
            halves[-1].update(Ticks.from_arrow(batch))
    started = time.perf_counter()
    data = halves[1].to_bytes()
    halves[0].merge(Statistics.from_bytes(data))
    return {
        "kilobytes_an_item": round(len(data) / 1000 / ITEMS, 1),
        "ms": round(1e3 * (time.perf_counter() - started), 1),
    }


def peak() -> int:
    """The most memory this process has had, in MB; `ru_maxrss` would begin with that of the process it came from."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return next(int(line.split()[1]) // 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def pairs(items: int, ticks: int) -> dict[str, Any]:
    """All pairs over a history in batches of 200 000 rows, in a process of its own; making the rows not counted."""
    warm = Similarity(period=SECOND)
    for batch in batches(4, 100, 40):
        warm.update(Ticks.from_arrow(batch))
    similarity = Similarity(period=SECOND)
    spent, before = 0.0, peak()
    for batch in batches(items, ticks, 200_000):
        ready = Ticks.from_arrow(batch)
        started = time.perf_counter()
        similarity.update(ready)
        spent += time.perf_counter() - started
    started = time.perf_counter()
    similarity.value().neighbours(10)
    return {
        "items": items,
        "ticks": ticks,
        "seconds": round(spent, 2),
        "rows_a_second": round(items * ticks / spent),
        "seconds_for_the_neighbours": round(time.perf_counter() - started, 2),
        "matrix_mb": round(8 * items * items / 1e6, 1),
        "memory_above_start_mb": peak() - before,
    }


def apart(items: int, ticks: int) -> dict[str, Any]:
    """`pairs` in a fresh process, so that the memory is its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(pairs, items, ticks).result()


def main() -> None:
    report.write(
        "statistics",
        {
            "items": ITEMS,
            "rows": ITEMS * TICKS,
            "rows_a_second_of_one_core": {
                "batches of 10 000": rates(10_000, Rules()),
                "batches of 100 000": rates(100_000, Rules()),
                "batches of 100 000, names as text": rates(100_000, Rules(), text=True),
                "batches of 1 000 000": rates(1_000_000, Rules()),
                "batches of 100 000, fading": rates(100_000, Rules(half_life=3600 * SECOND)),
            },
            "sending_and_merging_a_piece": merging(),
            "similarity_of_all_pairs": [
                *(apart(items, 2_000) for items in (100, 500, 1_000, 2_000)),
                apart(2_000, 10_000),
            ],
        },
    )


if __name__ == "__main__":
    main()
