"""Pull scheduling: bounded aggregates over sources that only answer requests. Needs the `node` extra."""

from slackwater.planning.pulling.base import LONGEST, PullQuery, Scheduler, split_between
from slackwater.planning.pulling.published.data_incoherency import data_incoherency
from slackwater.planning.pulling.published.fixed_interval import FixedInterval
from slackwater.planning.pulling.published.item_choice import Choice, Limited, fewest
from slackwater.planning.pulling.published.largest import largest
from slackwater.planning.pulling.published.largest_for_many import largest_for_many
from slackwater.planning.pulling.published.markov import ChainSettings, MarkovModel
from slackwater.planning.pulling.published.positive_negative import positive_negative
from slackwater.planning.pulling.published.predicted_change import PredictedChange
from slackwater.planning.pulling.published.safety_factor import SafetyFactor
from slackwater.planning.pulling.scheduler_state import SchedulerState
from slackwater.planning.pulling.simulation import (
    Outcome,
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

SCHEDULERS: tuple[type[SchedulerState], ...] = (Uncertainty, PredictedChange, FixedInterval)
"""Every scheduler there is; the contract suite runs over them."""

__all__ = [
    "CHOICES",
    "LONGEST",
    "SCHEDULERS",
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
    "SchedulerState",
    "Uncertainty",
    "data_incoherency",
    "fewest",
    "largest",
    "largest_for_many",
    "positive_negative",
    "run_uncertainty",
    "split_between",
]
