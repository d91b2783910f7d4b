"""Traces of items over time, read from wide Parquet files or generated."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.planning.aggregation import Dynamics
from slackwater.planning.aggregation.base import Floats


@dataclass(frozen=True, eq=False)
class Trace:
    """A row for each tick, a column for each item, and the hours between two ticks."""

    name: str
    items: tuple[str, ...]
    values: Floats
    hours_per_tick: float

    @property
    def hours(self) -> float:
        """From the first tick to the last."""
        return (len(self.values) - 1) * self.hours_per_tick

    def dynamics(self) -> Dynamics:
        """How the items move."""
        return observed(self.items, self.values, self.hours)

    def halves(self) -> tuple["Trace", "Trace"]:
        """What comes first, to learn from, and what comes then, to test on."""
        middle = len(self.values) // 2
        return (
            Trace(self.name, self.items, self.values[:middle], self.hours_per_tick),
            Trace(self.name, self.items, self.values[middle:], self.hours_per_tick),
        )

    def columns(self, items: Sequence[str]) -> list[int]:
        """Where some items stand."""
        places = {item: place for place, item in enumerate(self.items)}
        return [places[item] for item in items]


def read(path: Path, *, name: str, count: int, hours_per_tick: float, most_ticks: int = 11_310) -> Trace:
    """The `count` items of a wide file that have the most ticks; a null means that nothing has changed.

    A trace begins where all its items have a value.
    """
    table = pq.read_table(path)
    columns = [column for column in table.column_names if column != "ts"]
    values = np.stack([table.column(column).cast(pa.float64()).to_numpy() for column in columns], axis=1)
    known = np.isfinite(values)
    chosen = np.sort(np.argsort(-known.sum(axis=0), kind="stable")[:count])
    values, known = values[:, chosen], known[:, chosen]
    last = np.maximum.accumulate(np.where(known, np.arange(len(values))[:, None], -1), axis=0)
    begins = int(np.argmax((last >= 0).all(axis=1)))
    filled = np.take_along_axis(values, np.maximum(last, 0), axis=0)[begins : begins + most_ticks]
    return Trace(name, tuple(columns[place] for place in chosen), np.ascontiguousarray(filled), hours_per_tick)


def stocks(folder: Path) -> Trace:
    """25 share prices, a tick a minute; the nights are not there."""
    return read(folder / "stocks_1min_close_98sym.parquet", name="stocks", count=25, hours_per_tick=1 / 60)


def traffic(folder: Path) -> Trace:
    """Average speeds at 25 sensors, a tick every five minutes."""
    return read(folder / "aarhus_traffic_speed_120sensors.parquet", name="traffic", count=25, hours_per_tick=1 / 12)


def unrelated(trace: Trace, generator: np.random.Generator) -> Trace:
    """The same courses, each begun at another time of its own: what moved together no longer does."""
    changes = np.diff(trace.values, axis=0)
    for column in range(changes.shape[1]):
        changes[:, column] = np.roll(changes[:, column], int(generator.integers(len(changes))))
    values = np.concatenate([trace.values[:1], trace.values[0] + np.cumsum(changes, axis=0)])
    return Trace(f"{trace.name}, unrelated", trace.items, values, trace.hours_per_tick)


def related(generator: np.random.Generator, count: int = 10, ticks: int = 10_000, step: float = 0.012) -> Trace:
    """Random walks of equal sumdiff, `step` a tick, whose ρ are spread evenly over [−1, 1].

    Changes are mixtures of three causes, drawn as directions in space: ρ is the cosine of the angle between two, and
    the cosine of the angle between two random directions in three dimensions is uniform.
    """
    directions = generator.normal(size=(3, count))
    directions /= np.linalg.norm(directions, axis=0)
    changes = generator.normal(size=(ticks, 3)) @ directions
    changes *= ticks * step / np.abs(changes).sum(axis=0)
    return Trace("made up", tuple(f"s{k}" for k in range(count)), 50.0 + np.cumsum(changes, axis=0), 1 / 3600)


def observed(items: Sequence[str], values: Floats, hours: float) -> Dynamics:
    """The dynamics of a trace with a row for each tick and a column for each item.

    >>> observed(["a", "b"], np.array([[1.0, 5.0], [2.0, 4.0], [4.0, 2.0]]), hours=0.5).sumdiff.tolist()
    [6.0, 6.0]
    """
    changes = np.diff(values, axis=0)
    lengths = np.sqrt(np.sum(changes**2, axis=0))
    unit = np.divide(changes, lengths, out=np.zeros_like(changes), where=lengths > 0)
    similarity = np.clip(unit.T @ unit, -1.0, 1.0)
    np.fill_diagonal(similarity, 1.0)
    return Dynamics(tuple(items), np.sum(np.abs(changes), axis=0) / hours, similarity)
