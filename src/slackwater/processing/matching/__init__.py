"""Standing joins by the million: which of them does an arriving row have new results for. Needs the `node` extra.

Band joins: `BandSSI` (or `BandHotspot` where most queries are in few groups and the rest is scattered). Select-joins:
`SelectRouter`, which chooses for each row. The others are what these are measured against. `Sharded` spreads any of
them.
"""

from slackwater.processing.matching.band_data_outer import BandDataOuter
from slackwater.processing.matching.band_hotspot import BandHotspot
from slackwater.processing.matching.band_merge import BandMerge
from slackwater.processing.matching.band_query_outer import BandQueryOuter
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
from slackwater.processing.matching.select_first import SelectFirst
from slackwater.processing.matching.select_hotspot import SelectHotspot
from slackwater.processing.matching.select_join_first import SelectJoinFirst, SelectJoinFirstRows
from slackwater.processing.matching.select_router import SelectRouter
from slackwater.processing.matching.select_ssi import SelectSSI
from slackwater.processing.matching.shard import Cuts, Sharded, cuts_of

__all__ = [
    "BAND",
    "SELECT",
    "Affected",
    "BandDataOuter",
    "BandHotspot",
    "BandMerge",
    "BandQueryOuter",
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
    "SelectFirst",
    "SelectHotspot",
    "SelectJoinFirst",
    "SelectJoinFirstRows",
    "SelectRouter",
    "SelectSSI",
    "Sharded",
    "band_joins",
    "change",
    "cuts_of",
    "select_joins",
]
