"""Experiment: delivered fidelity, window by window and in total.

`python -m experiments.pulling.fidelity_over_time`
"""

from typing import Any

import numpy as np

from experiments.output import write_table
from experiments.pulling import measures
from experiments.pulling.output import draw, folders, shares
from experiments.pulling.simulation import run_predicted
from experiments.pulling.workload import bounded
from slackwater.planning.pulling import run_uncertainty

DESIRED, QUERIES, MULTIPLE, WINDOW = 0.98, 100, 2.0, 100


def main() -> None:
    """Run, write and draw."""
    data, out = folders("fidelity over time")
    name, values = shares(data)
    queries = bounded(measures.drawn(values, QUERIES), values, MULTIPLE, DESIRED)
    runs = {
        "uncertainty": run_uncertainty(queries, values, measures.WARM),
        "max_for_many": run_predicted(queries, values, measures.spacings(values), "max_for_many", measures.WARM),
    }
    rows: list[tuple[str, int, float, float]] = []
    for algorithm, run in runs.items():
        lost = 100.0 * run.over_time / len(queries)
        for end in range(WINDOW, len(values) + 1, WINDOW):
            whole = float(np.mean(lost[min(measures.WARM, end - WINDOW) : end]))
            rows.append((algorithm, end, float(np.mean(lost[end - WINDOW : end])), whole))
    write_table(out / "fidelity_over_time.csv", ("algorithm", "tick", "lost_in_window", "lost_in_all"), rows, digits=6)

    def paint(axis: Any) -> None:
        for algorithm, colour in zip(runs, ("#1f77b4", "#d62728"), strict=True):
            own = [row for row in rows if row[0] == algorithm]
            axis.plot([r[1] for r in own], [r[2] for r in own], color=colour, linewidth=0.8, alpha=0.6)
            late = [row for row in own if row[1] > measures.WARM]
            pulls = int(runs[algorithm].pulls.sum())
            axis.plot(
                [r[1] for r in late],
                [r[3] for r in late],
                color=colour,
                linewidth=2.2,
                label=f"{algorithm}, {pulls} pulls",
            )
        axis.axhline(100 * (1 - DESIRED), color="#333333", linewidth=0.8, linestyle="--", label="allowed")
        axis.axvline(measures.WARM, color="#999999", linewidth=0.8)
        axis.set_xlabel("tick (counted after the warm-up)")
        axis.set_ylabel("fidelity lost, points; thin: in 100 ticks")
        axis.set_ylim(0, 15)
        axis.legend(fontsize=8)

    draw(out / "fidelity_over_time.svg", f"{name}, {QUERIES} queries, B = 2 deviations", paint)


if __name__ == "__main__":
    main()
