"""Standing joins by the million: rows a second to their affected queries, and against what one would write instead.

Throughput is per second of processor time of one core, the median of batches, each row matched with all standing joins
and its affected queries handed over in order. Ranges lie around the points of stabbing groups with heavy tails, scaled
so that a row affects ten queries in the mean whatever the number of queries. `python -m benchmarks.standing_joins`
runs all parts, or those named behind it; sizes are measured in processes of their own, for their memory.
"""

import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.statistics import peak
from experiments.joins.stabbing_histogram import held_by, optimal, ssi_histogram, ssi_lines
from experiments.joins.workloads import BandWorkload, SelectWorkload, chapter_ranges
from slackwater.processing.matching import JoinRows, JoinSide, Matcher
from slackwater.processing.matching.band_ssi import BandSSI
from slackwater.processing.matching.histogram import equal_width
from slackwater.processing.matching.hotspots import HotspotTracker
from slackwater.processing.matching.select_ssi import SelectSSI

Figures = dict[str, Any]


def rate(matcher: Matcher, draw: Callable[[int], JoinRows], size: int, batches: int) -> tuple[float, float]:
    """Rows a second of processor time (the median batch), and affected queries a row."""
    matcher.match(JoinSide.LEFT, draw(2))
    seconds, affected = list[float](), 0
    for _ in range(batches):
        rows = draw(size)
        started = time.process_time()
        affected += len(matcher.match(JoinSide.LEFT, rows).queries)
        seconds.append(time.process_time() - started)
    return size / float(np.median(seconds)), affected / (size * batches)


def band(queries: int, rows: int, groups: int, *, size: int = 1000, batches: int = 30) -> Figures:
    workload = BandWorkload(np.random.default_rng(1), queries, rows, groups)
    matcher = BandSSI(workload.shape)
    started = time.process_time()
    matcher.add(workload.queries)
    built = time.process_time() - started
    matcher.insert(JoinSide.RIGHT, workload.across)
    throughput, affected = rate(matcher, workload.draw, size, batches)
    return {
        "queries": queries,
        "rows": rows,
        "groups": matcher.groups,
        "affected_queries_a_row": round(affected, 1),
        "rows_a_second": round(throughput),
        "seconds_to_add_the_queries": round(built, 1),
        "peak_memory_mb": peak(),
    }


def select(queries: int, rows: int, groups: int, wanted: float) -> Figures:
    workload = SelectWorkload(np.random.default_rng(1), queries, rows, groups, wanted)
    matcher = SelectSSI(workload.shape)
    matcher.add(workload.queries)
    matcher.insert(JoinSide.RIGHT, workload.across)
    throughput, affected = rate(matcher, workload.draw, 1000, 30)
    return {
        "queries": queries,
        "rows": rows,
        "groups": matcher.groups[0],
        "share_of_queries_that_want_a_row": wanted,
        "affected_queries_a_row": round(affected, 1),
        "rows_a_second": round(throughput),
        "peak_memory_mb": peak(),
    }


def counts_of_queries() -> Figures:
    bands = [apart(band, n, 1_000_000, 10) for n in (10_000, 100_000, 1_000_000)]
    selects = [apart(select, n, 1_000_000, 10, 0.1) for n in (10_000, 100_000, 1_000_000)]
    narrow = [apart(select, n, 1_000_000, 10, 0.001) for n in (10_000, 100_000, 1_000_000)]
    return {
        "band_joins": bands,
        "band_joins_10_000_over_1_000_000": round(bands[0]["rows_a_second"] / bands[2]["rows_a_second"], 2),
        "select_joins": selects,
        "select_joins_10_000_over_1_000_000": round(selects[0]["rows_a_second"] / selects[2]["rows_a_second"], 2),
        "select_joins_of_narrow_interest": narrow,
        "ten_million_band_joins": apart(band, 10_000_000, 1_000_000, 10),
    }


def counts_of_groups() -> Figures:
    return {
        "band_joins_by_groups": [
            apart(band, 1_000_000, 1_000_000, groups, size=1000 if groups <= 100 else 100, batches=10)
            for groups in (1, 10, 100, 1000, 10_000)
        ]
    }


def hotspots() -> Figures:
    """A million changes of queries in batches of 1 000, interests that move; the invariants after every 20 batches."""
    rng, tracker = np.random.default_rng(1), HotspotTracker(0.001)
    spent, checked, ever = 0.0, 0, 0
    there = np.zeros(0, np.int64)
    batches = promotions = 0
    while tracker.changes < 1_000_000:
        centres = 50.0 * ((np.arange(200) * 37 + ever // 100_000) % 2000)
        scattered = rng.random(600) < 0.3
        middle = np.where(scattered, rng.uniform(0, 100_000, 600), rng.choice(centres, 600))
        low, high = middle - rng.exponential(5, 600), middle + rng.exponential(5, 600)
        slots = np.arange(ever, ever + 600)
        ever += 600
        gone = rng.permutation(len(there))[:400]
        started = time.process_time()
        tracker.add(slots, low, high)
        tracker.remove(there[gone])
        promotions += len(tracker.settle())
        spent += time.process_time() - started
        there = np.concatenate((np.delete(there, gone), slots))
        batches += 1
        if batches % 20 == 0:
            tracker._check()
            checked += 1
    return {
        "hotspot_tracking": {
            "changes": tracker.changes,
            "queries_at_the_end": len(tracker),
            "hot_groups": len(tracker.hot),
            "scattered_groups": len(tracker.scattered.groups),
            "hot_share": round(tracker.hot_share, 3),
            "microseconds_a_change": round(spent / tracker.changes * 1e6, 2),
            "moves_a_change": round(tracker.moves / tracker.changes, 3),
            "groups_promoted_or_demoted": promotions,
            "partitions_started_over": tracker.scattered.restarts,
            "times_all_invariants_checked": checked,
        }
    }


def maintenance() -> Figures:
    """What a change of the queries costs the index of a million band joins, one at a time and in batches."""
    workload = BandWorkload(np.random.default_rng(1), 1_000_000, 1_000, 10)
    more = BandWorkload(np.random.default_rng(2), 20_000, 1_000, 10, points=workload.points, first=1_000_000)
    matcher = BandSSI(workload.shape)
    matcher.add(workload.queries)
    figures: Figures = {}
    for size in (1, 1000):
        count = 2_000 if size == 1 else 20_000
        parts = [more.part(k, k + size) for k in range(0, count, size)]
        matcher.add(parts[0])
        matcher.remove(parts[0].numbers)
        started = time.process_time()
        for part in parts:
            matcher.add(part)
        for part in parts:
            matcher.remove(part.numbers)
        figures[f"in_batches_of_{size}"] = round((time.process_time() - started) / (2 * count) * 1e6, 2)
    return {"microseconds_a_change_of_a_million_band_joins": figures}


READINGS = {
    "midpoints ± 1500, lengths ± 2000": (1500.0, 2000.0),
    "midpoints ± 1500, lengths ± √2000": (1500.0, 2000**0.5),
    "midpoints ± √1500, lengths ± 2000": (1500**0.5, 2000.0),
    "midpoints ± √1500, lengths ± √2000": (1500**0.5, 2000**0.5),
}


def histograms() -> Figures:
    found = []
    # The second number of a normal distribution may be meant as a deviation or as a variance.
    for reading, spread in READINGS.items():
        rng = np.random.default_rng(1)
        ranges, groups = chapter_ranges(rng, 100_000, *spread)
        at = rng.uniform(0, 10_000, 5_000)
        truth = held_by(ranges, at)
        there = truth > 0
        for buckets in (20, 30, 50, 70):
            errors: Figures = {"reading": reading, "groups": groups, "buckets": buckets}
            for make in (ssi_lines, ssi_histogram, equal_width, optimal):
                started = time.process_time()
                histogram = make(ranges, buckets)
                seconds = time.process_time() - started
                error = np.abs(histogram(at) - truth)[there] / truth[there]
                errors[make.__name__] = round(float(error.mean()), 3)
                errors[f"{make.__name__}_seconds"] = round(seconds, 2)
            found.append(errors)
    return {"histograms": found}


PARTS: dict[str, Callable[[], Figures]] = {
    "queries": counts_of_queries,
    "groups": counts_of_groups,
    "hotspots": hotspots,
    "maintenance": maintenance,
    "histograms": histograms,
}


def apart(part: Callable[..., Figures], *arguments: object, **named: object) -> Figures:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(part, *arguments, **named).result()


def main() -> None:
    for name in [name for name in sys.argv[1:] if name in PARTS] or PARTS:
        report.write(f"standing_joins_{name}", PARTS[name]())


if __name__ == "__main__":
    main()
