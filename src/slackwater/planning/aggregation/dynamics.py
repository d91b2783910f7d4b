"""How items move, from what was learnt of them or from a trace in memory."""

from collections.abc import Sequence

import numpy as np

from slackwater.core.errors import PlanningError
from slackwater.planning.aggregation.base import Dynamics, Floats
from slackwater.statistics import StatisticsFigures


def learnt(figures: StatisticsFigures) -> Dynamics:
    """The dynamics in the statistics of a column; they must have the similarity of pairs."""
    if figures.similarity is None:
        raise PlanningError("these statistics know nothing of pairs of items: learn them with a period")
    return Dynamics(figures.items, figures.movement.per_second * 3600.0, figures.similarity.matrix())


def observed(items: Sequence[str], values: Floats, hours: float) -> Dynamics:
    """The dynamics of a trace with a row for each tick and a column for each item.

    >>> observed(["a", "b"], np.array([[1.0, 5.0], [2.0, 4.0], [4.0, 2.0]]), hours=0.5).sumdiff.tolist()
    [6.0, 6.0]
    """
    changes = np.diff(values, axis=0)
    lengths = np.sqrt(np.sum(changes**2, axis=0))
    unit = np.divide(changes, lengths, out=np.zeros_like(changes), where=lengths > 0)
    similarity = np.clip(unit.T @ unit, -1.0, 1.0)
    np.fill_diagonal(similarity, 1.0)
    return Dynamics(tuple(items), np.sum(np.abs(changes), axis=0) / hours, similarity)
