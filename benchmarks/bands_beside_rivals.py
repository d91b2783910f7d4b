"""100 000 standing band joins without groups, ranges anywhere, beside what one would write instead.

The same work for all: for each row of a batch the pairs (arriving row, affected query), ranges and rows across known
beforehand. Answers are compared before timing. Rivals: the merge of sorted ranges and sorted rows in
`../shared/rivals/band_joins.py`, unchanged, and two grids below: of the rows, asked by each range, and of the ranges,
asked by each row across. Processor time, one thread, all in turns; the median of the turns.
`python -m benchmarks.bands_beside_rivals` runs all parts, or those named behind it.
"""

import importlib.util
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks import report
from slackwater.kernels.jit import compiled
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching import BAND, BandHotspot, JoinRows, Joins, JoinSide, band_joins

RIVAL = Path(__file__).resolve().parents[2] / "shared" / "rivals" / "band_joins.py"
LENGTH = 1_000_000.0
"""The line on which rows lie."""
BATCH, TURNS = 20, 7

Pairs = tuple[Integers, Integers]


@dataclass(frozen=True)
class World:
    """Ranges in the middle half of the line, exponential lengths; rows anywhere."""

    low: Floats
    high: Floats
    across: Floats
    arriving: Floats


class Peer(Protocol):
    """One way to find the pairs."""

    name: str

    def pairs(self, join: Floats) -> Pairs: ...


class Ours:
    """BandHotspot, the matcher of the join operator."""

    name = "slackwater"

    def __init__(self, world: World) -> None:
        self.matcher = BandHotspot(BAND)
        self.matcher.add(band_joins(np.arange(len(world.low)), world.low, world.high))
        self.matcher.insert(JoinSide.RIGHT, rows_of(world.across))

    def pairs(self, join: Floats) -> Pairs:
        found = self.matcher.match(JoinSide.LEFT, rows_of(join))
        return np.repeat(np.arange(len(join)), np.diff(found.starts)), found.queries


class Merge:
    """The rival, with room for all pairs of a batch."""

    name = "merge"

    def __init__(self, world: World) -> None:
        spec = importlib.util.spec_from_file_location("band_joins", RIVAL)
        assert spec is not None
        assert spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        # By name, as numba's cache looks for it.
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        self._merge = module.NumbaMerge(world.low, world.high, world.across, room=BATCH * len(world.low))

    def pairs(self, join: Floats) -> Pairs:
        found: Pairs = self._merge.pairs(join)
        return found


@compiled
def ask_row_grid(
    join: Floats,
    low: Floats,
    high: Floats,
    by: Integers,
    across: Floats,
    starts: Integers,
    least: float,
    scale: float,
    rows: Integers,
    queries: Integers,
) -> int:
    """Each range finds the first row from its low on, which stands in or after its cell."""
    count, last = 0, len(starts) - 1
    for k in range(len(join)):
        for q in range(len(low)):
            begin = low[q] + join[k]
            at = starts[int(min(max((begin - least) * scale, 0.0), last))]
            while across[at] < begin:
                at += 1
            if across[at] <= high[q] + join[k]:
                rows[count] = k
                queries[count] = by[q]
                count += 1
    return count


class RowGrid:
    """Rows in a uniform grid, one to a cell; ranges in the order of their low."""

    name = "grid of rows"

    def __init__(self, world: World) -> None:
        self._by = np.argsort(world.low)
        self._low, self._high = world.low[self._by], world.high[self._by]
        rows = np.sort(world.across)
        self._least, self._scale = float(rows[0]), len(rows) / float(rows[-1] - rows[0])
        cells = ((rows - self._least) * self._scale).astype(np.int64)
        self._starts = np.searchsorted(cells, np.arange(len(rows) + 1))
        self._across = np.append(rows, np.inf)
        self._rows, self._queries = (np.zeros(BATCH * len(world.low), np.int64) for _ in range(2))

    def pairs(self, join: Floats) -> Pairs:
        count = ask_row_grid(
            join, self._low, self._high, self._by, self._across, self._starts, self._least, self._scale, self._rows,
            self._queries,
        )  # fmt: skip
        return self._rows[:count].copy(), self._queries[:count].copy()


@compiled
def ask_range_grid(
    join: Floats,
    low: Floats,
    high: Floats,
    by: Integers,
    across: Floats,
    starts: Integers,
    least: float,
    scale: float,
    longest: float,
    met: Integers,
    rows: Integers,
    queries: Integers,
) -> int:
    """Each row across asks the cells of ranges that begin before its difference, as far back as ranges are long."""
    count, last = 0, len(starts) - 2
    for k in range(len(join)):
        begin = np.searchsorted(across, low[0] + join[k])
        for j in range(begin, len(across)):
            difference = across[j] - join[k]
            if difference > low[-1] + longest:
                break
            first = int(min(max((difference - longest - least) * scale, 0.0), last))
            final = int(min(max((difference - least) * scale, 0.0), last))
            for q in range(starts[first], starts[final + 1]):
                if low[q] <= difference <= high[q] and met[q] != k:
                    met[q] = k
                    rows[count] = k
                    queries[count] = by[q]
                    count += 1
    return count


class RangeGrid:
    """Ranges in a uniform grid by their low, one to a cell."""

    name = "grid of ranges"

    def __init__(self, world: World) -> None:
        self._by = np.argsort(world.low)
        self._low, self._high = world.low[self._by], world.high[self._by]
        self._least = float(self._low[0])
        self._scale = len(self._low) / float(self._low[-1] - self._low[0])
        cells = ((self._low - self._least) * self._scale).astype(np.int64)
        self._starts = np.searchsorted(cells, np.arange(len(cells) + 2))
        self._longest, self._across = float((self._high - self._low).max()), np.sort(world.across)
        self._rows, self._queries = (np.zeros(BATCH * len(world.low), np.int64) for _ in range(2))

    @property
    def steps(self) -> float:
        """Estimated ranges that a batch looks at; with too many of them this grid is left out."""
        density = len(self._low) / float(self._low[-1] - self._low[0])
        return BATCH * len(self._across) / 2 * density * self._longest

    def pairs(self, join: Floats) -> Pairs:
        met = np.full(len(self._low), -1, np.int64)
        count = ask_range_grid(
            join, self._low, self._high, self._by, self._across, self._starts, self._least, self._scale, self._longest,
            met, self._rows, self._queries,
        )  # fmt: skip
        return self._rows[:count].copy(), self._queries[:count].copy()


def rows_of(join: Floats) -> JoinRows:
    return JoinRows(np.arange(len(join)), join, np.zeros((len(join), 0)))


def world_of(queries: int, rows: int, width: float, seed: int = 1) -> World:
    """Values are multiples of 2⁻³⁰: sums and differences are exact, whichever way a peer writes the condition."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(-LENGTH / 4, LENGTH / 4, queries)
    parts = low, low + rng.exponential(width, queries), rng.uniform(0, LENGTH, rows)
    arriving = rng.uniform(LENGTH / 4, 3 * LENGTH / 4, BATCH)
    return World(*(np.round(part * 2.0**30) / 2.0**30 for part in (*parts, arriving)))


def peers_of(world: World) -> list[Peer]:
    peers: list[Peer] = [Ours(world), RowGrid(world)]
    ranges = RangeGrid(world)
    if ranges.steps < 1e8:
        peers.append(ranges)
    if RIVAL.exists():
        peers.append(Merge(world))
    else:
        print(f"{RIVAL.name} is not there: its column is left out", flush=True)
    return peers


def in_order(pairs: Pairs) -> Integers:
    by = np.lexsort((pairs[1], pairs[0]))
    return np.stack((pairs[0][by], pairs[1][by]))


def compared(queries: int, rows: int, width: float) -> dict[str, Any]:
    world = world_of(queries, rows, width)
    peers = peers_of(world)
    expected = in_order(peers[0].pairs(world.arriving))
    for peer in peers:
        assert np.array_equal(in_order(peer.pairs(world.arriving)), expected), f"{peer.name} gives other answers"
    spent: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for _ in range(TURNS):
        for peer in peers:
            started = time.process_time()
            peer.pairs(world.arriving)
            spent[peer.name].append(time.process_time() - started)
    speeds = {name: round(BATCH / float(np.median(own))) for name, own in spent.items()}
    best = max((name for name in speeds if name != "slackwater"), key=lambda name: speeds[name])
    figures = {
        "queries": queries,
        "rows_across": rows,
        "mean_length": width,
        "affected_a_row": round(expected.shape[1] / BATCH, 1),
        "rows_a_second": speeds,
        "best_other": best,
        "times_the_best_other": round(speeds["slackwater"] / speeds[best], 2),
    }
    print(figures, flush=True)
    return figures


def widths() -> dict[str, Any]:
    """As many rows as ranges; from few affected to nearly all."""
    return {"widths": [compared(100_000, 100_000, width) for width in (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)]}


def counts() -> dict[str, Any]:
    """Fewer and more rows across."""
    cases = [(rows, width) for rows in (1_000, 10_000, 1_000_000) for width in (1.0, 100.0, 10_000.0)]
    return {"rows_across": [compared(100_000, rows, width) for rows, width in cases]}


def growth() -> dict[str, Any]:
    """A tenth of the ranges affected, whatever their number; and what a change of the queries or the rows costs."""
    found = []
    for queries in (1_000, 10_000, 100_000, 1_000_000):
        own = compared(queries, 100_000, 1.0)
        found.append({**own, **upkeep(queries)})
    return {"growth": found}


def upkeep(queries: int) -> dict[str, Any]:
    """Microseconds of a query that comes and goes, and of a row, each alone and in batches of 1 000."""
    world, more = world_of(queries, 100_000, 1.0), world_of(2_000, 2_000, 1.0, seed=2)
    ours = Ours(world)
    ours.pairs(world.arriving)

    def joins(start: int, end: int) -> Joins:
        return band_joins(np.arange(queries + start, queries + end), more.low[start:end], more.high[start:end])

    def queries_change(start: int, end: int) -> None:
        ours.matcher.add(joins(start, end))
        ours.matcher.remove(np.arange(queries + start, queries + end))

    def rows_change(start: int, end: int) -> None:
        ids = np.arange(100_000 + start, 100_000 + end)
        none = np.zeros((end - start, 0))
        ours.matcher.insert(JoinSide.RIGHT, JoinRows(ids, more.across[start:end], none))
        ours.matcher.delete(JoinSide.RIGHT, ids)

    figures: dict[str, Any] = {}
    changes: dict[str, Callable[[int, int], None]] = {"query": queries_change, "row": rows_change}
    for name, change in changes.items():
        for size, steps in ((1, 200), (1_000, 2)):
            change(0, size)
            started = time.process_time()
            for step in range(steps):
                change(step * size, (step + 1) * size)
            spent = (time.process_time() - started) / (steps * size)
            figures[f"microseconds_a_{name}_in_batches_of_{size}"] = round(spent * 1e6, 1)
    return figures


PARTS: dict[str, Callable[[], dict[str, Any]]] = {"widths": widths, "counts": counts, "growth": growth}


def main() -> None:
    for name in [name for name in sys.argv[1:] if name in PARTS] or PARTS:
        report.write(f"bands_beside_rivals_{name}", PARTS[name]())


if __name__ == "__main__":
    main()
