"""Regions as plain lists, for snapshots, messages and files.

Sets are written in order: equal regions are equal bytes.

>>> from slackwater.core.extent import Interval
>>> from slackwater.core.region import Box, Region, Side
>>> plain_region(Region((Box.of(Side("price", Interval(6, 10, True, True))),)))
[[['price', 'interval', 6, 10, True, True]]]
"""

from typing import Any

from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.region import Box, Region, Side


def plain_region(region: Region) -> list[Any]:
    """A region as lists."""
    return [[[side.column, *plain_extent(side.extent)] for side in box.sides] for box in region]


def region_of(plain: list[Any]) -> Region:
    """The region that such lists were made of."""
    return Region(tuple(Box(tuple(Side(name, extent_of(rest)) for name, *rest in box)) for box in plain))


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
        case ["interval", low, high, low_open, high_open]:
            return Interval(low, high, low_open, high_open)
        case ["categories", values, complement]:
            return Categories(frozenset(values), complement)
        case ["missing"]:
            return Missing()
    raise ValueError(f"{plain[0]} is no kind of extent")
