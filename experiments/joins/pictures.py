"""Plots of the join experiments."""

from pathlib import Path

from experiments.joins.experiments import Row
from experiments.output import picture

COLOURS = {
    "BJ-SSI": "#0072b2",
    "SJ-SSI": "#0072b2",
    "hotspots": "#009e73",
    "BJ-MJ": "#e69f00",
    "SJ-SelectFirst": "#e69f00",
    "BJ-QOuter": "#d55e00",
    "SJ-JoinFirst (queries)": "#d55e00",
    "BJ-DOuter": "#cc79a7",
    "SJ-JoinFirst (rows)": "#cc79a7",
}
ROUTES = {
    "router": "#000000",
    "Hotspot": "#009e73",
    "SelectFirst": "#e69f00",
    "JoinFirst over queries": "#d55e00",
    "JoinFirst over rows": "#cc79a7",
}


def draw(queries: list[Row], groups: list[Row], routes: list[Row], to: Path) -> None:
    """Draw all three into a folder."""
    _lines(queries, "queries", to / "queries.svg")
    _lines(groups, "groups", to / "groups.svg")
    _bars(routes, to / "routes.svg")


def _lines(rows: list[Row], along: str, to: Path) -> None:
    with picture(to, (9, 3.6), 2, shared=True) as (_, axes):
        for axis, kind in zip(axes, ("band", "select"), strict=True):
            for method, colour in COLOURS.items():
                own = [row for row in rows if (row["kind"], row["method"]) == (kind, method)]
                if own:
                    at, speed = [row[along] for row in own], [row["rows_a_second"] for row in own]
                    # Hotspots take the same way where there are few groups: both must be seen.
                    wide = 4 if method.endswith("SSI") else 1.5
                    axis.plot(at, speed, color=colour, label=method, linewidth=wide, marker="o", markersize=3)
            axis.set(xscale="log", yscale="log", xlabel=along, title=f"{kind} joins")
            axis.legend(frameon=False, fontsize=8)
        axes[0].set_ylabel("rows a second")


def _bars(rows: list[Row], to: Path) -> None:
    mixes = list(dict.fromkeys(str(row["mix"]) for row in rows))
    with picture(to, (9, 3.8)) as (_, axes):
        axis = axes[0]
        for k, (method, colour) in enumerate(ROUTES.items()):
            speeds = [
                float(row["over_the_best_fixed"])
                for mix in mixes
                for row in rows
                if (row["mix"], row["method"]) == (mix, method)
            ]
            axis.bar([at + (k - 2) * 0.16 for at in range(len(mixes))], speeds, 0.16, color=colour, label=method)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set(ylabel="rows a second ÷ the best fixed route's")
        axis.set_xticks(range(len(mixes)), [_in_two_lines(mix) for mix in mixes], fontsize=8)
        axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


def _in_two_lines(name: str) -> str:
    """A label cut at the space nearest its middle, so that it keeps to its place.

    >>> _in_two_lines("rare or unwanted")
    'rare or\\nunwanted'
    """
    spaces = [at for at, letter in enumerate(name) if letter == " "]
    if not spaces:
        return name
    cut = min(spaces, key=lambda at: abs(2 * at - len(name)))
    return f"{name[:cut]}\n{name[cut + 1 :]}"
