"""Pulling just enough: bounded aggregates over sources that only answer requests. Needs the `node` extra."""

from slackwater.planning.pulling.base import LONGEST, PullQuery, Scheduler, split_between
from slackwater.planning.pulling.bookkeeping import Bookkeeping
from slackwater.planning.pulling.choosing import Choice, Limited, fewest
from slackwater.planning.pulling.data_incoherency import data_incoherency
from slackwater.planning.pulling.fixed import FixedInterval
from slackwater.planning.pulling.largest import largest
from slackwater.planning.pulling.largest_for_many import largest_for_many
from slackwater.planning.pulling.markov import ChainSettings, MarkovModel
from slackwater.planning.pulling.positive_negative import positive_negative
from slackwater.planning.pulling.predicted import PredictedChange
from slackwater.planning.pulling.safety import SafetyFactor
from slackwater.planning.pulling.simulation import (
    Outcome,
    drive,
    push_best,
    push_changed,
    run_predicted,
    run_uncertainty,
)
from slackwater.planning.pulling.uncertainty import Uncertainty

CHOICES: dict[str, Choice] = {
    "data_incoherency": data_incoherency,
    "positive_negative": positive_negative,
    "max": largest,
    "max_for_many": largest_for_many,
}
"""Every choice of items there is, by the name the paper gives it."""

SCHEDULERS: tuple[type[Bookkeeping], ...] = (Uncertainty, PredictedChange, FixedInterval)
"""Every scheduler there is; the contract suite runs over them."""

__all__ = [
    "CHOICES",
    "LONGEST",
    "SCHEDULERS",
    "Bookkeeping",
    "ChainSettings",
    "Choice",
    "FixedInterval",
    "Limited",
    "MarkovModel",
    "Outcome",
    "PredictedChange",
    "PullQuery",
    "SafetyFactor",
    "Scheduler",
    "Uncertainty",
    "data_incoherency",
    "drive",
    "fewest",
    "largest",
    "largest_for_many",
    "positive_negative",
    "push_best",
    "push_changed",
    "run_predicted",
    "run_uncertainty",
    "split_between",
]
