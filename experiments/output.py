"""Experiment output: CSV tables and SVG pictures that are the same bytes for the same figures."""

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slackwater.core.errors import MissingPart


def write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]], digits: int | None = None) -> None:
    """Write a CSV; floats with at most so many digits, tuples with spaces between."""
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(header)
        table.writerows([[_cell(value, digits) for value in row] for row in rows])


def write_records(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write a CSV of dictionaries with the keys of the first."""
    names = list(rows[0])
    write_table(path, names, [[row[name] for name in names] for row in rows])


@contextmanager
def picture(path: Path, size: tuple[float, float], panels: int = 1, *, shared: bool = False) -> Iterator[Any]:
    """Paint on (figure, axes) in the body, beside each other, `shared` with one scale; then the SVG is written.

    Text stays text, there is no date inside, and matplotlib is imported only here.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise MissingPart("pictures need matplotlib: install slackwater[spark]") from missing
    spines: Any = {"axes.spines.top": False, "axes.spines.right": False}
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "slackwater", "font.size": 9, **spines}):
        figure = Figure(figsize=size, layout="constrained")
        yield figure, figure.subplots(1, panels, squeeze=False, sharey=shared)[0]
        figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})


def _cell(value: object, digits: int | None) -> object:
    if isinstance(value, tuple):
        return " ".join(str(_cell(each, digits)) for each in value)
    return f"{value:.{digits}g}" if digits is not None and isinstance(value, float) else value
