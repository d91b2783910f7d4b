"""Join family: the joins of one shape in one matcher, with the possible partner rows of both tables.

Design
    A row's id is the slot of its key. Rows with a null in a column that is compared or has a range are left out: they
    are in no pair. Keys of an equality are numbered as they are met, unless they are doubles, so that every type
    compares exactly; numbers of keys stay inside the matcher.

    Queries wait until they are needed and come in together. Rows come in with the first batch after that, as they
    were *before* it: so a family that was restored, or has just been founded, needs nothing but the latest state.

    A family that is spread over shards (`shard`) has, in each of them, all queries and the rows of the shard.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.core.schema import TableSchema
from slackwater.core.types import Position
from slackwater.processing.base import Changes, Flags, Integers, Latest
from slackwater.processing.joined.lower import FamilyShape, JoinRanges
from slackwater.processing.joined.partners import KeyNumbers, partners
from slackwater.processing.joined.shard import LineCuts, OwnRows
from slackwater.processing.matching import (
    BandHotspot,
    HotspotTracker,
    JoinRows,
    Joins,
    JoinSide,
    Labour,
    MatchRoute,
    SelectRouter,
)
from slackwater.processing.regions import Sheet

MOST_MOMENTS = 256
"""So many moments of a family are remembered."""
_SPARE_KEYS = 4096
"""So many keys may be met, and as many again as there were, before it is seen which are still there."""
_BITS = 32
"""A pair is one number: the slot of the left key, then that of the right one."""


@dataclass(frozen=True, slots=True)
class Moment:
    """How a family's queries lay together at a position: in so many stabbing groups, so many of them hot."""

    position: Position
    queries: int
    groups: int
    hot_groups: int
    hot_share: float


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Results: the query, and the pair of slots as one number."""

    queries: Integers
    pairs: Integers


def slots_of(pairs: Integers) -> tuple[Integers, Integers]:
    """The left and right slots of pairs."""
    return pairs >> _BITS, pairs & ((1 << _BITS) - 1)


class Family:
    """See the module."""

    def __init__(
        self, shape: FamilyShape, left: TableSchema, right: TableSchema, own: tuple[int, LineCuts] | None = None
    ) -> None:
        self.shape = shape
        self._keys = KeyNumbers.of(shape, left, right)
        self._own = None if own is None else OwnRows(*own, self._keys)
        self.matcher: BandHotspot | SelectRouter = (
            BandHotspot(shape.matched) if shape.band else SelectRouter(shape.matched)
        )
        self._loaded, self._numbered = False, 0
        self._numbers: set[int] = set()
        self._waiting: dict[int, JoinRanges] = {}
        self._halted: set[int] = set()
        """Queries that are not matched."""
        self.crowded: set[int] = set()
        """Queries whose results with the last changes were cut short."""
        self.steps = 0
        """Steps that the last changes took (`matching.limited`)."""
        self.asked = 0
        """Rows that were matched since the family was founded, as they were and as they are."""
        self.met = 0
        """The same with those that are other shards'."""
        self.moments: deque[Moment] = deque(maxlen=MOST_MOMENTS)

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, number: int, ranges: JoinRanges) -> None:
        """Keep a join from now on."""
        self._numbers.add(number)
        self._waiting[number] = ranges

    def remove(self, number: int) -> None:
        """Forget a join."""
        self._numbers.remove(number)
        if number in self._halted:
            self._halted.remove(number)
        elif self._waiting.pop(number, None) is None:
            self.matcher.remove(np.array([number], np.int64))

    def wake(self, number: int, ranges: JoinRanges) -> None:
        """Match a join again that was halted."""
        self._halted.remove(number)
        self._waiting[number] = ranges

    def apply(
        self,
        changes: Mapping[JoinSide, Changes],
        tables: Mapping[str, Latest],
        position: Position,
        most: int | None = None,
        labour: Labour | None = None,
    ) -> tuple[Pairs, Pairs]:
        """Take changes of one or both tables in: the results with changed rows as they were, and as they are.

        Where rows of one side have more than `most` results, those of some queries are left out, see `crowded`. Queries
        that take more steps than `labour` has are named there: they are halted, that is, not matched until they are
        woken, and what was found of them is not all.
        """
        labour = labour or Labour(None)
        self.crowded.clear()
        self.settle()
        if len(self._keys) > 2 * self._numbered + _SPARE_KEYS:
            # Most keys may be gone for good: number those that are there, and no others.
            self._keys.forget()
            self.matcher.forget_rows()
            self._loaded = False
        if not self._loaded:
            self._load(changes, tables)
            self._numbered = len(self._keys)
        old = {side: self._rows(side, one.before, one.slots, one.had) for side, one in changes.items()}
        new = {side: self._rows(side, one.after, one.slots, one.has) for side, one in changes.items()}
        were = self._results(old, most, labour)
        for side, rows in old.items():
            self.matcher.delete(side, rows.ids)
        for side, rows in new.items():
            self.matcher.insert(side, rows)
        are = self._results(new, most, labour)
        self.steps = labour.steps
        self._halted.update(labour.left_out)
        self.crowded -= self._halted
        self._note(position)
        return were, are

    def settle(self) -> None:
        """Let the queries that wait come in."""
        if not self._waiting:
            return
        numbers, waiting = np.array(list(self._waiting), np.int64), list(self._waiting.values())
        band = np.array([one.band for one in waiting])
        ends = {side: np.array([one.of(side) for one in waiting]).reshape(len(waiting), -1, 2) for side in JoinSide}
        left, right = ends[JoinSide.LEFT], ends[JoinSide.RIGHT]
        self.matcher.add(
            Joins(
                numbers,
                *(np.ascontiguousarray(part) for part in (band[:, 0], band[:, 1])),
                *(np.ascontiguousarray(part) for part in (left[..., 0], left[..., 1], right[..., 0], right[..., 1])),
            )
        )
        self._waiting.clear()

    def trackers(self) -> tuple[HotspotTracker, ...]:
        """Stabbing groups: of the bands, or of the ranges of one side for rows of the other."""
        return (self.matcher.tracker,) if isinstance(self.matcher, BandHotspot) else self.matcher.trackers

    @property
    def routes(self) -> dict[str, float]:
        """The share of the rows that went each way; rows of band joins all go the same."""
        if isinstance(self.matcher, SelectRouter):
            return {route.value: share for route, share in self.matcher.shares.items()}
        return {MatchRoute.HOTSPOT.value: 1.0 if self.asked else 0.0}

    def hottest(self, most: int) -> list[tuple[float, int]]:
        """The points of the largest hot groups, and how many ranges hold each."""
        self.settle()
        tables = [tracker.hot.table for tracker in self.trackers()]
        found = [pair for one in tables for pair in zip(one.points.tolist(), one.sizes.tolist(), strict=True)]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:most]

    def moment(self, position: Position) -> Moment:
        """How the queries lie together now."""
        self.settle()
        trackers = self.trackers()
        hot = sum(len(one.hot) for one in trackers)
        groups = hot + sum(len(one.scattered.groups) for one in trackers)
        share = sum(one.hot_share for one in trackers) / len(trackers)
        return Moment(position, len(self), groups, hot, share)

    def _note(self, position: Position) -> None:
        now = self.moment(position)
        last = self.moments[-1] if self.moments else None
        if last is None or (now.queries, now.groups, now.hot_groups) != (last.queries, last.groups, last.hot_groups):
            self.moments.append(now)

    def _load(self, changes: Mapping[JoinSide, Changes], tables: Mapping[str, Latest]) -> None:
        """Have the rows as they were before these changes."""
        met = self.met
        for side in JoinSide:
            latest = tables[self.shape.table(side)]
            slots, rows = latest.slots, latest.rows
            change = changes.get(side)
            if change is not None:
                same: Flags = ~np.isin(slots, change.slots)
                slots, rows = slots[same], rows.filter(pa.array(same))
                self.matcher.insert(side, self._rows(side, change.before, change.slots, change.had))
            self.matcher.insert(side, self._rows(side, rows, slots, np.ones(len(slots), np.bool_)))
        self._loaded = True
        self.met = met

    def _results(self, asked: Mapping[JoinSide, JoinRows], most: int | None, labour: Labour) -> Pairs:
        queries, pairs = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for side, rows in asked.items():
            self.asked += len(rows)
            # Of ranges near the ends of DOUBLE a route's estimated cost may be no number; the results are the same.
            with np.errstate(all="ignore"):
                found, crowded = self.matcher.most_results(side, rows, most, labour)
            self.crowded.update(crowded.tolist())
            own = rows.ids[found.rows]
            left, right = (own, found.partners) if side is JoinSide.LEFT else (found.partners, own)
            queries.append(found.queries)
            pairs.append(left << _BITS | right)
        return Pairs(np.concatenate(queries), np.concatenate(pairs))

    def _rows(self, side: JoinSide, rows: pa.RecordBatch, slots: Integers, present: Flags) -> JoinRows:
        """Those of the rows that can be partners, as far as they are had here."""
        join, attributes, there = partners(self.shape, side, Sheet(rows, present), self._keys)
        found = JoinRows(slots[there], join[there], attributes[there])
        self.met += len(found)
        return found if self._own is None else self._own(side, found)
