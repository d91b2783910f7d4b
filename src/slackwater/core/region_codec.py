"""Region codec: regions as plain lists, for snapshots, messages and files.

Sets are written in order: equal regions are equal bytes.

>>> from slackwater.core.extent import Interval
>>> from slackwater.core.region import Box, Region, Side
>>> plain_region(Region((Box.of(Side("price", Interval(6, 10, True, True))),)))
[[['price', 'interval', 6, 10, True, True]]]
"""

import math
from typing import Any

from slackwater.core.disjoint import check_disjoint
from slackwater.core.errors import AlgebraError
from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.region import EVERYTHING, Box, Region, Side
from slackwater.core.types import Scalar

_PLAIN_EVERYTHING: list[Any] = [[]]


def plain_region(region: Region) -> list[Any]:
    """A region as lists."""
    return [[[side.column, *plain_extent(side.extent)] for side in box.sides] for box in region]


def region_of(plain: list[Any]) -> Region:
    """Decode a region; a ValueError or TypeError where the lists are none.

    Anybody may have written them, so every value is looked at: what is let in here is put in order and shown later.
    """
    if plain == _PLAIN_EVERYTHING:
        return EVERYTHING
    return Region(tuple(Box(tuple(Side(name, extent_of(rest)) for name, *rest in box)) for box in plain))


def strange_region(plain: list[Any], most_boxes: int, most_weight: int, most_pairs: int, most_work: int) -> Region:
    """Decode a region from an untrusted encoding; an AlgebraError where it is invalid or exceeds a limit.

    Boxes that overlap are no region: counts and transfers by them would include rows twice.
    """
    if len(plain) > most_boxes:
        raise AlgebraError(f"a region of {len(plain)} boxes came, and {most_boxes} are allowed")
    try:
        region = region_of(plain)
    except (ValueError, TypeError, IndexError) as error:
        raise AlgebraError(f"this is no region: {error}") from error
    if region.weight > most_weight:
        raise AlgebraError(f"a region of {region.weight} boxes, sides and values came, and {most_weight} are allowed")
    check_disjoint(region.boxes, most_pairs, most_work)
    return region


def plain_extent(extent: Extent) -> list[Any]:
    """An extent as lists."""
    match extent:
        case Interval(low, high, low_open, high_open):
            return ["interval", low, high, low_open, high_open]
        case Categories(values, complement):
            return ["categories", sorted(values, key=lambda value: (str(type(value)), value)), complement]
        case Missing():
            return ["missing"]


def extent_of(plain: list[Any]) -> Extent:
    """The extent that such lists were made of."""
    match plain:
        case ["interval", low, high, bool(low_open), bool(high_open)]:
            low, high = (None if end is None else _scalar(end) for end in (low, high))
            return Interval(low, high, low_open, high_open)
        case ["categories", list(values), bool(complement)]:
            return Categories(frozenset(_scalar(value) for value in values), complement)
        case ["missing"]:
            return Missing()
    raise ValueError(
        f"an interval, categories or missing was expected, with what belongs to it, not {repr(plain)[:200]}"
    )


def _scalar(value: object) -> Scalar:
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError(f"a boolean, a finite number or a text was expected, not {repr(value)[:200]}")
