"""Pulls foretold against pulls that happened, schedulers that begin with statistics, and what an explanation costs.

The first half of a trace is the past, the second what comes. Items of the past are known by its pulls alone, or by
statistics of all its values.
"""

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import pulling, report
from experiments.pulling import measures
from experiments.pulling.simulation import drive
from experiments.pulling.traces import trace
from experiments.pulling.workload import bounded
from slackwater.core.bound import Bound
from slackwater.planning.pulling import PullQuery, Uncertainty, run_uncertainty
from slackwater.planning.pulling.history_sampling import ItemHistory, Motion, past_of, unknown
from slackwater.planning.pulling.item_prior import ItemPrior, priors_of
from slackwater.planning.pulling.trial import first_price, run_trial
from slackwater.planning.pulling.warm_start import begin
from slackwater.statistics import Statistics, Ticks

Floats = npt.NDArray[np.float64]

SECOND = 1_000_000
STANDING, ASKED = 10, 40
WARM_UP = 400
BOUNDS = (1.0, 2.0, 4.0)


def priors(values: Floats) -> list[ItemPrior | None]:
    statistics = Statistics("t", "v")
    names = [f"{item:03}" for item in range(values.shape[1])]
    for place, name in enumerate(names):
        statistics.update(Ticks.of([name] * len(values), np.arange(len(values)) * SECOND, values[:, place]))
    found = priors_of(statistics, SECOND)
    return [found.get(name) for name in names]


def alone(query: PullQuery) -> PullQuery:
    """The same over columns of its own."""
    return PullQuery.total(range(len(query.items)), query.weights, query.bound)


def begun(values: Floats) -> dict[str, Any]:
    """Pulls and fidelity of the first ticks: from nothing, with models from statistics, and with first prices too."""
    half = len(values) // 2
    known, after = priors(values[:half]), np.ascontiguousarray(values[half : half + WARM_UP])
    told: dict[str, Any] = {}
    for multiple in BOUNDS:
        queries = bounded(measures.drawn(values, STANDING), values[:half], multiple, 0.95)
        row: dict[str, Any] = {}
        for label in ("from nothing", "models", "models and prices"):
            scheduler = Uncertainty(values.shape[1])
            if label != "from nothing":
                begin(scheduler, known)
            for number, query in enumerate(queries):
                scheduler.register(str(number), query)
                if label == "models and prices":
                    motions = [known[item] for item in query.items]
                    memories = [ItemHistory(str(k), (), None, Motion.of_prior(m)) for k, m in enumerate(motions) if m]
                    price = first_price(alone(query), past_of(memories, np.random.default_rng(1)))
                    scheduler.raise_price(str(number), price)
            found = drive(scheduler, queries, after)
            row[label] = [int(found.pulls.sum()), round(100 * float(found.fidelity.mean()), 1)]
        told[f"{multiple:g}"] = row
    return told


def foretold(values: Floats) -> dict[str, Any]:
    """Queries that were never asked, over items that others have had pulled: told by the past, and what came."""
    half = len(values) // 2
    before, after = np.ascontiguousarray(values[:half]), np.ascontiguousarray(values[half:])
    drawn = measures.drawn(values, STANDING + ASKED)
    scheduler = Uncertainty(values.shape[1])
    standing = bounded(drawn[:STANDING], before, 2.0, 0.95)
    for number, query in enumerate(standing):
        scheduler.register(str(number), query)
    pulls: list[list[tuple[int, float]]] = [[] for _ in range(values.shape[1])]
    for now, row in enumerate(before.tolist()):
        while due := scheduler.due(now):
            for item in due:
                scheduler.pulled(now, item, row[item])
                pulls[item].append((now, row[item]))
    told: list[float] = []
    same: list[float] = []
    next_: list[float] = []
    for query in bounded(drawn[STANDING:], before, 2.0, 0.98):
        memories = [
            ItemHistory(str(item), pulls[item], Motion.of_model(scheduler.models[item]) if pulls[item] else None)
            for item in query.items
        ]
        if unknown(memories) is not None:
            continue
        own = alone(query)
        told.append(run_trial(own, past_of(memories, np.random.default_rng(1))).at(own.bound.within, 0.98))
        for part, into in ((before, same), (after, next_)):
            columns = np.ascontiguousarray(part[:, list(query.items)])
            found = run_uncertainty([own], columns, WARM_UP)
            into.append(float(found.pulls.sum()) / found.ticks)

    def against(happened: list[float]) -> dict[str, float]:
        wrong = [abs(a - b) / b for a, b in zip(told, happened, strict=True)]
        return {
            "median_relative_error": round(float(np.median(wrong)), 2),
            "spearman": round(measures.ranks_agree(told, happened), 2),
            "told_to_happened": round(measures.geometric([a / b for a, b in zip(told, happened, strict=True)]), 2),
        }

    return {"queries": len(told), "in_the_same_stretch": against(same), "in_the_next_stretch": against(next_)}


def cost() -> dict[str, Any]:
    """Processor seconds of an explanation, and of a first price, by the items of the query."""
    told: dict[str, Any] = {}
    for items in (2, 8, 40, 200):
        memories = [ItemHistory(str(item), (), None, Motion(1.0, 1.0, 0.0, 0.0)) for item in range(items)]
        query = PullQuery.total(range(items), [1.0] * items, Bound(6.0 * items**0.5, 0.95))
        past = past_of(memories, np.random.default_rng(0))
        run_uncertainty([query], past.trace[:50])
        began = time.process_time()
        run_trial(query, past)
        between = time.process_time()
        first_price(query, past)
        told[str(items)] = {
            "explanation": round(between - began, 2),
            "first_price": round(time.process_time() - between, 2),
        }
    return told


def measured(held_out: bool) -> dict[str, Any]:
    figures: dict[str, Any] = {"begun": {}, "foretold": {}}
    for name in pulling.names():
        values = trace(name, pulling.FOLDER, held_out=held_out)
        figures["begun"][name] = begun(values)
        figures["foretold"][name] = foretold(values)
    runs = [row for one in figures["begun"].values() for row in one.values()]
    figures["begun_together"] = {
        label: {
            "pulls_to_from_nothing": round(measures.geometric([r[label][0] / r["from nothing"][0] for r in runs]), 2),
            "settings_with_fidelity_below_93": sum(row[label][1] < 93 for row in runs),
            "mean_fidelity": round(float(np.mean([row[label][1] for row in runs])), 1),
        }
        for label in ("from nothing", "models", "models and prices")
    }
    return figures


def main() -> None:
    # What is here was chosen by looking at the half that the scheduler's constants were not, so the other is the test.
    figures: dict[str, Any] = {"processor_seconds_by_items": cost()}
    figures["half looked at"], figures["half not looked at"] = measured(True), measured(False)
    report.write("outlook", figures)


if __name__ == "__main__":
    main()
