"""Clairvoyant baselines: two pushers that know the truth at every tick.

*Push what changed*, the paper's ideal: when a query is violated, every item of it that has changed is pushed, one
message each; queries that come later in the tick have them for nothing. *Push the best*, the stronger one: while some
query is violated, the one item is pushed that takes most excess (|error| − B, in parts of B, summed over all queries)
away; where no single item takes any away, the largest contribution to the first violated query. Neither knows the
future.

Bounds must be positive. All items are known at tick 0; that is not counted.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.planning.pulling.base import PullQuery

Floats = npt.NDArray[np.float64]


def _errors(queries: Sequence[PullQuery], truth: list[float], held: list[float]) -> list[float]:
    found = []
    for query in queries:
        error = 0.0
        for item, weight in zip(query.items, query.weights, strict=True):
            error += weight * (truth[item] - held[item])
        found.append(error)
    return found


def push_changed_plainly(queries: Sequence[PullQuery], trace: Floats, warm: int = 0) -> list[int]:
    """Pushes of each item, from tick `warm` on.

    >>> from slackwater.core.bound import Bound
    >>> query = PullQuery.total((0, 1), (1.0, 1.0), Bound(2.0, 0.9))
    >>> push_changed_plainly([query], np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 1.0]]))
    [1, 1]
    """
    held: list[float] = trace[0].tolist()
    pushes = [0] * len(held)
    for now in range(1, len(trace)):
        truth: list[float] = trace[now].tolist()
        for query in queries:
            if abs(_errors([query], truth, held)[0]) <= query.bound.within:
                continue
            for item in query.items:
                if truth[item] != held[item]:
                    held[item] = truth[item]
                    pushes[item] += now >= warm
    return pushes


def push_best_plainly(queries: Sequence[PullQuery], trace: Floats, warm: int = 0) -> list[int]:
    """Pushes of each item, from tick `warm` on.

    >>> from slackwater.core.bound import Bound
    >>> query = PullQuery.total((0, 1), (1.0, 1.0), Bound(2.0, 0.9))
    >>> push_best_plainly([query], np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 1.0]]))
    [1, 0]
    """
    held: list[float] = trace[0].tolist()
    pushes = [0] * len(held)
    for now in range(1, len(trace)):
        truth: list[float] = trace[now].tolist()
        while True:
            errors = _errors(queries, truth, held)
            violated = [q for q, query in zip(errors, queries, strict=True) if abs(q) > query.bound.within]
            if not violated:
                break
            gain = [0.0] * len(held)
            for error, query in zip(errors, queries, strict=True):
                within = query.bound.within
                excess = max(abs(error) - within, 0.0)
                for item, weight in zip(query.items, query.weights, strict=True):
                    left = error - weight * (truth[item] - held[item])
                    gain[item] += (excess - max(abs(left) - within, 0.0)) / within
            best, most = -1, 0.0
            for item in range(len(held)):
                if truth[item] != held[item] and gain[item] > most:
                    best, most = item, gain[item]
            if best < 0:
                first = next(query for q, query in zip(errors, queries, strict=True) if abs(q) > query.bound.within)
                for item, weight in zip(first.items, first.weights, strict=True):
                    part = abs(weight * (truth[item] - held[item]))
                    if part > most:
                        best, most = item, part
            if best < 0:
                break
            held[best] = truth[best]
            pushes[best] += now >= warm
    return pushes
