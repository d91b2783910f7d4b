"""Cost model of select-join methods: formulas with fitted constants.

With |S| rows across, |Q| queries, k_j rows that join, k_s queries that want the row (of these k_c scattered) and hot
groups H₁ … H_g, in seconds:

    JoinFirst over queries   a log|S| + b k_j √|Q| + c k_j k_s
    JoinFirst over rows      a log|S| + b |Q| + c k_s log k_j
    SelectFirst              a log|S| + b log|Q| + c k_s log k_j
    Hotspot                  a log|S| + b g + c Σ√|H| + d log|cold| + e k_c log k_j + f k_s

The published formulas have no term in k_j k_s, g and k_s; here an index of rectangles is searched along the row's own
range, which is what these stand for, and they are what the constants turn out to be needed for. A row that joins with
nothing costs a log|S| whichever way it goes.

Constants are fitted to measured times by least squares of the relative error, none below 0.

References
    P. K. Agarwal, J. Xie, J. Yang, H. Yu, Scalable continuous query processing by tracking hotspots, VLDB 2006; J. Xie,
    dissertation, section 4.5.1: the routes and their formulas.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from slackwater.processing.base import Floats


class MatchRoute(Enum):
    """A way to match a row."""

    JOIN_FIRST = "JoinFirst over queries"
    EACH_QUERY = "JoinFirst over rows"
    SELECT_FIRST = "SelectFirst"
    HOTSPOT = "Hotspot"


@dataclass(frozen=True, slots=True, eq=False)
class Situation:
    """What the formulas ask about: of everything, and of each row."""

    rows_across: int
    queries: int
    hot_groups: int
    hot_roots: float
    """Σ√|H| over the hot groups."""
    scattered: int
    joining: Floats
    """k_j of each row."""
    selected: Floats
    """k_s of each row, estimated."""
    selected_scattered: Floats
    """k_c of each row, estimated."""


def features(route: MatchRoute, about: Situation) -> Floats:
    """Rows × the terms of a route's formula."""
    joins, selected = about.joining, about.selected
    some = (joins > 0).astype(np.float64)
    across, joined = np.full(len(joins), np.log2(about.rows_across + 2)), np.log2(joins + 1)
    if route is MatchRoute.JOIN_FIRST:
        columns = [across, joins * np.sqrt(about.queries), joins * selected]
    elif route is MatchRoute.EACH_QUERY:
        columns = [across, some * about.queries, selected * joined]
    elif route is MatchRoute.SELECT_FIRST:
        columns = [across, some * np.log2(about.queries + 1), selected * joined]
    else:
        columns = [
            across,
            some * about.hot_groups,
            some * about.hot_roots,
            some * np.log2(about.scattered + 1),
            about.selected_scattered * joined,
            some * selected,
        ]
    return np.stack(columns, axis=1)


def fitted(terms: Floats, seconds: Floats) -> tuple[float, ...]:
    """The constants, none negative, of the least relative error."""
    from scipy.optimize import nnls  # here, because a server that fits nothing need not wait for it to be imported

    constants, _ = nnls(terms / seconds[:, None], np.ones(len(seconds)))
    return tuple(constants.tolist())


Constants = Mapping[MatchRoute, tuple[float, ...]]

USUAL: Constants = {
    MatchRoute.JOIN_FIRST: (4.0e-8, 1.0e-9, 2.0e-10),
    MatchRoute.EACH_QUERY: (4.0e-8, 2.0e-9, 5.0e-8),
    MatchRoute.SELECT_FIRST: (4.0e-8, 1.0e-8, 5.0e-8),
    MatchRoute.HOTSPOT: (4.0e-8, 4.0e-7, 0.0, 1.0e-8, 5.0e-8, 0.0),
}
"""Until a machine has been measured."""


def estimated(route: MatchRoute, about: Situation, constants: Constants) -> Floats:
    """Seconds for each row."""
    seconds: Floats = features(route, about) @ np.array(constants[route])
    return seconds
