"""Positive-negative: pull only from the side that pushes the error.

Of the contributions w·PC with one sign, those of the side with the larger sum make the error what it is. Pulled is the
largest of them that is smaller than the error, for a larger one would turn the error round; again until the query is
inside its limit. Where there is none, the whole side is pulled, and there it stops even if that turned the error round.

Queries are looked at one after the other; what one has pulled is fresh for the next.

References
    R. Gupta, A. Puri, K. Ramamritham, Executing incoherency bounded continuous queries at web data aggregators,
    WWW 2005, section 3.2.1.
"""

from collections.abc import Sequence

from slackwater.planning.pulling.published.item_choice import Limited


def positive_negative(queries: Sequence[Limited], changes: Sequence[float]) -> list[int]:
    """Choose for each broken query in turn.

    >>> query = Limited((0, 1, 2, 3), (1.0, 1.0, 1.0, 1.0), 200.0)
    >>> positive_negative([query], [500.0, 75.0, -200.0, -150.0])
    [1]
    """
    left = list(changes)
    chosen: list[int] = []
    for query in queries:
        error = query.error(left)
        while abs(error) > query.limit:
            side = 1.0 if error > 0 else -1.0
            best, largest = -1, 0.0
            for item, weight in zip(query.items, query.weights, strict=True):
                contribution = side * weight * left[item]
                if largest < contribution < side * error:
                    best, largest = item, contribution
            if best >= 0:
                chosen.append(best)
                left[best] = 0.0
            else:
                for item, weight in zip(query.items, query.weights, strict=True):
                    if side * weight * left[item] > 0:
                        chosen.append(item)
                        left[item] = 0.0
                break
            error = query.error(left)
    return chosen
