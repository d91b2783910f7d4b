"""Values from several structures or operators as one piece, in order of their queries."""

from collections.abc import Iterable, Sequence

import numpy as np

from slackwater.core.types import Position
from slackwater.processing.base import Answer, Notifications, Values


def gathered(said: Iterable[Values | None]) -> Values | None:
    """All values that were said; None where there are none. No query is in two of them."""
    values = [one for one in said if one is not None and len(one)]
    if len(values) < 2:
        return values[0] if values else None
    queries = np.concatenate([one.queries for one in values])
    order = np.argsort(queries)
    numbers = np.concatenate([one.values for one in values])
    there = np.concatenate([one.there for one in values])
    return Values(queries[order], numbers[order], there[order])


def as_values(answers: Iterable[Answer]) -> Values | None:
    """What answers say of aggregates, as values; None where they say nothing. Of rows they say nothing new."""
    found = sorted((one for one in answers if one.rows is None), key=lambda one: one.query)
    if not found:
        return None
    return Values(
        np.array([one.query for one in found], np.int64),
        np.array([0.0 if one.value is None else one.value for one in found]),
        np.array([one.value is not None for one in found]),
    )


def merged(said: Sequence[Notifications], position: Position) -> Notifications:
    """What several operators say, as one; values in order of their queries."""
    rows = tuple(part for one in said for part in one.rows if len(part))
    anew = tuple(sorted(number for one in said for number in one.anew))
    halted = tuple(sorted(number for one in said for number in one.halted))
    return Notifications(position, gathered(one.values for one in said), rows, anew, halted)
