"""Region index: the regions of many queries, and those that hold a row."""

from slackwater.processing.regions.index import RegionIndex
from slackwater.processing.regions.part import inside
from slackwater.processing.regions.sheet import Sheet

__all__ = ["RegionIndex", "Sheet", "inside"]
