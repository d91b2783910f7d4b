"""Standing joins as subscriptions: very many of them, each with its own ranges, grouped by what they have in common."""

from slackwater.processing.joined.family import Family, Moment
from slackwater.processing.joined.lower import FamilyShape, lowered
from slackwater.processing.joined.operator import STAYS, StandingJoins, joins_of
from slackwater.processing.joined.sample import Surveyed, WindowShare
from slackwater.processing.joined.shard import ComparedColumns, LineCuts, ShardPart

__all__ = [
    "STAYS",
    "ComparedColumns",
    "Family",
    "FamilyShape",
    "LineCuts",
    "Moment",
    "ShardPart",
    "StandingJoins",
    "Surveyed",
    "WindowShare",
    "joins_of",
    "lowered",
]
