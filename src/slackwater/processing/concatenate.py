"""Concatenation of the outputs of several operators, in order of their queries."""

from collections.abc import Iterable, Sequence

import numpy as np

from slackwater.core.types import Position
from slackwater.processing.base import Answer, Notifications, Values


def gathered(outputs: Iterable[Values | None]) -> Values | None:
    """All published values; None where there are none. No query is in two of them."""
    values = [one for one in outputs if one is not None and len(one)]
    if len(values) < 2:
        return values[0] if values else None
    queries = np.concatenate([one.queries for one in values])
    order = np.argsort(queries)
    numbers = np.concatenate([one.values for one in values])
    there = np.concatenate([one.there for one in values])
    return Values(queries[order], numbers[order], there[order])


def as_values(answers: Iterable[Answer]) -> Values | None:
    """The values of aggregates among answers; None where there are none. Rows are left out: they are not new."""
    found = sorted((one for one in answers if one.rows is None), key=lambda one: one.query)
    if not found:
        return None
    return Values(
        np.array([one.query for one in found], np.int64),
        np.array([0.0 if one.value is None else one.value for one in found]),
        np.array([one.value is not None for one in found]),
    )


def merged(outputs: Sequence[Notifications], position: Position) -> Notifications:
    """Merge the notifications of several operators; values in order of their queries."""
    rows = tuple(part for one in outputs for part in one.rows if len(part))
    anew = tuple(sorted(number for one in outputs for number in one.anew))
    halted = tuple(sorted(number for one in outputs for number in one.halted))
    return Notifications(position, gathered(one.values for one in outputs), rows, anew, halted)
