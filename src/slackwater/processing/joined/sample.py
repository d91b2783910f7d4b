"""Load sample: the distribution of rows and joins along a partitioned line, for choosing its cuts.

A survey looks at samples, so it costs the same however many rows and joins there are: rows in equal steps, each moved
by a share of a step so that no pattern in the rows meets the steps; joins in equal steps.
"""

from collections.abc import Iterable, Mapping
from itertools import islice

import msgspec
import numpy as np

from slackwater.processing.base import Floats, Integers, Latest
from slackwater.processing.joined.hash_split import scattered
from slackwater.processing.joined.lower import Range
from slackwater.processing.joined.partners import KeyNumbers, partners
from slackwater.processing.joined.shard import ComparedColumns, LineCuts
from slackwater.processing.matching.base import JoinSide
from slackwater.processing.matching.shard import Cuts, cuts_of
from slackwater.processing.regions import Sheet

ROWS, JOINS = 16_384, 4_096
"""So many are looked at."""
SHARES = (1.0, 0.99, 0.9, 0.5)
"""Windows are tried that hold such shares of the joins."""
ROOM = 0.25
"""A window that holds all joins is so much wider than they are, for those that are still to come."""


class WindowShare(msgspec.Struct, frozen=True, array_like=True):
    """A window, what share of the joins it holds, and to how many shards a right row goes under it."""

    least: float
    most: float
    share: float
    reach: float


class LineSample(msgspec.Struct, frozen=True, array_like=True):
    """A line: how many rows it has, where it would be cut now, under which windows; and how its present cuts do.

    `fullest` is the share of left rows of the shard that owns most of them, as a multiple of what each should own;
    `evenest` is the same as it would be with the new cuts: where few values are most of the rows no cut is even.
    """

    line: ComparedColumns
    rows: int
    bounds: tuple[float, ...]
    windows: tuple[WindowShare, ...]
    fullest: float = 0.0
    present: WindowShare | None = None
    evenest: float = 0.0


def survey(
    line: ComparedColumns, bands: Floats, tables: Mapping[str, Latest], shards: int, present: LineCuts | None
) -> LineSample:
    """Look at the two tables of a line, and at the joins that there are on it."""
    left, right = (tables[table] for table in (line.left, line.right))
    keys = KeyNumbers.of(line.shape, left.schema, right.schema)
    ids, ours = _sampled(line, JoinSide.LEFT, left, keys)
    _, theirs = _sampled(line, JoinSide.RIGHT, right, keys)
    cuts = cuts_of(ours, shards)
    windows = tuple(_window(line, cuts, theirs, bands, span) for span in _spans(line, bands))
    made = LineSample(line, len(left.slots), tuple(cuts.bounds.tolist()), windows)
    if present is None or not len(ours):
        return made
    now = Cuts(np.array(present.bounds))
    fullest, evenest = (float(np.bincount(one.owners(ours, ids)).max()) * shards / len(ours) for one in (now, cuts))
    window = _window(line, now, theirs, bands, (present.least, present.most))
    return msgspec.structs.replace(made, fullest=fullest, present=window, evenest=evenest)


def some_of(numbers: Iterable[int], count: int) -> list[int]:
    """So many of the numbers at most, in equal steps; `count` is how many there are."""
    return list(islice(numbers, 0, None, max(1, -(-count // JOINS))))


def _spans(line: ComparedColumns, bands: Floats) -> list[Range]:
    """Windows to try, the one that holds most first."""
    if not line.band:
        return [(0.0, 0.0)]
    bounded = bands[np.isfinite(bands).all(axis=1)]
    if not len(bounded):
        return []
    low, high = float(bounded[:, 0].min()), float(bounded[:, 1].max())
    room = (high - low) * ROOM / 2
    spans = [(low - room, high + room)]
    # Around the middle of most of them.
    middle = float(np.median(bounded.mean(axis=1)))
    reaches = np.sort(np.abs(bounded - middle).max(axis=1))
    for share in SHARES[1:]:
        reach = float(reaches[int(share * (len(reaches) - 1))])
        spans.append((middle - reach, middle + reach))
    return [span for span in spans if np.isfinite(span).all()]


def _window(line: ComparedColumns, cuts: Cuts, theirs: Floats, bands: Floats, span: Range) -> WindowShare:
    least, most = span
    first, last = cuts.reached(theirs, least, most) if line.band else cuts.readers(theirs, theirs)
    held = (least <= bands[:, 0]) & (bands[:, 1] <= most)
    reach = float((last - first + 1).mean()) if len(theirs) else 1.0
    return WindowShare(least, most, float(held.mean()) if len(bands) else 0.0, reach)


def _sampled(line: ComparedColumns, side: JoinSide, latest: Latest, keys: KeyNumbers) -> tuple[Integers, Floats]:
    """Slots of some rows that can be partners, and where they lie on the line."""
    slots = latest.slots
    if len(slots) > ROWS:
        steps = np.arange(ROWS)
        slots = slots[((steps + scattered(steps.astype(np.uint64))) * (len(slots) / ROWS)).astype(np.int64)]
    present, rows = latest.take(slots)
    join, _, there = partners(line.shape, side, Sheet(rows, present), keys)
    numbers = join[there]
    return slots[there], numbers if line.band else keys.places(numbers)
