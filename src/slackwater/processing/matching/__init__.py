"""Standing joins by the million: which of them does an arriving row have new results for. Needs the `node` extra."""

from slackwater.processing.matching.base import (
    BAND,
    SELECT,
    Affected,
    JoinRows,
    Joins,
    JoinSide,
    Matcher,
    Results,
    Shape,
    band_joins,
    change,
    select_joins,
)
from slackwater.processing.matching.naive import Naive

__all__ = [
    "BAND",
    "SELECT",
    "Affected",
    "JoinRows",
    "JoinSide",
    "Joins",
    "Matcher",
    "Naive",
    "Results",
    "Shape",
    "band_joins",
    "change",
    "select_joins",
]
