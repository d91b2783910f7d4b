"""Max for many queries: items count for all queries that hold them.

When any query is broken, one pass a tick over all items: those with |PCᵢ·Σ_q wᵢ| ≥ ratio × the largest such value,
whichever queries hold them.

References
    R. Gupta, A. Puri, K. Ramamritham, Executing incoherency bounded continuous queries at web data aggregators,
    WWW 2005, section 3.3.
"""

from collections.abc import Sequence

from slackwater.planning.pulling.published.item_choice import Limited
from slackwater.planning.pulling.published.largest import PULL_RATIO


def largest_for_many(queries: Sequence[Limited], changes: Sequence[float]) -> list[int]:
    """Choose once for all queries.

    >>> queries = [Limited((0, 1), (1.0, 1.0), 5.0), Limited((1, 2), (1.0, 1.0), 50.0)]
    >>> largest_for_many(queries, [6.0, 4.0, 7.0])
    [1, 2]
    """
    if not any(query.broken(changes) for query in queries):
        return []
    sums = [0.0] * len(changes)
    for query in queries:
        for item, weight in zip(query.items, query.weights, strict=True):
            sums[item] += weight
    weighed = [abs(change * weight) for change, weight in zip(changes, sums, strict=True)]
    most = max(weighed)
    return [item for item, each in enumerate(weighed) if each > 0.0 and each >= PULL_RATIO * most]
