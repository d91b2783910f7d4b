"""Experiment output: a small CSV and an SVG of the same name."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.output import picture
from experiments.pulling.traces import Floats, trace


def folders(purpose: str) -> tuple[Path, Path]:
    """Parse the command line: the folder of the traces, and the folder to write to."""
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of traces")
    parser.add_argument("--out", type=Path, default=Path("docs/pulling"), help="where CSV and SVG go")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    return given.data, given.out


def shares(data: Path) -> tuple[str, Floats]:
    """Held-out shares by the minute; where the folder is absent, a made market."""
    name = "stocks by the minute" if data.exists() else "market"
    return name, trace(name, data, held_out=True)


def draw(path: Path, title: str, paint: Callable[[Any], None]) -> None:
    """Write an SVG with one panel; text as text and no date inside, so that the same figures give the same file."""
    with picture(path, (7.2, 4.4)) as (_, axes):
        paint(axes[0])
        axes[0].set_title(title)
        axes[0].grid(visible=True, which="major", color="#dddddd", linewidth=0.6)


def fixed_interval(queries: Any, values: Floats, every: int, warm: int) -> tuple[int, float]:
    """Pulls and mean fidelity of polling every so many ticks, all at once."""
    ticks = np.arange(len(values))
    off = values - values[ticks // every * every]
    kept = []
    for query in queries:
        error = off[warm:, list(query.items)] @ np.array(query.weights)
        kept.append(float(np.mean(np.abs(error) <= query.bound.within)))
    asked = int(np.sum(ticks[warm:] % every == 0)) * values.shape[1]
    return asked, float(np.mean(kept))
