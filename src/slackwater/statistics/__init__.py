"""Mergeable statistics of values, queries and kept bounds. Needs the `node` extra."""

from slackwater.statistics.base import Summary, combine
from slackwater.statistics.chain import Chain
from slackwater.statistics.coverage import Coverage, CoverageFigures, Covering, Ranges
from slackwater.statistics.fidelity import Fidelity, FidelityFigures, observations
from slackwater.statistics.histogram import Distribution, Histogram, HistogramFigures
from slackwater.statistics.markov import ChainFigures, Markov
from slackwater.statistics.moments import MomentFigures, Moments
from slackwater.statistics.movement import Movement, MovementFigures
from slackwater.statistics.neighbours import Similarities
from slackwater.statistics.profile import Statistics, StatisticsFigures
from slackwater.statistics.rules import Rules
from slackwater.statistics.similarity import Similarity
from slackwater.statistics.ticks import Ticks

SUMMARIES: tuple[type[Summary], ...] = (
    Movement,
    Moments,
    Markov,
    Similarity,
    Histogram,
    Coverage,
    Fidelity,
    Statistics,
)
"""Every summary there is; the contract suite runs over them."""

__all__ = [
    "SUMMARIES",
    "Chain",
    "ChainFigures",
    "Coverage",
    "CoverageFigures",
    "Covering",
    "Distribution",
    "Fidelity",
    "FidelityFigures",
    "Histogram",
    "HistogramFigures",
    "Markov",
    "MomentFigures",
    "Moments",
    "Movement",
    "MovementFigures",
    "Ranges",
    "Rules",
    "Similarities",
    "Similarity",
    "Statistics",
    "StatisticsFigures",
    "Summary",
    "Ticks",
    "combine",
    "observations",
]
