"""Max: pull every item that contributes nearly as much as the largest one.

For each broken query, one pass a tick: all items with |w·PC| ≥ ratio × the largest |w·PC|. The error may stay beyond
the limit; the next tick is another pass. What one query has pulled is fresh for the next.

References
    R. Gupta, A. Puri, K. Ramamritham, Executing incoherency bounded continuous queries at web data aggregators,
    WWW 2005, section 3.2.2.
"""

from collections.abc import Sequence

from slackwater.planning.pulling.published.item_choice import Limited

PULL_RATIO = 0.8


def largest(queries: Sequence[Limited], changes: Sequence[float]) -> list[int]:
    """Choose for each broken query in turn.

    >>> query = Limited((0, 1, 2, 3), (1.0, 1.0, 1.0, 1.0), 200.0)
    >>> largest([query], [500.0, 75.0, -200.0, -150.0])
    [0]
    """
    left = list(changes)
    chosen: list[int] = []
    for query in queries:
        if not query.broken(left):
            continue
        most = 0.0
        for item, weight in zip(query.items, query.weights, strict=True):
            most = max(most, abs(weight * left[item]))
        for item, weight in zip(query.items, query.weights, strict=True):
            if left[item] != 0.0 and abs(weight * left[item]) >= PULL_RATIO * most:
                chosen.append(item)
                left[item] = 0.0
    return chosen
