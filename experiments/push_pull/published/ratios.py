"""Base ratio of each region: the margin by which its label is right.

The regions are the pieces between the ends of the queries on which the labels were made. The ratio of a PUSH region is
the weight of its queries over that of its updates, of a PULL region the inverse. A region has gone bad when its ratio
since is at most α times what it was.

A weight of nothing below the line counts as half an event: a ratio that was infinite would call any region bad after
one event on the other side. A region without events since then is left out.
"""

import numpy as np

from experiments.push_pull.drift import Cover, Events
from slackwater.planning.push_pull.base import Floats


def bad_share(labelled: Events, since: Events, cover: Cover, alpha: float, *, shared: bool) -> float:
    """The share of regions gone bad; with `shared` the weight of a query is divided among the regions it touches."""
    ends = np.unique(np.concatenate((labelled.low[labelled.asks], labelled.high[labelled.asks])))
    if len(ends) < 2:
        return 0.0
    middles = (ends[:-1] + ends[1:]) / 2
    push = cover.covers(middles, middles)
    queries, updates = _weights(ends, labelled, shared=shared)
    queries_since, updates_since = _weights(ends, since, shared=shared)
    was = _ratio(push, queries, updates)
    now = _ratio(push, queries_since, updates_since)
    alive = queries_since + updates_since > 0
    return float((alive & (now <= alpha * was)).mean())


def _ratio(push: np.typing.NDArray[np.bool_], queries: Floats, updates: Floats) -> Floats:
    above, below = np.where(push, queries, updates), np.where(push, updates, queries)
    return above / np.maximum(below, 0.5)


def _weights(ends: Floats, events: Events, *, shared: bool) -> tuple[Floats, Floats]:
    """The weight of queries and of updates in each of the pieces between neighbouring ends."""
    pieces = len(ends) - 1
    first = np.clip(np.searchsorted(ends, events.low, "right") - 1, 0, pieces)
    last = np.clip(np.searchsorted(ends, events.high, "left") - 1, -1, pieces - 1)
    asks, counts = events.asks, ~events.asks & (events.low >= ends[0]) & (events.high <= ends[-1])
    touching = asks & (first <= last)
    weight = np.where(touching & shared, events.cost / np.maximum(last - first + 1, 1), events.cost)
    change = np.bincount(first[touching], weight[touching], pieces + 1)
    change -= np.bincount(last[touching] + 1, weight[touching], pieces + 1)
    queries = np.maximum(np.cumsum(change)[:-1], 0.0)
    updates = np.bincount(np.minimum(first[counts], pieces - 1), events.cost[counts], pieces)
    return np.where(queries < 1e-9, 0.0, queries), updates.astype(np.float64)
