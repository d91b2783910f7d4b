"""Cost-based router: the cheapest method for each arriving row, by formula, from cheap statistics.

How many rows join is read off the index itself (two searches); how many queries want the row comes from histograms of
equal width over the own ranges, one of all queries and one of the scattered, made anew when a tenth of the queries
changed. `calibrate` measures every route on rows of all kinds in a sample and fits the constants; before that they are
those of some machine.

A look at one row of sixteen decides whether choosing row by row is likely to pay; if not, the batch goes the way that
is cheapest for the sample. Rows go to a route of their own only if that saves more than the call.

References
    J. Xie, dissertation, section 4.5: routing by cost, row by row. The look at a sample is this project's own.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from slackwater.kernels.partners import count_joining
from slackwater.kernels.sorted_blocks import Packed
from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching.base import JoinRows, JoinSide, MatcherShape, check_rows
from slackwater.processing.matching.costs import USUAL, Constants, MatchRoute, Situation, estimated, features, fitted
from slackwater.processing.matching.histogram import ProbedRanges, StepFunction, equal_width
from slackwater.processing.matching.hotspots import ALPHA
from slackwater.processing.matching.index_base import Found
from slackwater.processing.matching.rectangles import ALL, Rectangles
from slackwater.processing.matching.select_hotspot import SelectHotspot
from slackwater.processing.matching.select_routes import Stamps, each_query, join_first, select_first

BUCKETS = 100
_LARGEST = float(np.finfo(np.float64).max) / 4
CALL = 1e-4
"""Seconds that another route costs a batch whatever it does."""
LOOK = 5e-7
"""Seconds that it costs to choose a route for one row."""
LONG = 0.02
"""Seconds after which a measurement is good enough."""
SHORT = 2e-7
"""Seconds below which the time of a row disappears in that of the call."""
SAMPLE = 16
"""Of so many rows one is looked at to see whether choosing pays at all."""


class SelectRouter(SelectHotspot):
    """A route for each row."""

    SHAPES: ClassVar[tuple[bool, ...]] = (False,)

    def __init__(self, shape: MatcherShape, alpha: float = ALPHA, constants: Constants = USUAL) -> None:
        super().__init__(shape, alpha)
        self.constants = dict(constants)
        self.routed = dict.fromkeys(MatchRoute, 0)
        """How many rows went which way so far."""
        self._all = (Rectangles(self._queries, 0), Rectangles(self._queries, 1))
        self._counts: list[tuple[StepFunction, StepFunction] | None] = [None, None]
        self._changed = 0
        self._stamps = Stamps(self._queries)

    @property
    def shares(self) -> dict[MatchRoute, float]:
        """The share of the rows that went each way."""
        total = max(sum(self.routed.values()), 1)
        return {route: count / total for route, count in self.routed.items()}

    def calibrate(self, side: JoinSide, rows: JoinRows, clock: Callable[[], float], *, cells: int = 4) -> None:
        """Fit the constants to times measured on these rows, in groups of like rows; `clock` returns seconds."""
        check_rows(self._shape, side, rows)
        attributes, partners = self._attributes(side, rows), self._orders[side.other].packed
        about = self._situation(side, rows.join, attributes)
        kinds = _cell(about.joining, cells) * cells + _cell(about.selected, cells)

        def timed(route: MatchRoute, by: Integers) -> float:
            least = np.inf
            for _ in range(3):
                started = clock()
                self._go(route, side, rows.join, attributes, by, partners)
                least = min(least, clock() - started)
                if least > LONG:
                    break
            return least

        for route in MatchRoute:
            terms, seconds = list[Floats](), list[float]()
            call = timed(route, np.zeros(0, np.int64))
            for kind in np.unique(kinds).tolist():
                # A few rows first: they show whether more can be afforded. Rows may be taken several times over.
                by = np.resize(np.flatnonzero(kinds == kind), 4)
                spent = timed(route, by)
                if spent < LONG:
                    by = np.resize(np.flatnonzero(kinds == kind), 100)
                    spent = timed(route, by)
                terms.append(features(route, about)[by].mean(axis=0))
                seconds.append(max((spent - call) / len(by), SHORT))
            if seconds:
                self.constants[route] = fitted(np.array(terms), np.array(seconds))

    def routes(self, side: JoinSide, rows: JoinRows) -> list[MatchRoute]:
        """The route that each row would take."""
        check_rows(self._shape, side, rows)
        places = self._places(side, rows.join, self._attributes(side, rows))
        routes = tuple(MatchRoute)
        return [routes[place] for place in places.tolist()]

    def _added(self, slots: Integers) -> None:
        super()._added(slots)
        for index in self._all:
            index.insert(slots, np.full(len(slots), ALL))
        self._noted(len(slots))

    def _removed(self, slots: Integers) -> None:
        super()._removed(slots)
        for index in self._all:
            index.delete(slots, np.full(len(slots), ALL))
        self._noted(len(slots))

    def _noted(self, changes: int) -> None:
        self._changed += changes
        if self._changed * 10 > len(self._queries):
            self._counts, self._changed = [None, None], 0

    def _probe(self, side: JoinSide, join: Floats, attributes: Floats) -> Found:
        partners = self._orders[side.other].packed
        places = self._places(side, join, attributes)
        offsets, lengths = np.zeros(len(join), np.int64), np.zeros(len(join), np.int64)
        written, parts = 0, list[Integers]()
        along = np.argsort(attributes[:, 0])
        for place, route in enumerate(MatchRoute):
            by = along[places[along] == place]
            if len(by):
                found = self._go(route, side, join, attributes, by, partners)
                offsets[by], lengths[by] = found[0][by] + written, found[1][by]
                parts.append(found[2])
                written += len(found[2])
                self.routed[route] += len(by)
        return offsets, lengths, parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int64), *parts])

    def _go(
        self, route: MatchRoute, side: JoinSide, join: Floats, attributes: Floats, by: Integers, partners: Packed
    ) -> Found:
        queries, across = self._queries, side.other
        if route is MatchRoute.JOIN_FIRST:
            return join_first(partners, join, attributes, by, self._all[side], ALL, self._stamps)
        if route is MatchRoute.EACH_QUERY:
            return each_query(partners, join, attributes, by, queries, across)
        if route is MatchRoute.SELECT_FIRST:
            return select_first(partners, join, attributes, by, self._all[side], ALL, queries, across)
        return self._by_hotspots(side, join, attributes, by)

    def _places(self, side: JoinSide, join: Floats, attributes: Floats) -> Integers:
        """The place of the route of each row among all routes, chosen row by row where that is likely to pay."""
        if len(join) > SAMPLE:
            costs = self._costs(self._situation(side, join[::SAMPLE], attributes[::SAMPLE]))
            main = int(costs.sum(axis=1).argmin())
            if (costs[main] - costs.min(axis=0)).mean() < LOOK:
                return np.full(len(join), main)
        return self._choose(self._situation(side, join, attributes))

    def _costs(self, about: Situation) -> Floats:
        return np.stack([estimated(route, about, self.constants) for route in MatchRoute])

    def _choose(self, about: Situation) -> Integers:
        costs = self._costs(about)
        choice: Integers = costs.argmin(axis=0)
        # The route with most of the work takes along the rows that are not worth a call of their own.
        main = int(costs.sum(axis=1).argmin())
        for place in range(len(costs)):
            own = choice == place
            if place != main and (costs[main] - costs[place])[own].sum() < CALL:
                choice[own] = main
        return choice

    def _situation(self, side: JoinSide, join: Floats, attributes: Floats) -> Situation:
        joining = np.empty(len(join), np.int64)
        count_joining(self._orders[side.other].packed, join, joining)
        every, scattered = self._histograms(side)
        hot = self.trackers[side].hot.table
        own = attributes[:, 0]
        joins = joining > 0
        return Situation(
            rows_across=len(self._orders[side.other]),
            queries=len(self._queries),
            hot_groups=len(hot),
            hot_roots=float(np.sqrt(hot.sizes).sum()),
            scattered=self.trackers[side].scattered_count,
            joining=joining.astype(np.float64),
            selected=every(own) * joins,
            selected_scattered=scattered(own) * joins,
        )

    def _histograms(self, side: JoinSide) -> tuple[StepFunction, StepFunction]:
        kept = self._counts[side]
        if kept is None:
            scattered = self.trackers[side].scattered.slots()
            kept = self._histogram(side, self._queries.slots.all()), self._histogram(side, scattered)
            self._counts[side] = kept
        return kept

    def _histogram(self, side: JoinSide, slots: Integers) -> StepFunction:
        low, high = self._queries.lows[side][slots, 0], self._queries.highs[side][slots, 0]
        ends = np.concatenate((low, high))
        ends = ends[np.isfinite(ends)]
        if not len(ends):
            # Every range holds every value.
            return StepFunction(np.array([-np.inf]), np.array([float(len(slots))]))
        # Ends may be so large that their difference is infinite, or so close that no bucket fits between them.
        least, most = np.clip((ends.min(), ends.max()), -_LARGEST, _LARGEST).tolist()
        narrow = 2 * BUCKETS * float(np.spacing(max(abs(least), abs(most))))
        most = most if most - least > narrow else least + max(1.0, narrow)
        return equal_width(ProbedRanges(np.clip(low, least, most), np.clip(high, least, most), least, most), BUCKETS)

    def _check(self) -> None:
        super()._check()
        for index in self._all:
            index._check(np.full(self._queries.slots.ever, ALL))


def _cell(values: Floats, cells: int) -> Integers:
    """Which of so many shares of equal size a value falls into."""
    edges = np.quantile(values, np.linspace(0, 1, cells + 1)[1:-1]) if len(values) else np.zeros(cells - 1)
    return np.searchsorted(edges, values)
