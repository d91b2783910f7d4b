"""Experiment: pulls against the bound, for every algorithm, with the fidelity that each delivered.

`python -m experiments.pulling.pulls_against_bound`
"""

from typing import Any

from experiments.output import write_table
from experiments.pulling import measures
from experiments.pulling.output import draw, fixed_interval, folders, shares
from experiments.pulling.simulation import push_best, push_changed, run_predicted
from experiments.pulling.workload import bounded
from slackwater.planning.pulling import CHOICES, run_uncertainty

MULTIPLES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
DESIRED, QUERIES = 0.98, 100
EVERY = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 60)


def main() -> None:
    """Run, write and draw."""
    data, out = folders("pulls against the bound")
    name, values = shares(data)
    given = measures.drawn(values, QUERIES)
    spacings = measures.spacings(values)
    rows: list[tuple[str, float, int, float]] = []
    for multiple in MULTIPLES:
        queries = bounded(given, values, multiple, DESIRED)
        polled = [fixed_interval(queries, values, every, measures.WARM) for every in EVERY]
        pulls, kept = min([each for each in polled if each[1] >= DESIRED] or polled[:1])
        rows.append(("fixed interval", multiple, pulls, kept))
        for choice in CHOICES:
            point = measures.Point.of(run_predicted(queries, values, spacings, choice, measures.WARM))
            rows.append((choice, multiple, point.pulls, point.fidelity))
        point = measures.Point.of(run_uncertainty(queries, values, measures.WARM))
        rows.append(("uncertainty", multiple, point.pulls, point.fidelity))
        rows.append(("push changed", multiple, push_changed(queries, values, measures.WARM), 1.0))
        rows.append(("push best", multiple, push_best(queries, values, measures.WARM), 1.0))
    write_table(out / "pulls_against_bound.csv", ("algorithm", "bound", "pulls", "fidelity"), rows, digits=6)

    def paint(axis: Any) -> None:
        for algorithm in dict.fromkeys(row[0] for row in rows):
            own = [row for row in rows if row[0] == algorithm]
            ours, push = algorithm == "uncertainty", algorithm.startswith("push")
            line = axis.plot(
                [row[1] for row in own],
                [row[2] for row in own],
                label=algorithm,
                linewidth=2.4 if ours else 1.2,
                linestyle=":" if push else "-",
                marker="o",
                markersize=4,
                fillstyle="none",
            )[0]
            right = [row for row in own if row[3] >= DESIRED - 0.005]
            axis.plot([row[1] for row in right], [row[2] for row in right], "o", markersize=4, color=line.get_color())
        axis.set_yscale("log")
        axis.set_xlabel("bound, in deviations of a query's ten-tick change")
        axis.set_ylabel(f"pulls or pushes in {len(values) - measures.WARM} ticks, all items")
        axis.legend(fontsize=8, ncols=2)

    draw(
        out / "pulls_against_bound.svg",
        f"{name}, {QUERIES} queries, 98 % desired (filled: delivered, to half a point)",
        paint,
    )


if __name__ == "__main__":
    main()
