"""Interval histogram: the number of ranges that hold a point, estimated from few numbers."""

from dataclasses import dataclass

import numpy as np

from slackwater.processing.base import Floats


@dataclass(frozen=True, slots=True, eq=False)
class StepFunction:
    """`values[k]` from `starts[k]` up to the next start; 0 before the first."""

    starts: Floats
    values: Floats

    def __len__(self) -> int:
        return len(self.starts)

    def __call__(self, at: Floats) -> Floats:
        """The value at each point."""
        if not len(self):
            return np.zeros(len(at))
        place = np.searchsorted(self.starts, at, side="right") - 1
        return np.where(place >= 0, self.values[np.maximum(place, 0)], 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class ProbedRanges:
    """Closed ranges, and the piece of the line in which they will be asked for, each point as likely as the next."""

    low: Floats
    high: Floats
    least: float
    most: float


def equal_width(ranges: ProbedRanges, buckets: int) -> StepFunction:
    """The mean of f over each of so many equal pieces."""
    exact = count_steps(ranges.low, ranges.high)
    edges = np.linspace(ranges.least, ranges.most, buckets + 1)
    starts, widths = cut_pieces(np.concatenate((edges, exact.starts)), ranges)
    bucket = np.clip(np.searchsorted(edges, starts, side="right") - 1, 0, buckets - 1)
    return StepFunction(edges[:-1], np.bincount(bucket, exact(starts) * widths, buckets) / np.diff(edges))


def count_steps(low: Floats, high: Floats) -> StepFunction:
    """How many ranges hold a point, as a step function; right but for the points at which ranges end."""
    places = np.concatenate((low, high))
    starts, inverse = np.unique(places, return_inverse=True)
    change = np.concatenate((np.ones(len(low)), -np.ones(len(high))))
    return StepFunction(starts, np.cumsum(np.bincount(inverse, change, len(starts))))


def cut_pieces(cuts: Floats, ranges: ProbedRanges) -> tuple[Floats, Floats]:
    """The pieces of the line between these cuts: where each begins and how wide it is."""
    inside = cuts[(cuts > ranges.least) & (cuts < ranges.most)]
    starts = np.concatenate(([ranges.least], np.unique(inside)))
    return starts, np.diff(np.append(starts, ranges.most))
