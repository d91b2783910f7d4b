"""Single-client labelling under a row limit, from recent queries and changes.

Mathematics
    The exact labels of the window give the queries that are best answered at home (`encoding.pushed`). Where their rows
    do not fit the client's room, queries are taken up greedily by what they save for each row that has to be held: the
    times they are asked, less the updates that pushing them adds. That is the usual heuristic for a knapsack, no more.
    Where their boxes are more than labels may have, the queries that are asked least are left out before that.

    New labels are worth their change when they save, over the window, more than 1/`lasting` of the rows that have to be
    shipped to fill them: labels are expected to last so many windows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slackwater.core.errors import AlgebraError
from slackwater.core.labels import is_pushable
from slackwater.core.region import NOTHING, Region
from slackwater.planning.push_pull.compact import compact
from slackwater.planning.push_pull.cost_models import Messages
from slackwater.planning.push_pull.encoding import Asked, Changed, encode
from slackwater.planning.push_pull.exact import exact

MOST_COLUMNS = 3
"""Attributes along which a table is cut: those that most questions constrain."""


@dataclass(frozen=True, slots=True)
class Window:
    """Recent queries of a client and recent changes of its table."""

    asked: tuple[Asked, ...]
    changed: tuple[Changed, ...]

    def messages(self, pushed: Region) -> int:
        """Cost of the window in messages (M1): pushed updates and uncovered queries."""
        pushes = sum(
            1
            for one in self.changed
            if pushed.contains(one.place.get) or (one.before is not None and pushed.contains(one.before.get))
        )
        return pushes + sum(one.times for one in self.asked if not pushed.covers(one.region))


def attributes(asked: Sequence[Asked]) -> tuple[str, ...]:
    """The columns that questions constrain, most often first; no more than can be planned along."""
    weights: dict[str, int] = {}
    for one in asked:
        for column in {side.column for box in one.region for side in box.sides}:
            weights[column] = weights.get(column, 0) + one.times
    return tuple(sorted(weights, key=lambda column: (-weights[column], column))[:MOST_COLUMNS])


def label(window: Window, rows_in: Callable[[Region], int], limit: int) -> Region:
    """Choose the regions to push, within the row limit; `rows_in` counts the rows of a region."""
    columns = attributes(window.asked)
    asked = [one for one in window.asked if {side.column for box in one.region for side in box.sides} <= {*columns}]
    if not asked:
        return NOTHING
    # A column that no question constrains plays no part; one that no row mentions is null.
    changed = [
        Changed(
            {column: one.place.get(column) for column in columns},
            None if one.before is None else {column: one.before.get(column) for column in columns},
        )
        for one in window.changed
    ]
    if not columns:
        whole = sum(one.times for one in asked)
        best = asked[0].region if whole > len(changed) else NOTHING
        return best if rows_in(best) <= limit else NOTHING
    try:
        encoded = encode(columns, asked, changed, Messages())
        pushed = encoded.pushed(exact(encoded.workload))
        if not is_pushable(pushed):
            pushed = _fewer(pushed, asked)
        if rows_in(pushed) <= limit:
            return pushed
        return _fitting(pushed, asked, changed, rows_in, limit)
    except AlgebraError:
        return NOTHING


def _fewer(pushed: Region, asked: list[Asked]) -> Region:
    """Regions of the most frequent queries, halved in number until they are few enough for labels."""
    home = sorted((one for one in asked if pushed.covers(one.region)), key=lambda one: (-one.times, str(one.region)))
    while not is_pushable(pushed):
        home = home[: len(home) // 2]
        pushed = compact(box for one in home for box in one.region)
    return pushed


def _fitting(
    pushed: Region, asked: list[Asked], changed: list[Changed], rows_in: Callable[[Region], int], limit: int
) -> Region:
    """Some of the queries that are best answered at home, until there is no more room."""
    home: dict[Region, int] = {}
    for one in asked:
        if pushed.covers(one.region):
            home[one.region] = home.get(one.region, 0) + one.times

    def density(region: Region) -> float:
        updates = sum(1 for one in changed if region.contains(one.place.get))
        return (home[region] - updates) / (1 + rows_in(region))

    chosen = NOTHING
    for region in sorted(home, key=lambda region: (-density(region), str(region))):
        wider = chosen.union(region)
        if density(region) > 0 and is_pushable(wider) and rows_in(wider) <= limit:
            chosen = wider
    return chosen


def worthwhile(window: Window, now: Region, then: Region, fill: int, lasting: float) -> bool:
    """True when other labels are worth the cost of changing to them."""
    if then.equals(now):
        return False
    return window.messages(now) - window.messages(then) > fill / lasting
