"""Standing joins: very many join subscriptions, grouped by shape, each with ranges of its own."""

from slackwater.processing.joined.family import Family, Moment
from slackwater.processing.joined.lower import FamilyShape, lowered
from slackwater.processing.joined.operator import STAYS, StandingJoins, joins_of
from slackwater.processing.joined.sample import LineSample, WindowShare
from slackwater.processing.joined.shard import ComparedColumns, LineCuts, ShardPart

__all__ = [
    "STAYS",
    "ComparedColumns",
    "Family",
    "FamilyShape",
    "LineCuts",
    "LineSample",
    "Moment",
    "ShardPart",
    "StandingJoins",
    "WindowShare",
    "joins_of",
    "lowered",
]
