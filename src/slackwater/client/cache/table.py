"""Cached table: the rows of the pushed regions, and the label that says which regions those are.

Design
    The labels are a standing query of the client's own (`kinds.cache`) whose region changes under epochs. So
    everything that holds of a subscription holds of them: one position, one lease, frames applied whole.

    `label` is what the node pushes, `region` what the client relies on: the label without what it has given up for want
    of room. A row that is pushed and lies in neither is let go.

Invariant
    As of the position at which it is shown, `rows` are the rows of the table that lie in `region`, all and no others.
"""

from collections.abc import Iterable

from slackwater.client.live.replica import Held
from slackwater.core.box_index import Finder
from slackwater.core.errors import AlgebraError, ProtocolError
from slackwater.core.labels import pushed_region
from slackwater.core.region import NOTHING, Box, Region
from slackwater.core.schema import shape
from slackwater.dissemination.messages import Delete, Subscribed, Upsert, WireRow
from slackwater.kinds.cache.query import CacheText

_MOST_KNOWN = 1_024


class CachedTable(Held):
    """A client's copy of some regions of a table."""

    def __init__(self, ref: int, sql: str, text: CacheText) -> None:
        super().__init__(ref, sql)
        self.text = text
        self.label = NOTHING
        self.given_up = NOTHING
        self.region = NOTHING
        self.since: int | None = None
        """The position from which the labels hold."""
        self.doubted = False
        """Whether the rows contradict the node's description: all of them are to be sent again."""
        self.stale: set[WireRow] | None = None
        """Keys whose rows have changed since the last read; None: all of them."""
        self.version = 0
        """Another number whenever any row may be another one."""
        self.hits: dict[Box, int] = {}
        """How often each pushed box was of use under these labels."""
        self._known: dict[Region, tuple[bool, tuple[Box, ...]]] = {}
        self._finder = Finder(NOTHING)
        """Of the boxes of the region."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows that are held."""
        return () if self.description is None else self.description.columns

    @property
    def shape(self) -> str | None:
        """Fingerprint of the names and types of the columns."""
        described = self.description
        return None if described is None else shape(described.columns, described.types, described.key)

    def fits(self, fact: Subscribed) -> bool:
        """Whether a delta from the node suffices to bring the rows up to date."""
        return self.query == fact.query and self.rows is not None and self.epoch in (fact.was, fact.epoch)

    def describe(self, fact: Subscribed) -> bool:
        """It is under these labels from now on; rows that are not pushed any more are let go."""
        try:
            label = pushed_region(fact.region or [])
            given_up = self.given_up.intersect(label)
        except AlgebraError as error:
            raise ProtocolError(f"labels that cannot be used came: {error}") from error
        if self.description is not None and (fact.columns, fact.types) != (self.columns, self.description.types):
            # Rows with other columns are sent anew.
            self._let_go(list(self.rows or ()))
        news = super().describe(fact)
        self.version += 1
        if self.rows is None:
            self.rows = {}
        self.since = fact.since
        if news or self.doubted:
            self.label, self.given_up, self.doubted = label, given_up, False
            self.hits = dict.fromkeys(self.label, 0)
            self._rely()
        return news

    def apply_row(self, fact: Upsert | Delete) -> None:
        """A row was pushed, or has left."""
        if isinstance(fact, Upsert) and not (self.given_up.empty or self._holds(fact.row)):
            fact = Delete(fact.query, fact.epoch, fact.key)
        super().apply_row(fact)
        self._touch(fact.key)

    def apply_all(self, rows: Iterable[tuple[WireRow, WireRow]]) -> None:
        """These are the rows of the label, and there are no others."""
        self.given_up, self.region, self._known = NOTHING, self.label, {}
        self._finder = Finder(self.region)
        super().apply_all(rows)
        self.stale = None
        self.version += 1

    def forget(self) -> None:
        """Rely on nothing that is held, and want all of it again."""
        self.doubted, self.label, self.given_up = True, NOTHING, NOTHING
        self._rely()

    def drop(self) -> None:
        """Begin anew: the rows are of another history."""
        super().drop()
        self.forget()

    def shrink(self, limit: int) -> bool:
        """Give up the regions that are least use for their rows, until the rest has room; whether any had to be."""
        rows = self.rows or {}
        if len(rows) <= limit:
            return False
        sizes = dict.fromkeys(self.region, 0)
        for row in rows.values():
            box = self._box(row)
            if box is not None:
                sizes[box] += 1
        room, kept = limit, []
        for box in sorted(sizes, key=lambda box: -(self._worth(box) + 1) / (sizes[box] + 1)):
            if sizes[box] <= room:
                room -= sizes[box]
                kept.append(box)
        try:
            self.given_up = self.label.subtract(Region(tuple(kept)))
        except AlgebraError:
            self.given_up = self.label
        self._rely()
        return True

    def covers(self, region: Region) -> bool:
        """Whether all rows of a region are here."""
        return self._looked_up(region)[0]

    def used(self, region: Region) -> None:
        """A question was answered by the boxes that meet this region."""
        for box in self._looked_up(region)[1]:
            self.hits[box] += 1

    def _looked_up(self, region: Region) -> tuple[bool, tuple[Box, ...]]:
        """Whether a region is covered, and which boxes of the label it meets: the same regions come again and again."""
        found = self._known.get(region)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            met = tuple(box for box in self.label if any(box.meets(other) for other in region))
            found = self._known[region] = (self.region.covers(region), met)
        return found

    def _worth(self, box: Box) -> int:
        return max((times for other, times in self.hits.items() if other.meets(box)), default=0)

    def _rely(self) -> None:
        """Rely on the label without what was given up, and let the rows go that lie elsewhere."""
        self._known = {}
        try:
            self.region = self.label.subtract(self.given_up)
        except AlgebraError:
            self.given_up, self.region = self.label, NOTHING
        self._finder = Finder(self.region)
        self._let_go([key for key, row in (self.rows or {}).items() if not self._holds(row)])

    def _let_go(self, keys: list[WireRow]) -> None:
        for key in keys:
            super().apply_row(Delete(0, 0, key))
            self._touch(key)

    def _holds(self, row: WireRow) -> bool:
        return self._box(row) is not None

    def _box(self, row: WireRow) -> Box | None:
        """The box of the region in which a row lies."""
        return self._finder.find(dict(zip(self.columns, row, strict=True)).get)

    def _touch(self, key: WireRow) -> None:
        self.version += 1
        if self.stale is not None:
            self.stale.add(key)


def held(ref: int, sql: str) -> Held:
    """Replica of a subscription, or of a cache."""
    text = CacheText.read(sql)
    return Held(ref, sql) if text is None else CachedTable(ref, sql, text)
