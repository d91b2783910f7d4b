"""Plots of the plan experiments, in the style of the statistics plots: text as text, no date, few lines."""

from collections.abc import Sequence
from pathlib import Path

from experiments.output import picture
from experiments.plans.alpha_effect import AlphaEffect
from experiments.plans.comparison import Compared
from experiments.plans.similarity_effect import SimilarityEffect

_COLOURS = {
    "naive": "#9aa5b1",
    "optc": "#6b7785",
    "random": "#c9a66b",
    "min-cost": "#b5532a",
    "max-gain": "#2a7f86",
    "max-gain, undivided": "#7fc4c0",
    "most-saved": "#7a5ea8",
    "exact": "#1f4e79",
}


def draw_comparison(rows: Sequence[Compared], path: Path) -> None:
    """Messages over the bound, a panel for each trace, on a logarithmic scale."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    traces = list(dict.fromkeys(row.trace for row in rows))

    with picture(path, (3.2 * len(traces) + 1.6, 3.4), len(traces)) as (figure, axes):
        for axis, trace in zip(axes, traces, strict=True):
            for planner, colour in _COLOURS.items():
                own = [row for row in rows if row.trace == trace and row.planner == planner]
                axis.plot(
                    [row.bound for row in own], [row.messages for row in own], "o-", color=colour, ms=3, label=planner
                )
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.yaxis.set_major_formatter(ScalarFormatter())
            axis.yaxis.set_minor_formatter(NullFormatter())
            axis.set_title(trace)
            axis.set_xlabel("bound C, in units of the trace")
        axes[0].set_ylabel("messages a query")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)


def draw_similarity(rows: Sequence[SimilarityEffect], path: Path) -> None:
    """Pairs of bars: ρ considered and ρ taken for 0."""
    planners = list(dict.fromkeys(row.planner for row in rows))

    with picture(path, (3.6 * len(planners), 3.4), len(planners)) as (_, axes):
        for axis, planner in zip(axes, planners, strict=True):
            own = [row for row in rows if row.planner == planner]
            places = range(len(own))
            axis.bar(
                [x - 0.2 for x in places], [r.considered for r in own], 0.38, color="#1f4e79", label="ρ considered"
            )
            axis.bar([x + 0.2 for x in places], [r.ignored for r in own], 0.38, color="#c3ccd5", label="ρ taken for 0")
            for place, row in zip(places, own, strict=True):
                axis.text(place, row.ignored, f"{row.saved:.0%} saved", ha="center", va="bottom")
            axis.set_xticks(list(places), [f"C = {row.bound:g}" for row in own])
            axis.set_ylim(0, 1.1 * max(row.ignored for row in rows))
            axis.set_title(planner)
        axes[0].set_ylabel("messages a query")
        axes[-1].legend(frameon=False)


def draw_alpha(rows: Sequence[AlphaEffect], path: Path) -> None:
    """The share left unanswered, and the messages against the exact plan's, over α; a line for each bound."""
    bounds = sorted({row.bound for row in rows})
    styles = dict(zip(bounds, (":", "--", "-"), strict=False))

    with picture(path, (9.4, 3.4), 2) as (figure, axes):
        for planner in ("min-cost", "max-gain"):
            for bound in bounds:
                own = [row for row in rows if row.planner == planner and row.bound == bound]
                alphas = [row.alpha for row in own]
                look = {"color": _COLOURS[planner], "ls": styles[bound], "label": f"{planner}, C = {bound:g}"}
                axes[0].plot(alphas, [100 * row.unanswered for row in own], **look)
                axes[1].plot(alphas, [row.against_exact for row in own], **look)
        axes[0].set_ylabel("answerable queries left unanswered, %")
        axes[1].set_ylabel("messages ÷ those of the exact plan")
        axes[1].axhline(1.0, color=_COLOURS["exact"], lw=0.8)
        for axis in axes:
            axis.set_xscale("symlog", linthresh=0.05)
            axis.set_xticks([0, 0.1, 1, 10], ["0", "0.1", "1", "10"])
            axis.set_xlabel("α, in units of the mean root of an item")
            axis.set_xlim(0, max(row.alpha for row in rows))
            axis.set_ylim(bottom=0)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
