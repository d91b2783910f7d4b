"""Standing band joins against what one would write instead: the same affected queries, indexes built beforehand.

Rows a second of processor time, everybody on one thread. A batch that would take too long is done in slices of 100 rows
until four seconds are over. Values are multiples of 2⁻³⁰, so that sums and differences are exact and answers can be
compared whichever way a peer writes the condition. `ncls` is asked where it is installed; it is no dependency.
"""

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import importlib
import time
from typing import Any, Protocol

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks import report
from experiments.joins.workloads import BandWorkload
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching import BAND, JoinRows, JoinSide, band_joins
from slackwater.processing.matching.band_ssi import BandSSI

ROWS = 100_000
GRID = 2.0**-30
PATIENCE = 4.0

Pairs = tuple[Integers, Integers]
"""Rows of the batch and affected queries."""


class Peer(Protocol):
    """One way to find the affected queries of a batch."""

    name: str

    def pairs(self, join: Floats) -> Pairs: ...


class Ours:
    """BJ-SSI."""

    name = "slackwater"

    def __init__(self, low: Floats, high: Floats, across: Floats) -> None:
        self._matcher = BandSSI(BAND)
        self._matcher.add(band_joins(np.arange(len(low)), low, high))
        self._matcher.insert(JoinSide.RIGHT, JoinRows(np.arange(len(across)), across, np.zeros((len(across), 0))))

    def pairs(self, join: Floats) -> Pairs:
        rows = JoinRows(np.arange(len(join)), join, np.zeros((len(join), 0)))
        found = self._matcher.match(JoinSide.LEFT, rows)
        return np.repeat(np.arange(len(join)), np.diff(found.starts)), found.queries


class NumPyTwin:
    """For each row one `searchsorted` of all queries, by left end, in the sorted rows."""

    name = "numpy"

    def __init__(self, low: Floats, high: Floats, across: Floats) -> None:
        self._by = np.argsort(low)
        self._low, self._high = low[self._by], high[self._by]
        self._across = np.append(np.sort(across), np.inf)

    def pairs(self, join: Floats) -> Pairs:
        found = []
        for own in join:
            first = self._across[np.searchsorted(self._across, self._low + own)]
            found.append(self._by[first <= self._high + own])
        return np.repeat(np.arange(len(join)), [len(one) for one in found]), np.concatenate(found)


class DuckDb:
    """An ASOF join: of each pair of row and query the first row across at or after its left end."""

    name = "duckdb"

    def __init__(self, low: Floats, high: Floats, across: Floats) -> None:
        self._db = duckdb.connect()
        self._db.execute("SET threads = 1")
        queries = pa.table({"q": np.arange(len(low)), "lo": low, "hi": high})
        rows = pa.table({"b": np.sort(across)})
        self._db.register("queries_in", queries)
        self._db.register("rows_in", rows)
        self._db.execute("CREATE TABLE queries AS FROM queries_in ORDER BY lo")
        self._db.execute("CREATE TABLE s AS FROM rows_in")

    def pairs(self, join: Floats) -> Pairs:
        self._db.register("r", pa.table({"i": np.arange(len(join)), "x": join}))
        found = self._db.execute(
            "SELECT i, q FROM (SELECT i, q, x + lo AS a, x + hi AS z FROM r, queries) AS p"
            " ASOF JOIN s ON s.b >= p.a WHERE s.b <= p.z"
        ).fetchnumpy()
        return np.asarray(found["i"], np.int64), np.asarray(found["q"], np.int64)


class Polars:
    """`join_where` of the differences to all rows with the ranges."""

    name = "polars"

    def __init__(self, low: Floats, high: Floats, across: Floats) -> None:
        self._queries = pl.DataFrame({"q": np.arange(len(low)), "lo": low, "hi": high})
        self._rows = pl.DataFrame({"b": across})

    def pairs(self, join: Floats) -> Pairs:
        rows = pl.DataFrame({"i": np.arange(len(join)), "x": join})
        differences = rows.join(self._rows, how="cross").select("i", d=pl.col("b") - pl.col("x"))
        # Differences outside all ranges cannot count: what anybody would filter first.
        least, most = self._queries["lo"].min(), self._queries["hi"].max()
        differences = differences.filter(pl.col("d").is_between(least, most))
        found = (
            differences.join_where(self._queries, pl.col("d") >= pl.col("lo"), pl.col("d") <= pl.col("hi"))
            .select("i", "q")
            .unique()
        )
        return found["i"].to_numpy(), found["q"].to_numpy()


class Ncls:
    """A nested containment list of the rows, asked for every query's range, row after row."""

    name = "ncls"

    def __init__(self, low: Floats, high: Floats, across: Floats) -> None:
        kind: Any = importlib.import_module("ncls").NCLS
        self._low, self._high = (low / GRID).astype(np.int64), (high / GRID).astype(np.int64) + 1
        points = (across / GRID).astype(np.int64)
        self._index = kind(points, points + 1, np.arange(len(points)))
        self._ids = np.arange(len(low))

    def pairs(self, join: Floats) -> Pairs:
        found = []
        for own in (join / GRID).astype(np.int64):
            asked, _ = self._index.first_overlap_both(self._low + own, self._high + own, self._ids)
            found.append(asked)
        return np.repeat(np.arange(len(join)), [len(one) for one in found]), np.concatenate(found)


PEERS: tuple[Any, ...] = (Ours, NumPyTwin, DuckDb, Polars, Ncls)


def snapped(values: Floats) -> Floats:
    return np.round(values / GRID) * GRID


def speed(peer: Peer, join: Floats, size: int) -> float:
    """Rows a second for batches of this size."""
    spent, done = 0.0, 0
    peer.pairs(join[:1])
    while spent < (1.0 if size > 1 else 0.3) and done < 20 * size:
        at = done % max(len(join) - size, 1)
        for start in range(at, at + size, size if peer.name == "slackwater" else min(size, 100)):
            end = min(start + (size if peer.name == "slackwater" else min(size, 100)), at + size)
            started = time.process_time()
            peer.pairs(join[start:end])
            spent += time.process_time() - started
            done += end - start
            if spent > PATIENCE:
                return done / spent
    return done / spent


def compared(queries: int, sizes: tuple[int, ...]) -> dict[str, Any]:
    workload = BandWorkload(np.random.default_rng(1), queries, ROWS, 10)
    low, high = snapped(workload.queries.low), snapped(workload.queries.high)
    across, join = snapped(workload.across.join), snapped(workload.draw(20_000).join)
    speeds: dict[str, Any] = {}
    expected: set[tuple[int, int]] = set()
    for make in PEERS:
        try:
            peer = make(low, high, across)
        except ImportError:
            speeds[make.name] = "not installed here"
            continue
        rows, found = peer.pairs(join[:20])
        answers = set(zip(rows.tolist(), found.tolist(), strict=True))
        expected = expected or answers
        assert answers == expected, f"{make.name} gives other answers"
        speeds[make.name] = {f"in_batches_of_{size}": round(speed(peer, join, size), 2) for size in sizes}
        print(make.name, speeds[make.name], flush=True)
    figures: dict[str, Any] = {"queries": queries, "rows_across": ROWS, "affected_a_row": round(len(expected) / 20, 1)}
    for size in sizes:
        of = f"in_batches_of_{size}"
        others = {name: own[of] for name, own in speeds.items() if name != "slackwater" and isinstance(own, dict)}
        best = max(others, key=lambda name: others[name])
        figures[f"times_the_best_other_{of}"] = {
            "best": best,
            "times": round(speeds["slackwater"][of] / others[best], 1),
        }
    return {**figures, "rows_a_second": speeds}


def main() -> None:
    sizes = (1, 100, 10_000)
    report.write("standing_joins_peers", {"compared": [compared(count, sizes) for count in (10_000, 100_000)]})


if __name__ == "__main__":
    main()
