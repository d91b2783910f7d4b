"""Item dynamics, from learnt statistics or from a trace in memory."""

from slackwater.core.errors import PlanningError
from slackwater.planning.aggregation.base import Dynamics
from slackwater.statistics import StatisticsFigures


def learnt(figures: StatisticsFigures) -> Dynamics:
    """The dynamics in the statistics of a column; they must have the similarity of pairs."""
    if figures.similarity is None:
        raise PlanningError("these statistics know nothing of pairs of items: learn them with a period")
    return Dynamics(figures.items, figures.movement.per_second * 3600.0, figures.similarity.matrix())
