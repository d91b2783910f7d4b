"""Traces for pulling: recorded ones from a folder of files, and generated ones.

Each is an array of ticks × items. Where a real trace has more items than are used, every second one is for *tuning* and
the others are *held out*: what was chosen by looking at the first is judged on the second. The four shares by the
second cannot be halved; there another day is held out.

A null means no update: the value before stays. Nights and weekends are cut out of prices as the files have them, so
the step over a night is one tick.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.sources.synthetic import AutoRegression, LinearTrend, Market, RandomWalk, Stationary
from slackwater.sources.synthetic.base import ItemGenerator

Floats = npt.NDArray[np.float64]

TICKS, ITEMS = 3_000, 20
SECONDS_A_DAY = 23_400


def _filled(columns: Floats) -> Floats:
    """Carry values forward over what is missing, and the first one back to the beginning."""
    filled = columns.copy()
    for item in range(filled.shape[1]):
        known = np.flatnonzero(np.isfinite(filled[:, item]))
        places = np.searchsorted(known, np.arange(len(filled)), side="right") - 1
        filled[:, item] = filled[known[np.maximum(places, 0)], item]
    return filled


def _half(columns: Floats, held_out: bool) -> Floats:
    return columns[:, int(held_out) :: 2][:, :ITEMS]


def _wide(table: pa.Table, names: list[str]) -> Floats:
    return np.column_stack([table.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False) for name in names])


def stocks_by_minute(folder: Path, held_out: bool) -> Floats:
    """Twenty shares, eight sessions."""
    table = pq.read_table(folder / "stocks_1min_close_98sym.parquet")
    names = [name for name in table.column_names if name != "ts"]
    whole = [name for name in names if table.column(name).null_count < 0.01 * table.num_rows]
    return _half(_filled(_wide(table, whole)[:TICKS]), held_out)


def stocks_by_second(folder: Path, held_out: bool) -> Floats:
    """The middle between bid and ask of four shares, on one day for tuning and on another held out."""
    table = pq.read_table(folder / "stocks_1sec_4sym_5days_2013.parquet")
    start = (3 if held_out else 0) * SECONDS_A_DAY + 3_600
    return _filled(_wide(table, [f"{name}_mid" for name in ("AIG", "BAC", "IBM", "SPY")])[start : start + TICKS])


def traffic(folder: Path, held_out: bool) -> Floats:
    """Average speeds on twenty roads, every five minutes."""
    table = pq.read_table(folder / "aarhus_traffic_speed_120sensors.parquet")
    return _half(_filled(_wide(table, [name for name in table.column_names if name != "ts"])[:TICKS]), held_out)


def air(folder: Path, held_out: bool) -> Floats:
    """Fine dust, ozone and temperature of twelve stations by the hour, each in its own usual deviations."""
    table = pq.read_table(folder / "beijing_air_12stations_hourly.parquet").sort_by([("ts", "ascending")])
    columns = []
    for station in sorted(set(table.column("station").to_pylist())):
        own = table.filter(pc.equal(table.column("station"), station)).slice(0, TICKS)
        columns.append(_filled(_wide(own, ["PM2.5", "O3", "TEMP", "NO2"])))
    values = np.hstack(columns)
    # Micrograms and degrees would not weigh alike in a sum.
    return _half(values / np.std(values, axis=0), held_out)


def motes(folder: Path, held_out: bool) -> Floats:
    """Temperature of sensors in a library, by the half minute; humidity of the same sensors is held out."""
    table = pq.read_table(folder / "ulb_library_motes_19nodes_1min.parquet")
    times = table.column("ts").cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    nodes = table.column("node").to_numpy()
    values = table.column("humidity" if held_out else "temp").cast(pa.float64()).to_numpy(zero_copy_only=False)
    ticks = (times - times.min()) // 30_000_000
    grid = np.full((int(ticks.max()) + 1, len(np.unique(nodes))), np.nan)
    for column, node in enumerate(np.unique(nodes)):
        own = nodes == node
        grid[ticks[own], column] = values[own]
    kept = [column for column in range(grid.shape[1]) if np.isfinite(grid[:, column]).mean() > 0.3]
    return _filled(grid[:TICKS, kept])


def _made(generator: type[ItemGenerator], **parameters: Any) -> Callable[[Path, bool], Floats]:
    def values(folder: Path, held_out: bool) -> Floats:
        made = generator(seed=7 if held_out else 1, items=ITEMS, **parameters)
        blocks = made.values(np.random.Generator(np.random.PCG64(made.seed)))
        rows: list[Floats] = []
        while sum(len(block) for block in rows) < TICKS:
            rows.append(np.asarray(next(blocks), np.float64))
        return np.concatenate(rows)[:TICKS]

    return values


REAL: dict[str, Callable[[Path, bool], Floats]] = {
    "stocks by the minute": stocks_by_minute,
    "stocks by the second": stocks_by_second,
    "traffic": traffic,
    "air": air,
    "motes": motes,
}
MADE: dict[str, Callable[[Path, bool], Floats]] = {
    "market": _made(Market),
    "random walk": _made(RandomWalk),
    "ar1": _made(AutoRegression, phi=0.98),
    "trend": _made(LinearTrend),
    "stationary": _made(Stationary),
}
TRACES = {**REAL, **MADE}


def trace(name: str, folder: Path, *, held_out: bool = False) -> Floats:
    """The trace of this name."""
    return np.ascontiguousarray(TRACES[name](folder, held_out))
