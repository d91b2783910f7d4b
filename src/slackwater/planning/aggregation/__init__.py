"""Query partitioning over aggregators: bounded sums cut for the fewest messages. Needs the `node` extra."""

from slackwater.planning.aggregation.base import CostModel, Dynamics, NetworkPlan, Offer, Part, SumQuery, messages
from slackwater.planning.aggregation.exact import Exact
from slackwater.planning.aggregation.exhaustive import Exhaustive
from slackwater.planning.aggregation.problem import MOST_ITEMS, Planner, Problem
from slackwater.planning.aggregation.published.max_gain import MaxGain
from slackwater.planning.aggregation.published.min_cost import MinCost
from slackwater.planning.aggregation.published.most_saved import MostSaved
from slackwater.planning.aggregation.published.naive import Naive
from slackwater.planning.aggregation.published.optc import OptC
from slackwater.planning.aggregation.published.predecided_bounds import Predecided
from slackwater.planning.aggregation.published.printed_cost import PrintedCost
from slackwater.planning.aggregation.published.random_choice import Drawn
from slackwater.planning.aggregation.scale_free_cost import ScaleFreeCost

__all__ = [
    "MOST_ITEMS",
    "CostModel",
    "Drawn",
    "Dynamics",
    "Exact",
    "Exhaustive",
    "MaxGain",
    "MinCost",
    "MostSaved",
    "Naive",
    "NetworkPlan",
    "Offer",
    "OptC",
    "Part",
    "Planner",
    "Predecided",
    "PrintedCost",
    "Problem",
    "ScaleFreeCost",
    "SumQuery",
    "messages",
]
