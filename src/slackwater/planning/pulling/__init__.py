"""Pulling just enough: bounded aggregates over sources that only answer requests. Needs the `node` extra."""

from slackwater.planning.pulling.base import LONGEST, PullQuery, Scheduler, split_between
from slackwater.planning.pulling.choosing import Choice, Limited, fewest
from slackwater.planning.pulling.data_incoherency import data_incoherency
from slackwater.planning.pulling.fixed import FixedInterval
from slackwater.planning.pulling.largest import largest
from slackwater.planning.pulling.largest_for_many import largest_for_many
from slackwater.planning.pulling.markov import ChainSettings, MarkovModel
from slackwater.planning.pulling.positive_negative import positive_negative
from slackwater.planning.pulling.predicted import PredictedChange
from slackwater.planning.pulling.safety import SafetyFactor

CHOICES: dict[str, Choice] = {
    "data_incoherency": data_incoherency,
    "positive_negative": positive_negative,
    "max": largest,
    "max_for_many": largest_for_many,
}
"""Every choice of items there is, by the name the paper gives it."""

__all__ = [
    "CHOICES",
    "LONGEST",
    "ChainSettings",
    "Choice",
    "FixedInterval",
    "Limited",
    "MarkovModel",
    "PredictedChange",
    "PullQuery",
    "SafetyFactor",
    "Scheduler",
    "data_incoherency",
    "fewest",
    "largest",
    "largest_for_many",
    "positive_negative",
    "split_between",
]
