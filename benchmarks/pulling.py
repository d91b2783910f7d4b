"""Pulling just enough: fidelity kept, pulls against the paper's best and against clairvoyants, forecasts, speed.

Real traces are read from the folder of shared data beside the checkout; where it is absent only the generators are
measured. Fidelity and forecasts are measured twice: on the half of the items that constants were chosen by, and on
the half held out.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from experiments.pulling import measures
from experiments.pulling.simulation import drive, push_best, push_changed
from experiments.pulling.traces import MADE, TRACES, trace
from experiments.pulling.workload import bounded
from slackwater.planning.pulling import Uncertainty, run_uncertainty

FOLDER = Path(__file__).parents[2] / "shared" / "data"
MULTIPLES = (1.0, 2.0, 4.0)
FIDELITIES = (0.90, 0.95, 0.98, 0.99, 0.995)
QUERIES = 100


def names() -> list[str]:
    return list(TRACES if FOLDER.exists() else MADE)


def fidelity(held_out: bool) -> dict[str, Any]:
    """Delivered fidelity with feedback, for each trace, bound and desired fidelity."""
    rows, worst = [], {}
    for name in names():
        values = trace(name, FOLDER, held_out=held_out)
        given = measures.drawn(values, QUERIES)
        floor = values.shape[1] * (len(values) - measures.WARM) / 60
        for multiple in MULTIPLES:
            for desired in FIDELITIES:
                found = run_uncertainty(bounded(given, values, multiple, desired), values, measures.WARM)
                mean = 100 * (float(found.fidelity.mean()) - desired)
                low = 100 * (float(np.percentile(found.fidelity, 5)) - desired)
                rows.append((name, multiple, desired, mean, low, int(found.pulls.sum()) / floor))
    for name in names():
        own = [row for row in rows if row[0] == name]
        worst[name] = {
            "mean_points": [round(min(row[3] for row in own), 2), round(max(row[3] for row in own), 2)],
            "fifth_percentile_points": round(min(row[4] for row in own), 2),
        }
    return {
        "settings": len(rows),
        "mean_at_least_f_minus_half_a_point": sum(row[3] >= -0.5 for row in rows),
        "fifth_percentile_at_least_f_minus_2_points": sum(row[4] >= -2.0 for row in rows),
        "above_f_plus_1_beyond_the_floor_of_ttr_max": sum(row[3] > 1.0 and row[5] > 1.2 for row in rows),
        "points_from_f_on_average": round(float(np.mean([row[3] for row in rows])), 2),
        "by_trace_from_f": worst,
    }


def against(held_out: bool) -> dict[str, Any]:
    """Pulls at equal measured fidelity, read from curves; and against clairvoyants."""
    by_trace: dict[str, Any] = {}
    ratios: list[float] = []
    for name in names():
        values = trace(name, FOLDER, held_out=held_out)
        given = measures.drawn(values, QUERIES)
        own: list[float] = []
        ours_to_best, ours_to_changed, best_choice = [], [], []
        for multiple in MULTIPLES:
            queries = bounded(given, values, multiple, 0.99)
            ours = measures.curve_of_uncertainty(queries, values)
            paper = measures.curves_of_the_paper(queries, values)
            best, changed = push_best(queries, values, measures.WARM), push_changed(queries, values, measures.WARM)
            for desired in (0.90, 0.95, 0.98, 0.99):
                mine = measures.pulls_at(ours, desired)
                theirs = {choice: measures.pulls_at(points, desired) for choice, points in paper.items()}
                known = {choice: pulls for choice, pulls in theirs.items() if pulls is not None}
                if mine is None or not known:
                    continue
                choice = min(known, key=lambda each: known[each])
                best_choice.append(choice)
                own.append(mine / known[choice])
                if desired == 0.99:
                    ours_to_best.append(mine / max(best, 1))
                    ours_to_changed.append(mine / max(changed, 1))
        ratios += own
        by_trace[name] = {
            "ours_to_the_papers_best": round(measures.geometric(own), 3),
            "worst": round(max(own), 3),
            "papers_best": max(set(best_choice), key=best_choice.count),
            "at_99_to_push_best": [round(each, 2) for each in ours_to_best],
            "at_99_to_push_changed": [round(each, 2) for each in ours_to_changed],
        }
    return {
        "ours_to_the_papers_best_geometric_mean": round(measures.geometric(ratios), 3),
        "worst_trace": max(by_trace, key=lambda name: float(by_trace[name]["ours_to_the_papers_best"])),
        "to_push_best_at_99_geometric_mean": round(
            measures.geometric([each for own in by_trace.values() for each in own["at_99_to_push_best"]]), 2
        ),
        "to_push_changed_at_99_geometric_mean": round(
            measures.geometric([each for own in by_trace.values() for each in own["at_99_to_push_changed"]]), 2
        ),
        "by_trace": by_trace,
    }


def forecasts(held_out: bool) -> dict[str, Any]:
    told = {}
    for name in names():
        found = measures.foretell(trace(name, FOLDER, held_out=held_out), 60, 0.98)
        told[name] = {
            "spearman": round(found.spearman, 3),
            "median_relative_error": round(found.median_error, 3),
            "error_of_the_pulls_in_the_first_half": round(found.replayed_error, 3),
            "pulls_of_the_second_half_to_the_first": round(found.level, 2),
        }
    return told


def speed() -> dict[str, Any]:
    """500 queries, 20 items, 3000 ticks, compiled and plain, in processor time: a busy machine does not blur it."""
    values = trace("market", FOLDER)
    queries = bounded(measures.drawn(values, 500), values, 2.0, 0.98)
    run_uncertainty(queries, values[:50])
    started = time.process_time()
    fast = run_uncertainty(queries, values)
    whole = time.process_time() - started
    scheduler = Uncertainty(values.shape[1])
    for number, query in enumerate(queries):
        scheduler.register(str(number), query)
    started = time.process_time()
    plain = drive(scheduler, queries, values)
    spent = time.process_time() - started
    return {
        "seconds_for_500_queries_20_items_3000_ticks": round(whole, 2),
        "times_the_plain_twin": round(spent / whole, 1),
        "plain_twin_ms_a_tick": round(1e3 * spent / len(values), 1),
        "same_pulls": plain.pulls.tolist() == fast.pulls.tolist(),
    }


def main() -> None:
    figures: dict[str, Any] = {"queries": QUERIES, "speed": speed()}
    for label, held_out in (("tuning half", False), ("held-out half", True)):
        figures[label] = {"fidelity": fidelity(held_out), "forecast_at_98": forecasts(held_out)}
    # The curves take the longest and are only drawn where nothing was chosen by looking.
    figures["held-out half"]["pulls"] = against(True)
    report.write("pulling", figures)


if __name__ == "__main__":
    main()
