"""Data incoherency, the baseline: a bound for each item, as if the others had used theirs up.

With W = Σ|wⱼ| over the n items of a query, item i gets Bᵢ = B·(W − |wᵢ|) / (W·|wᵢ|·(n − 1)), so that Σ|wᵢ|·Bᵢ = B; a
single item gets B/|w|. An item is pulled when its own predicted change is beyond its bound in some query.

References
    R. Gupta, A. Puri, K. Ramamritham, Executing incoherency bounded continuous queries at web data aggregators,
    WWW 2005, section 3.2.
"""

from collections.abc import Sequence

from slackwater.planning.pulling.published.item_choice import Limited


def item_bound(weights: Sequence[float], place: int, limit: float) -> float:
    """The part of the limit that one item gets.

    >>> [round(item_bound((1.0, 3.0), place, 8.0), 6) for place in range(2)]
    [6.0, 0.666667]
    """
    weight = abs(weights[place])
    if len(weights) == 1:
        return limit / weight
    whole = 0.0
    for each in weights:
        whole += abs(each)
    return limit * (whole - weight) / (whole * weight * (len(weights) - 1))


def data_incoherency(queries: Sequence[Limited], changes: Sequence[float]) -> list[int]:
    """Pull each item whose predicted change is beyond its own bound.

    >>> data_incoherency([Limited((0, 1), (1.0, 3.0), 8.0)], [5.9, -0.7])
    [1]
    """
    chosen: list[int] = []
    for query in queries:
        for place, item in enumerate(query.items):
            if item not in chosen and abs(changes[item]) > item_bound(query.weights, place, query.limit):
                chosen.append(item)
    return chosen
