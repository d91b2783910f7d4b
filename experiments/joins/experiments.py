"""Join experiments: throughput against the number of queries, against the number of groups, and the router's.

Every figure is rows a second of processor time of one core for batches of up to 1 000 rows; a method that is slow is
measured on fewer rows. `clock` tells seconds of processor time.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from experiments.joins.mixes import Mix, four_kinds, retail
from experiments.joins.published.band_data_outer import BandDataOuter
from experiments.joins.published.band_merge import BandMerge
from experiments.joins.published.band_query_outer import BandQueryOuter
from experiments.joins.published.select_first import SelectFirst
from experiments.joins.published.select_join_first import SelectJoinFirst, SelectJoinFirstRows
from experiments.joins.workloads import BandWorkload, SelectWorkload
from slackwater.processing.matching import JoinRows, JoinSide, Matcher, MatcherShape
from slackwater.processing.matching.band_hotspot import BandHotspot
from slackwater.processing.matching.band_ssi import BandSSI
from slackwater.processing.matching.costs import USUAL, Constants, MatchRoute
from slackwater.processing.matching.select_hotspot import SelectHotspot
from slackwater.processing.matching.select_router import SelectRouter
from slackwater.processing.matching.select_ssi import SelectSSI

Clock = Callable[[], float]
Row = dict[str, str | float | int]
ROWS = 100_000
WANTED = 0.1
"""The share of the queries whose own range holds a row, as in the chapter."""

BANDS: dict[str, Callable[[MatcherShape], Matcher]] = {
    "BJ-SSI": BandSSI,
    "hotspots": BandHotspot,
    "BJ-MJ": BandMerge,
    "BJ-QOuter": BandQueryOuter,
    "BJ-DOuter": BandDataOuter,
}
SELECTS: dict[str, Callable[[MatcherShape], Matcher]] = {
    "SJ-SSI": SelectSSI,
    "hotspots": SelectHotspot,
    "SJ-SelectFirst": SelectFirst,
    "SJ-JoinFirst (queries)": SelectJoinFirst,
    "SJ-JoinFirst (rows)": SelectJoinFirstRows,
}


def throughput(matcher: Matcher, rows: JoinRows, clock: Clock, *, patience: float = 0.6) -> float:
    """Rows a second: batches that grow until one takes long enough to be trusted, or all rows are done."""
    matcher.match(JoinSide.LEFT, part(rows, 0, 1))
    size = 1
    while True:
        started = clock()
        matcher.match(JoinSide.LEFT, part(rows, 0, size))
        spent = clock() - started
        if spent > patience / 20 or size >= len(rows):
            break
        size = min(size * 4, len(rows))
    if size < len(rows) or spent > patience:
        return size / max(spent, 1e-9)
    times = list[float]()
    while sum(times) < patience and len(times) < 30:
        started = clock()
        matcher.match(JoinSide.LEFT, rows)
        times.append(clock() - started)
    return len(rows) / float(np.median(times))


def part(rows: JoinRows, start: int, end: int) -> JoinRows:
    """Some rows of a batch."""
    return JoinRows(rows.ids[start:end], rows.join[start:end], rows.attributes[start:end])


def against_queries(clock: Clock, counts: Sequence[int]) -> Iterator[Row]:
    """Ten groups, ten affected queries a row."""
    for count in counts:
        band = BandWorkload(np.random.default_rng(1), count, ROWS, 10)
        select = SelectWorkload(np.random.default_rng(1), count, ROWS, 10, WANTED)
        yield from _measured("band", BANDS, band, clock, queries=count)
        yield from _measured("select", SELECTS, select, clock, queries=count)


def against_groups(clock: Clock, groups: Sequence[int], queries: int) -> Iterator[Row]:
    """As many queries, in more and more groups."""
    without = {"BJ-QOuter", "BJ-DOuter", "SJ-JoinFirst (rows)", "SJ-JoinFirst (queries)"}
    for count in groups:
        band = BandWorkload(np.random.default_rng(1), queries, ROWS, count)
        select = SelectWorkload(np.random.default_rng(1), queries, ROWS, count, 0.0025)
        for kind, made, workload in (("band", BANDS, band), ("select", SELECTS, select)):
            own = {name: make for name, make in made.items() if name not in without}
            yield from _measured(kind, own, workload, clock, groups=count)


def _measured(
    kind: str,
    made: dict[str, Callable[[MatcherShape], Matcher]],
    workload: BandWorkload | SelectWorkload,
    clock: Clock,
    **about: int,
) -> Iterator[Row]:
    rows, answer = workload.draw(1000), None
    for name, make in made.items():
        matcher = make(workload.shape)
        matcher.add(workload.queries)
        matcher.insert(JoinSide.RIGHT, workload.across)
        found = matcher.match(JoinSide.LEFT, part(rows, 0, 5)).queries.tolist()
        assert answer is None or found == answer, f"{name} gives another answer"
        answer = found
        yield {"kind": kind, **about, "method": name, "rows_a_second": round(throughput(matcher, rows, clock), 2)}


def routes(clock: Clock, folder: Path | None, *, queries: int, rows: int, arriving: int = 1000) -> Iterator[Row]:
    """The router against each route taken always, on every mix; with the traces, on retail events too."""
    mixes = [(0.01, four_kinds(np.random.default_rng(1), queries, rows, arriving))]
    if folder is not None:
        mixes.append((0.01, retail(np.random.default_rng(1), folder, queries, arriving)))
    for alpha, mix in mixes:
        yield from _routed(clock, mix, alpha)


def _routed(clock: Clock, mix: Mix, alpha: float) -> Iterator[Row]:
    router = SelectRouter(MatcherShape(band=False, left=1, right=1), alpha)
    router.add(mix.queries)
    router.insert(JoinSide.RIGHT, mix.across)
    sample = [part(rows, 0, 500) for rows in mix.arriving.values()]
    every = JoinRows(
        np.arange(sum(len(rows) for rows in sample)),
        np.concatenate([rows.join for rows in sample]),
        np.concatenate([rows.attributes for rows in sample]),
    )
    for route in MatchRoute:
        # Compiled before anything is measured.
        router.constants = dict(only(route))
        router.match(JoinSide.LEFT, part(every, 0, 2))
    router.calibrate(JoinSide.LEFT, every, clock)
    fitted = dict(router.constants)
    for name, rows in mix.arriving.items():
        router.constants = fitted
        router.routed = dict.fromkeys(MatchRoute, 0)
        found = router.match(JoinSide.LEFT, rows).queries
        shares = router.shares
        started = clock()
        for _ in range(20):
            router.routes(JoinSide.LEFT, rows)
        choosing = (clock() - started) / 20 / len(rows)
        speeds = {"router": throughput(router, rows, clock)}
        for route in MatchRoute:
            router.constants = dict(only(route))
            speeds[route.value] = throughput(router, rows, clock)
        best = max(speed for route, speed in speeds.items() if route != "router")
        for method, speed in speeds.items():
            yield {
                "mix": name,
                "method": method,
                "rows_a_second": round(speed, 2),
                "over_the_best_fixed": round(speed / best, 3),
                "share_of_rows": round(next((shares[r] for r in MatchRoute if r.value == method), 1.0), 3),
                "affected_a_row": round(len(found) / len(rows), 1),
                "choosing_microseconds_a_row": round(choosing * 1e6, 2),
                "hot_share": round(router.trackers[0].hot_share, 3),
            }


def only(route: MatchRoute) -> Constants:
    """Constants under which one route is always the cheapest."""
    return {each: tuple(0.0 if each is route else 1.0 for _ in terms) for each, terms in USUAL.items()}
