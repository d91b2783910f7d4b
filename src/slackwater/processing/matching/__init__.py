"""Join matching: millions of standing joins, and those with new results for an arriving row. Needs the `node` extra.

Band joins: `BandSSI` (or `BandHotspot` where most queries are in few groups and the rest is scattered). Select-joins:
`SelectRouter`, which chooses for each row. `Naive` is their oracle; `Cuts` maps rows to shards.
"""

from slackwater.processing.matching.band_hotspot import BandHotspot
from slackwater.processing.matching.band_ssi import BandSSI
from slackwater.processing.matching.base import (
    BAND,
    SELECT,
    Affected,
    JoinRows,
    Joins,
    JoinSide,
    Matcher,
    MatcherShape,
    Results,
    band_joins,
    change,
    select_joins,
)
from slackwater.processing.matching.costs import MatchRoute
from slackwater.processing.matching.hotspots import HotspotTracker
from slackwater.processing.matching.naive import NaiveMatcher
from slackwater.processing.matching.partition import LazyPartition, RefinedPartition
from slackwater.processing.matching.result_limits import Labour
from slackwater.processing.matching.select_hotspot import SelectHotspot
from slackwater.processing.matching.select_router import SelectRouter
from slackwater.processing.matching.select_ssi import SelectSSI
from slackwater.processing.matching.shard import Cuts, cuts_of

__all__ = [
    "BAND",
    "SELECT",
    "Affected",
    "BandHotspot",
    "BandSSI",
    "Cuts",
    "HotspotTracker",
    "JoinRows",
    "JoinSide",
    "Joins",
    "Labour",
    "LazyPartition",
    "MatchRoute",
    "Matcher",
    "MatcherShape",
    "NaiveMatcher",
    "RefinedPartition",
    "Results",
    "SelectHotspot",
    "SelectRouter",
    "SelectSSI",
    "band_joins",
    "change",
    "cuts_of",
    "select_joins",
]
