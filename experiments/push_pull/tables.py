"""Result tables of the three experiments: rows of plain values, the same for the same seeds.

1. `cost_table`: what every method costs, against the number of updates and of queries.
2. `gap_table`: what every heuristic costs over the optimum, in one and two attributes, on made and real workloads.
3. `drift_table`: what an event costs while the world changes, for every trigger, beside a clairvoyant who labels by
the very
   events it is judged on.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from experiments.push_pull.drift import Events, Trigger
from experiments.push_pull.drift_workloads import two_worlds
from experiments.push_pull.methods import costs
from experiments.push_pull.published.density import Density
from experiments.push_pull.published.dynnaive import DynNaive
from experiments.push_pull.published.dynprop import DynProp
from experiments.push_pull.published.periodic import Periodic
from experiments.push_pull.sliding_window import Windowed, best_cover
from experiments.push_pull.workloads import cars, clustered, sky
from slackwater.planning.push_pull.base import Workload

Row = dict[str, str | int | float]
SEEDS = 5
EACH, STRETCH = 40_000, 500


def cost_table(folder: Path) -> Iterator[Row]:
    """Costs of all methods, mean over the seeds; real workloads where the folder has them."""
    sizes = [("updates", 6_000, updates) for updates in (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)]
    sizes += [("queries", queries, 8_000) for queries in (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)]
    for varied, queries, updates in sizes:
        make = partial(clustered, queries=queries, updates=updates)
        yield from _mean("clustered", varied, queries, updates, make)
    if folder.exists():
        for updates in (5_000, 15_000, 50_000):
            make = partial(sky, folder=folder, queries=30_000, updates=updates)
            yield from _mean("sky", "updates", 30_000, updates, make, seeds=2)
        for updates in (2_000, 8_000, 32_000):
            make = partial(cars, folder=folder, queries=6_000, updates=updates)
            yield from _mean("cars, price", "updates", 6_000, updates, make)


def _mean(
    workload: str,
    varied: str,
    queries: int,
    updates: int,
    make: Callable[[np.random.Generator], Workload],
    seeds: int = SEEDS,
) -> Iterator[Row]:
    found = [costs(make(np.random.default_rng(seed))) for seed in range(seeds)]
    for method in found[0]:
        cost = round(float(np.mean([one[method] for one in found])), 1)
        yield {
            "workload": workload,
            "varied": varied,
            "queries": queries,
            "updates": updates,
            "method": method,
            "cost": cost,
        }


def gap_table(folder: Path) -> Iterator[Row]:
    """Cost over optimum, mean and worst over the seeds."""
    made: dict[str, Callable[[np.random.Generator], Workload]] = {
        "clustered, 1 attribute": partial(clustered, queries=6_000, updates=8_000),
        "clustered, 2 attributes": partial(clustered, queries=4_000, updates=10_000, axes=2, length=(3_000, 2_000)),
        "clustered, 3 attributes": partial(clustered, queries=2_000, updates=4_000, axes=3, length=(10_000, 5_000)),
    }
    if folder.exists():
        made["cars, price"] = partial(cars, folder=folder, queries=6_000, updates=8_000)
        made["cars, price and year"] = partial(cars, folder=folder, queries=4_000, updates=10_000, axes=2)
        made["cars, price, year, mileage"] = partial(cars, folder=folder, queries=4_000, updates=10_000, axes=3)
        looking = partial(sky, folder=folder, queries=30_000, updates=50_000)
        made["sky"] = looking
        for width in (0.1, 0.5, 2.0, 5.0):
            made[f"sky, ± {width:g} degrees"] = partial(looking, half_width=width)
    for name, make in made.items():
        found = [costs(make(np.random.default_rng(seed))) for seed in range(3)]
        for method in found[0]:
            gaps = [one[method] / one["exact"] for one in found]
            yield {
                "workload": name,
                "method": method,
                "optimum": round(float(np.mean([one["exact"] for one in found])), 1),
                "mean": round(float(np.mean(gaps)), 3),
                "worst": round(max(gaps), 3),
            }


def followers() -> dict[str, Windowed]:
    """Fresh followers of the drifting worlds."""
    triggers: dict[str, Trigger] = {
        "static": Periodic(0),
        "DYNNAIVE": DynNaive(),
        "DYNPROP": DynProp(),
        "DENSITY": Density(),
        "window, every 1 000": Periodic(1_000),
    }
    found = {name: Windowed(trigger, first=4_000) for name, trigger in triggers.items()}
    found["window, forgetting"] = Windowed(Periodic(1_000), first=4_000, forget=True)
    return found


def drift_table() -> Iterator[Row]:
    """Cost of an event in every stretch of 2 000, fills included, mean over the seeds."""
    join = 2_000 // STRETCH
    for recurring in (True, False):
        series: dict[str, list[list[float]]] = {}
        for seed in range(SEEDS):
            events = two_worlds(np.random.default_rng(seed), EACH, recurring=recurring)
            for name, follower in followers().items():
                series.setdefault(name, []).append(_follow(follower, events))
            series.setdefault("clairvoyant", []).append(_clairvoyant(events))
        for name, runs in series.items():
            mean = np.mean(runs, axis=0).reshape(-1, join).mean(axis=1)
            for k, cost in enumerate(mean):
                yield {
                    "queries": "recurring" if recurring else "fresh",
                    "method": name,
                    "events": (k + 1) * 2_000,
                    "cost": round(float(cost), 4),
                }


def _follow(follower: Windowed, events: Events) -> list[float]:
    spent = []
    for start in range(0, len(events), STRETCH):
        step = follower.observe(events.part(start, start + STRETCH))
        spent.append((step.events + step.fill) / STRETCH)
    return spent


def _clairvoyant(events: Events) -> list[float]:
    """Labels for each half of each world by that half itself, with nothing to ship."""
    paid = []
    for start in range(0, len(events), EACH // 2):
        part = events.part(start, start + EACH // 2)
        paid.append(best_cover(part).paid(part).reshape(-1, STRETCH).mean(axis=1))
    return [float(value) for value in np.concatenate(paid)]


def settled(rows: list[Row]) -> dict[str, dict[str, float]]:
    """Cost over the clairvoyant's in the last 20 000 events, which begin 20 000 after the change."""
    answer: dict[str, dict[str, float]] = {}
    for kind in ("recurring", "fresh"):
        late: dict[str, list[float]] = {}
        for row in rows:
            if row["queries"] == kind and float(row["events"]) > EACH + EACH // 2:
                late.setdefault(str(row["method"]), []).append(float(row["cost"]))
        base = float(np.mean(late["clairvoyant"]))
        answer[kind] = {name: round(float(np.mean(costs)) / base, 3) for name, costs in late.items()}
    return answer
