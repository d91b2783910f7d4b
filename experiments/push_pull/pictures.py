"""Plots of the push/pull experiments, few lines each."""

from pathlib import Path

import numpy as np

from experiments.output import picture
from experiments.push_pull.tables import Row

COLOURS = {
    "exact": "#000000",
    "clairvoyant": "#000000",
    "UNIFORM": "#999999",
    "static": "#999999",
    "NAIVE": "#e69f00",
    "DYNNAIVE": "#e69f00",
    "MNAIVE": "#d55e00",
    "DYNPROP": "#cc79a7",
    "PROP": "#0072b2",
    "DENSITY": "#0072b2",
    "BUCKETS": "#009e73",
    "window, every 1 000": "#009e73",
    "equi-height": "#cc79a7",
}


def draw(costs: list[Row], gaps: list[Row], drift: list[Row], to: Path) -> None:
    """Draw all three into a folder."""
    _costs(costs, to / "costs.svg")
    _gaps(gaps, to / "gaps.svg")
    _drift(drift, to / "drift.svg")


def _costs(rows: list[Row], to: Path) -> None:
    with picture(to, (9, 3.6), 2, shared=True) as (_, axes):
        for axis, varied, fixed in zip(axes, ("updates", "queries"), ("6 000 queries", "8 000 updates"), strict=True):
            for method, colour in COLOURS.items():
                own = [
                    row
                    for row in rows
                    if row["workload"] == "clustered" and row["varied"] == varied and row["method"] == method
                ]
                if own:
                    at, cost = [row[varied] for row in own], [row["cost"] for row in own]
                    axis.plot(at, cost, color=colour, label=method, marker="o", markersize=3)
            axis.set(xscale="log", yscale="log", xlabel=varied, title=fixed)
        axes[0].set_ylabel("messages")
        axes[1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


def _gaps(rows: list[Row], to: Path) -> None:
    workloads = [name for name in dict.fromkeys(str(row["workload"]) for row in rows) if "±" not in name]
    methods = ("MNAIVE", "PROP", "NAIVE", "BUCKETS", "equi-height", "UNIFORM")
    with picture(to, (9, 3.8)) as (_, axes):
        axis = axes[0]
        for k, method in enumerate(methods):
            gaps = [
                float(row["mean"])
                for name in workloads
                for row in rows
                if (row["workload"], row["method"]) == (name, method)
            ]
            axis.bar(np.arange(len(workloads)) + (k - 2.5) * 0.13, gaps, 0.13, color=COLOURS[method], label=method)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set(yscale="log", ylabel="cost ÷ optimum")
        axis.set_xticks(range(len(workloads)), [name.replace(", ", ",\n") for name in workloads])
        axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


def _drift(rows: list[Row], to: Path) -> None:
    with picture(to, (9, 3.4), 2, shared=True) as (_, axes):
        for axis, kind in zip(axes, ("recurring", "fresh"), strict=True):
            for method, colour in COLOURS.items():
                own = [row for row in rows if (row["queries"], row["method"]) == (kind, method)]
                if own:
                    at, cost = [float(row["events"]) / 1000 for row in own], [row["cost"] for row in own]
                    style = "--" if method == "clairvoyant" else "-"
                    axis.plot(at, cost, color=colour, label=method, linestyle=style, linewidth=1.3)
            axis.axvline(40, color="black", linewidth=0.5, linestyle=":")
            axis.set(xlabel="thousand events", title=f"{kind} queries", ylim=(0, 1))
        axes[0].set_ylabel("messages for an event")
        axes[1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
