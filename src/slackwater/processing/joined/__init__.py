"""Standing joins as subscriptions: very many of them, each with its own ranges, grouped by what they have in common."""

from slackwater.processing.joined.family import Family, Moment
from slackwater.processing.joined.lowering import FamilyShape, lowered
from slackwater.processing.joined.operator import StandingJoins

__all__ = ["Family", "FamilyShape", "Moment", "StandingJoins", "lowered"]
