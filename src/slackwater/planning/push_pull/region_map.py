"""Region map: a client's pushed and pulled regions as values for programs and as a picture for people.

A picture is SVG text: a strip for one attribute, a rectangle for two; with more, the first two are shown and a box is
drawn where its shadow falls. Numbers have a linear axis, text stands in order at equal distances, categories and null
have bands of their own. What is pushed is blue, what was given up is hatched grey, and each region that was asked
lately has a thin outline, the darker the more often. Everything else is pulled.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.region import NOTHING, Box, Region
from slackwater.core.region_codec import plain_region
from slackwater.core.types import Scalar

_WIDE, _HIGH, _STRIP, _EDGE = 640.0, 400.0, 70.0, 64.0
_BAND = 36.0
_MOST_OUTLINES = 200


@dataclass(frozen=True, slots=True)
class RegionMap:
    """The regions of one table that are pushed to a client, and the usefulness of each."""

    client: str
    table: str
    epoch: int
    position: int
    attributes: tuple[str, ...]
    pushed: Region
    given_up: Region = NOTHING
    rows: int = 0
    """How many rows lie in what is pushed."""
    asked: tuple[tuple[Region, int], ...] = ()
    """Regions that were asked lately, and how often."""

    def plain(self) -> dict[str, Any]:
        """The map as values that JSON knows."""
        return {
            "client": self.client,
            "table": self.table,
            "epoch": self.epoch,
            "position": self.position,
            "attributes": list(self.attributes),
            "pushed": plain_region(self.pushed),
            "given_up": plain_region(self.given_up),
            "rows": self.rows,
            "asked": [[plain_region(region), times] for region, times in self.asked],
        }

    def svg(self) -> str:
        """The map as a picture."""
        names = self.attributes[:2]
        if not names:
            names = tuple(dict.fromkeys(name for region, _ in self.asked for box in region for name in box.columns))[:2]
        outlined = sorted(self.asked, key=lambda one: one[1])[-_MOST_OUTLINES:]
        regions = [self.pushed, self.given_up, *(region for region, _ in outlined)]
        axes = [_Axis.of(name, (box.extent(name) for region in regions for box in region)) for name in names]
        high = _HIGH if len(axes) > 1 else _STRIP
        parts = [f'<rect x="0" y="0" width="{_WIDE:g}" height="{high:g}" fill="#f4f4f2" stroke="#888"/>']
        parts += _drawn(self.pushed, axes, high, 'fill="#3b78c3" fill-opacity="0.75"')
        parts += _drawn(self.given_up, axes, high, 'fill="url(#hatch)"')
        most = max((times for _, times in outlined), default=1)
        for nth, (region, times) in enumerate(outlined):
            shade = 0.25 + 0.75 * times / most
            # Ranges of one strip would hide each other: each has a height of its own.
            inset = 1.5 + (3.0 * (nth % 10) if len(axes) == 1 else 0.0)
            parts += _drawn(region, axes, high, f'fill="none" stroke="#7a3b00" stroke-opacity="{shade:.2f}"', inset)
        if axes:
            parts += axes[0].ticks(lambda at: f'x="{at * _WIDE:.1f}" y="{high + 16:g}" text-anchor="middle"')
            parts.append(
                f'<text x="{_WIDE / 2:g}" y="{high + 34:g}" text-anchor="middle">{escape(axes[0].name)}</text>'
            )
        if len(axes) > 1:
            parts += axes[1].ticks(lambda at: f'x="-6" y="{(1 - at) * high + 4:.1f}" text-anchor="end"')
            parts.append(f'<text x="0" y="-8" text-anchor="middle">{escape(axes[1].name)}</text>')
        title = f"{self.table}, pushed to {self.client}: epoch {self.epoch}, from position {self.position}"
        width, height = _WIDE + 2 * _EDGE, high + 124
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" font-size="12">'
            '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse">'
            '<rect width="6" height="6" fill="#ddd"/><path d="M0 6L6 0" stroke="#888"/></pattern></defs>'
            f'<rect width="{width:g}" height="{height:g}" fill="white"/>'
            f'<text x="{_EDGE:g}" y="22" font-size="14">{escape(title)}</text>'
            f'<g transform="translate({_EDGE:g} 52)">{"".join(parts)}</g>'
            f'<g transform="translate({_EDGE:g} {high + 112:g})">'
            '<rect y="-10" width="12" height="12" fill="#3b78c3" fill-opacity="0.75"/><text x="18">pushed</text>'
            '<rect x="80" y="-10" width="12" height="12" fill="url(#hatch)"/><text x="98">given up</text>'
            '<rect x="170" y="-10" width="12" height="12" fill="#f4f4f2" stroke="#888"/><text x="188">pulled</text>'
            '<rect x="250" y="-10" width="12" height="12" fill="none" stroke="#7a3b00"/><text x="268">asked</text>'
            "</g></svg>"
        )


def _drawn(region: Region, axes: "list[_Axis]", high: float, style: str, inset: float = 0.0) -> list[str]:
    shapes = []
    for box in region:
        across = axes[0].spans(_extent(box, axes[0])) if axes else [(0.0, 1.0)]
        upward = axes[1].spans(_extent(box, axes[1])) if len(axes) > 1 else [(0.0, 1.0)]
        for left, right in across:
            for low, top in upward:
                x, y = left * _WIDE + min(inset, 1.5), (1 - top) * high + inset
                width = max((right - left) * _WIDE - 2 * min(inset, 1.5), 2.0)
                height = max((top - low) * high - 2 * inset, 2.0)
                shapes.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {style}/>')
    return shapes


def _extent(box: Box, axis: "_Axis") -> Extent | None:
    return box.extent(axis.name)


@dataclass(frozen=True, slots=True)
class _Axis:
    """One attribute from 0 to 1: a scale for what has an order, then bands for categories, for others and for null."""

    name: str
    ends: tuple[Scalar, ...]
    bands: tuple[str, ...]

    @classmethod
    def of(cls, name: str, extents: Iterable[Extent | None]) -> "_Axis":
        ends: set[Scalar] = set()
        bands: dict[str, None] = {}
        for extent in extents:
            match extent:
                case Interval(low, high):
                    ends.update(end for end in (low, high) if end is not None)
                case Categories(values):
                    bands.update((_written(value), None) for value in sorted(values, key=str))
                    bands["others"] = None
                case Missing():
                    bands["null"] = None
        last = [band for band in ("others", "null") if band in bands]
        ordered = sorted(ends, key=lambda end: (isinstance(end, str), end))
        return cls(name, tuple(ordered), (*(band for band in bands if band not in last), *last))

    @property
    def _scale(self) -> float:
        """The share of the axis that is a scale."""
        if not self.ends:
            return 1.0 if not self.bands else 0.0
        return max(0.3, 1.0 - len(self.bands) * _BAND / _WIDE)

    def at(self, end: Scalar) -> float:
        """Where a value of the scale stands."""
        if isinstance(end, str):
            share = (self.ends.index(end) + 1) / (len(self.ends) + 1)
        else:
            numbers = [float(one) for one in self.ends if not isinstance(one, str)]
            low, high = min(numbers), max(numbers)
            margin = 0.08 * (high - low) or max(abs(high), 1.0) * 0.5
            share = (float(end) - low + margin) / (high - low + 2 * margin)
        return share * self._scale

    def band(self, name: str) -> tuple[float, float]:
        """Where a band begins and ends."""
        width = (1.0 - self._scale) / len(self.bands)
        begin = self._scale + self.bands.index(name) * width
        return begin, begin + width

    def spans(self, extent: Extent | None) -> list[tuple[float, float]]:
        """The stretches of the axis that an extent covers."""
        match extent:
            case None:
                return [(0.0, 1.0)]
            case Missing():
                return [self.band("null")]
            case Interval(low, high):
                end = self._scale if self.ends else 1.0
                return [(0.0 if low is None else self.at(low), end if high is None else self.at(high))]
            case Categories(values, complement):
                inside = {_written(value) for value in values}
                if not complement:
                    return [self.band(name) for name in self.bands if name in inside]
                return [self.band(name) for name in self.bands if name not in inside and name != "null"]

    def ticks(self, place: Any) -> list[str]:
        """Labels, not too many of them, each placed by its position on the axis."""
        step = max(1, math.ceil(len(self.ends) / 8))
        shown = [(self.at(end), _written(end)) for end in self.ends[::step]]
        shown += [(sum(self.band(band)) / 2, band) for band in self.bands]
        return [f'<text {place(at)} fill="#444">{escape(text[:14])}</text>' for at, text in shown]


def _written(value: Scalar) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
