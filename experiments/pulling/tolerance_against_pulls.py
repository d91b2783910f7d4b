"""Experiment: pulls saved by tolerance, for several fidelities.

`python -m experiments.pulling.tolerance_against_pulls`
"""

from typing import Any

from experiments.output import write_table
from experiments.pulling import measures
from experiments.pulling.output import draw, folders, shares
from experiments.pulling.workload import bounded
from slackwater.planning.pulling import run_uncertainty

MULTIPLES = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
DESIRED, QUERIES = (0.90, 0.95, 0.98, 0.99, 0.995), 100


def main() -> None:
    """Run, write and draw."""
    data, out = folders("tolerance against pulls")
    name, values = shares(data)
    given = measures.drawn(values, QUERIES)
    rows: list[tuple[float, float, int, float]] = []
    for desired in DESIRED:
        for multiple in MULTIPLES:
            run = run_uncertainty(bounded(given, values, multiple, desired), values, measures.WARM)
            point = measures.Point.of(run)
            rows.append((desired, multiple, point.pulls, point.fidelity))
    write_table(out / "tolerance_against_pulls.csv", ("desired", "bound", "pulls", "fidelity"), rows, digits=6)

    def paint(axis: Any) -> None:
        for desired in DESIRED:
            own = [row for row in rows if row[0] == desired]
            axis.plot([r[1] for r in own], [r[2] for r in own], marker="o", markersize=3, label=f"{100 * desired:g} %")
        floor = values.shape[1] * (len(values) - measures.WARM) / 60
        axis.axhline(floor, color="#999999", linewidth=0.8, linestyle="--", label="TTRmax alone")
        axis.set_yscale("log")
        axis.set_xlabel("bound, in deviations of a query's ten-tick change")
        axis.set_ylabel(f"pulls in {len(values) - measures.WARM} ticks, all items")
        axis.legend(fontsize=8, title="desired fidelity")

    draw(out / "tolerance_against_pulls.svg", f"{name}, {QUERIES} queries, scheduled by uncertainty", paint)


if __name__ == "__main__":
    main()
