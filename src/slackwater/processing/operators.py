"""OPERATORS: the list of operators of a host, in order of preference."""

from collections.abc import Callable

from slackwater.processing.base import Operator, TableOperator
from slackwater.processing.bounded import BoundedAggregates
from slackwater.processing.joined import StandingJoins
from slackwater.processing.selection import Selections

OPERATORS: list[Callable[[], Operator | TableOperator]] = [BoundedAggregates, Selections, StandingJoins]
"""Their factories; the first operator that accepts a query keeps it."""


def operators() -> list[Operator | TableOperator]:
    """A new one of each."""
    return [make() for make in OPERATORS]
