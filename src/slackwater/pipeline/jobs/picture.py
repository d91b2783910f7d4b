"""Statistics plot: the items that move most, items that move together, and the distribution of changes."""

from pathlib import Path
from typing import Any

import numpy as np

from slackwater.core.types import Instant, moment
from slackwater.statistics import Statistics, StatisticsFigures

BARS = 25
MATRIX = 40
FEW = 10
"""An item with fewer changes than this has no course to speak of."""
_INK, _SOFT = "#1f4e79", "#9aa5b1"


def draw(statistics: Statistics, path: Path | str) -> None:
    """Write an SVG with three panels, the third only where pairs were learnt; one of values where nothing moves."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figures = statistics.value()
    # Text as text, and no date inside: the same statistics give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "slackwater", "font.size": 9}):
        if not np.any(figures.movement.sumdiff > 0):
            figure = Figure(figsize=(7.8, 4.4), layout="constrained")
            _values(figure.subplots(), figures)
        else:
            panels = 3 if figures.similarity is not None and len(figures.items) > 1 else 2
            figure = Figure(figsize=(5.2 * panels, 5.4), layout="constrained")
            axes = figure.subplots(1, panels)
            _movement(axes[0], figures)
            _changes(axes[1], figures)
            if panels == 3:
                _together(figure, axes[2], figures)
        span = statistics.span()
        when = "" if span is None else f", {moment(Instant(span[0])):%Y-%m-%d} to {moment(Instant(span[1])):%Y-%m-%d}"
        ticks = int(figures.movement.ticks.sum())
        figure.suptitle(
            f"{statistics.table}.{statistics.column}: {ticks:,} ticks of {len(figures.items):,} items{when}"
        )
        figure.savefig(path, format="svg", metadata={"Date": None})


def _order(figures: StatisticsFigures) -> list[int]:
    """Items by movement in a given time, the most restless first."""
    moved = np.nan_to_num(figures.movement.per_second)
    return [int(place) for place in np.argsort(-moved, kind="stable")]


def _movement(axis: Any, figures: StatisticsFigures) -> None:
    shown = _order(figures)[:BARS][::-1]
    per_hour = np.nan_to_num(figures.movement.per_second) * 3600
    axis.barh([figures.items[k] for k in shown], [per_hour[k] for k in shown], color=_INK)
    more = len(figures.items) - len(shown)
    axis.set_title("what moves most" + (f" (of {len(figures.items):,})" if more else ""))
    axis.set_xlabel("sumdiff an hour")
    axis.tick_params(axis="y", labelsize=7)


def _changes(axis: Any, figures: StatisticsFigures) -> None:
    movement, moments = figures.movement, figures.moments
    known = np.isfinite(movement.deviation) & np.isfinite(moments.coefficient) & (movement.changes >= FEW)
    axis.scatter(movement.deviation[known], moments.coefficient[known], s=14, color=_INK, alpha=0.7)
    axis.axhline(1.0, color=_SOFT, linewidth=0.8)
    for k in [place for place in _order(figures) if known[place]][:6]:
        place = (movement.deviation[k], moments.coefficient[k])
        axis.annotate(figures.items[k], place, fontsize=7, xytext=(3, 3), textcoords="offset points")
    positive = movement.deviation[known & (movement.deviation > 0)]
    if len(positive) and positive.max() > 50 * positive.min():
        axis.set_xscale("log")
    few = len(figures.items) - int(known.sum())
    axis.set_title("how items move (1 = a random walk)" + (f"; {few:,} with too few changes" if few else ""))
    axis.set_xlabel("deviation of a change")
    axis.set_ylabel("AR(1) coefficient of the value")


def _values(axis: Any, figures: StatisticsFigures) -> None:
    """Where no item ever changed, all that there is to see are the values."""
    axis.hist(figures.moments.mean[np.isfinite(figures.moments.mean)], bins=80, color=_INK)
    axis.set_title("no item changed; the values of all items")
    axis.set_xlabel("value")
    axis.set_ylabel("items")


def _together(figure: Any, axis: Any, figures: StatisticsFigures) -> None:
    assert figures.similarity is not None, "only drawn where pairs were learnt"
    shown = _order(figures)[:MATRIX]
    matrix = figures.similarity.matrix()[np.ix_(shown, shown)]
    drawn = axis.imshow(matrix, cmap="RdBu", vmin=-1, vmax=1)
    names = [figures.items[k] for k in shown]
    axis.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
    axis.set_yticks(range(len(names)), names, fontsize=6)
    axis.set_title("what moves together (ρ of changes)")
    figure.colorbar(drawn, ax=axis, shrink=0.7)
