"""JIT warm-up: every kernel of join matching compiled before the first join needs it.

On a machine that has never matched a join compiling takes many seconds, longer than a lease; and it would happen where
the first join is registered, while all clients wait. So the thread that reads the first join compiles them first.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np

from slackwater.processing.matching.band_costs import BandCosts
from slackwater.processing.matching.band_hotspot import BandHotspot
from slackwater.processing.matching.base import JoinRows, Joins, JoinSide, MatcherShape
from slackwater.processing.matching.costs import USUAL, MatchRoute
from slackwater.processing.matching.hotspots import HotspotTracker
from slackwater.processing.matching.select_router import SelectRouter

_SHAPES = tuple(MatcherShape(band, left, right) for band in (True, False) for left in (0, 1) for right in (0, 1))
_COUNT = 48


@cache
def rehearse() -> None:
    """Let queries and rows come and go, by every route. The second time it does nothing."""
    for shape in _SHAPES:
        for matcher in _matchers(shape):
            _exercise(shape, matcher)


def _matchers(shape: MatcherShape) -> Iterator[BandHotspot | SelectRouter]:
    if shape.band:
        yield BandHotspot(shape)
        # Half of the ranges scattered, with a table of the rows from the first row on, and without one.
        yield BandHotspot(shape, HotspotTracker(0.3), BandCosts(block=0.0, look=0.0, enter=0.0, cell=0.0))
        yield BandHotspot(shape, HotspotTracker(0.3), BandCosts(cell=1e9))
        return
    for only in MatchRoute:
        # Constants under which this route is always the cheapest.
        yield SelectRouter(
            shape, constants={route: tuple(float(route is not only) for _ in terms) for route, terms in USUAL.items()}
        )


def _exercise(shape: MatcherShape, matcher: BandHotspot | SelectRouter) -> None:
    numbers = np.arange(_COUNT)
    # Half of the ranges have a point in common, the others have not.
    low = np.where(numbers % 2 == 0, -1.0, numbers.astype(np.float64))
    for first in (0, _COUNT // 2):
        chosen = slice(first, first + _COUNT // 2)
        ends = [low[chosen], low[chosen] + 0.5]
        band = ends if shape.band else [np.zeros(_COUNT // 2)] * 2
        left, right = ([np.repeat(end[:, None], n, axis=1) for end in ends] for n in (shape.left, shape.right))
        matcher.add(Joins(numbers[chosen].copy(), *(end.copy() for end in band), *left, *right))
    rows = {
        side: JoinRows(numbers, (numbers % 7).astype(np.float64) - 3, np.full((_COUNT, shape.attributes(side)), -0.75))
        for side in JoinSide
    }
    for _ in range(2):
        for side, own in rows.items():
            matcher.insert(side, own)
        for side, own in rows.items():
            matcher.results(side, own)
            # Of few rows all are looked at to find a route, of many some.
            matcher.results(side, JoinRows(own.ids[:2], own.join[:2], own.attributes[:2]))
        for side, own in rows.items():
            matcher.delete(side, own.ids)
    matcher.remove(numbers)
