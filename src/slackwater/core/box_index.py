"""Point-location index: finds the box of a region that contains a row, without a scan of all boxes.

Design
    Boxes stand in the order in which they begin along the column that tells most of them apart. A row is compared with
    those that begin before it, the last first, until none of those that are left reaches so far. Ranges of one column
    that do not overlap are found with one comparison.
"""

from bisect import bisect_right
from itertools import accumulate

from slackwater.core.disjoint import telling_column
from slackwater.core.extent import hull, place_of
from slackwater.core.region import Box, Region, ValueOf


class Finder:
    """Index over the boxes of a region, in order of one column.

    >>> from slackwater.core.extent import Interval
    >>> from slackwater.core.region import Side
    >>> found = Finder(Region(tuple(Box.of(Side("price", Interval(low, low + 5))) for low in (0, 10, 20))))
    >>> str(found.find({"price": 12}.get)), found.find({"price": 7}.get)
    ('price in [10, 15]', None)
    """

    def __init__(self, region: Region) -> None:
        self._column, _ = telling_column(region.boxes)
        ends = [hull(box.extent(self._column)) for box in region]
        order = sorted(range(len(ends)), key=lambda nth: ends[nth][0])
        self._boxes = [region.boxes[nth] for nth in order]
        self._lows = [ends[nth][0] for nth in order]
        self._highs = [ends[nth][1] for nth in order]
        self._reached = list(accumulate(self._highs, max))

    def find(self, value_of: ValueOf) -> Box | None:
        """The box in which a row lies; None where it lies in none."""
        place = place_of(value_of(self._column))
        nth = bisect_right(self._lows, place)
        while nth and self._reached[nth - 1] >= place:
            nth -= 1
            if self._highs[nth] >= place and self._boxes[nth].contains(value_of):
                return self._boxes[nth]
        return None
