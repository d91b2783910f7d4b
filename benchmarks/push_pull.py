"""Exact labels by the million on a line, and in two attributes; what the heuristics lose.

On a line: making the workload from arrays and labelling it, against `numpy.sort` of the same ends and values in the
same run; the best of three, each size in a process of its own for its memory. In two attributes: the full arrangement,
and a 100 × 100 grid.
"""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.statistics import peak
from experiments.push_pull.methods import costs
from experiments.push_pull.number_ranges import NumberRanges, on_a_line
from experiments.push_pull.workloads import clustered
from slackwater.planning.push_pull.cut import exact_by_cut
from slackwater.planning.push_pull.line import exact_on_a_line
from slackwater.planning.push_pull.partition import equal_width, partition
from slackwater.planning.push_pull.published.recurrence import exact_by_recurrence


def on_the_line(count: int, *, twin: bool) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    middle, values = rng.uniform(0, 1e6, count), rng.uniform(0, 1e6, count)
    # Lengths so that a query touches twenty updates in the mean whatever the size.
    half = rng.exponential(10e6 / count, count)
    ranges, ones = NumberRanges(middle - half, middle + half), np.ones(count)
    exact_on_a_line(on_a_line(NumberRanges(middle[:9], middle[:9] + half[:9]), ones[:9], values[:9], ones[:9]))
    sorting = solving = float("inf")
    before = peak()
    cost = 0.0
    for _ in range(3):
        started = time.process_time()
        np.sort(np.concatenate((ranges.low, ranges.high, values)))
        sorted_at = time.process_time()
        workload = on_a_line(ranges, ones, values, ones)
        cost = exact_on_a_line(workload).cost
        solving = min(solving, time.process_time() - sorted_at)
        sorting = min(sorting, sorted_at - started)
    figures = {
        "queries": count,
        "updates": count,
        "seconds": round(solving, 3),
        "seconds_of_numpy_sort": round(sorting, 3),
        "times_numpy_sort": round(solving / sorting, 1),
        "memory_above_inputs_mb": peak() - before,
        "cost": cost,
        "cost_of_one_label": float(count),
    }
    if twin:
        started = time.process_time()
        figures["cost_by_recurrence"] = exact_by_recurrence(workload).cost
        figures["seconds_of_recurrence"] = round(time.process_time() - started, 3)
    return figures


def in_two(length: tuple[float, float]) -> dict[str, Any]:
    workload = clustered(np.random.default_rng(1), 4_000, 10_000, axes=2, length=length)
    exact_by_cut(clustered(np.random.default_rng(2), 10, 10, axes=2))
    started = time.process_time()
    full = exact_by_cut(workload)
    full_at = time.process_time()
    snapped = exact_by_cut(partition(workload, equal_width(workload, 100)).coarse)
    snapped_at = time.process_time()
    found = {name: round(cost / full.cost, 3) for name, cost in costs(workload).items()}
    return {
        "length_of_queries": f"G({length[0]:g}, {length[1]:g})",
        "queries": 4_000,
        "updates": 10_000,
        "seconds_full": round(full_at - started, 2),
        "seconds_on_the_grid": round(snapped_at - full_at, 2),
        "cost": full.cost,
        "proven_at_least": full.at_least,
        "cost_on_the_grid": snapped.cost,
        "loss_by_snapping": round(snapped.cost / full.cost - 1, 3),
        "cost_over_optimum": found,
    }


def apart(count: int, *, twin: bool) -> dict[str, Any]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(on_the_line, count, twin=twin).result()


def main() -> None:
    small, large = apart(100_000, twin=True), apart(1_000_000, twin=False)
    report.write(
        "push_pull",
        {
            "one_attribute": [small, large],
            "growth_of_time_from_100_000_to_1_000_000": round(large["seconds"] / small["seconds"], 1),
            "two_attributes": [in_two(length) for length in ((500, 400), (3_000, 2_000), (10_000, 5_000))],
        },
    )


if __name__ == "__main__":
    main()
