"""Dynamic region index: static parts of geometrically falling size, the youngest merged first (logarithmic method).

Design
    A new region waits until the index is asked. Then all that wait become a part, together with every part that is
    not at least twice their size. So there are at most log₂ n parts to ask, and a region is built into a new part at
    most log₂ n times (Bentley and Saxe's logarithmic method). A region that is forgotten is skipped where it is, and a
    part of which half is forgotten is built anew.

    Which parts there are shows in no answer: pairs are the same whatever came when.

References
    J. L. Bentley and J. B. Saxe, Decomposable searching problems I: static-to-dynamic transformation, Journal of
    Algorithms 1(4), 1980.
"""

import numpy as np

from slackwater.core.region import Region
from slackwater.core.schema import TableSchema
from slackwater.processing.base import Integers
from slackwater.processing.regions.part import RegionPart
from slackwater.processing.regions.sheet import Sheet


class RegionIndex:
    """The regions of queries of one table, each known by its place."""

    def __init__(self) -> None:
        self._waiting: dict[int, Region] = {}
        self._parts: list[RegionPart] = []

    def __len__(self) -> int:
        return len(self._waiting) + sum(len(part.regions) for part in self._parts)

    def add(self, place: int, region: Region) -> None:
        """Insert a region under this place, which must be free."""
        self._waiting[place] = region

    def remove(self, place: int) -> None:
        """Forget the region of this place."""
        if self._waiting.pop(place, None) is not None:
            return
        part = next(part for part in self._parts if place in part.regions)
        part.forget(place)
        if part.dead > len(part.regions):
            self._parts.remove(part)
            self._waiting.update(part.regions)

    def match(self, sheet: Sheet, table: TableSchema) -> tuple[Integers, Integers]:
        """The pairs of row and place of which the row lies in the region, in no particular order."""
        if self._waiting:
            self._settle(table)
        pairs = [part.match(sheet) for part in self._parts]
        if len(pairs) == 1:
            return pairs[0]
        nothing = np.zeros(0, np.int64)
        return np.concatenate([nothing, *(p[0] for p in pairs)]), np.concatenate([nothing, *(p[1] for p in pairs)])

    def _settle(self, table: TableSchema) -> None:
        regions = self._waiting
        while self._parts and len(self._parts[-1].regions) < 2 * len(regions):
            regions.update(self._parts.pop().regions)
        self._parts.append(RegionPart(sorted(regions.items(), key=lambda one: one[0]), table))
        self._waiting = {}
