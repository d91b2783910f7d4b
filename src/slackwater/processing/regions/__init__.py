"""Which regions a row lies in: an index over the regions of many queries."""

from slackwater.processing.regions.index import RegionIndex
from slackwater.processing.regions.part import inside
from slackwater.processing.regions.sheet import Sheet

__all__ = ["RegionIndex", "Sheet", "inside"]
