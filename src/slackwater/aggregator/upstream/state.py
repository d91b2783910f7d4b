"""Upstream state, without I/O: received items, their positions in the log, and doubt.

Design
    The items of an upstream are subscriptions of one client (`client.live.state`), whose frames are right as of one
    position. Their notifications are gathered here and written when all of them are *settled*, that is, live in one
    session: a part of a state would be right at no position. One write is under way at a time; what comes meanwhile is
    the next one.

    There is *doubt* while any item is not certain, or is kept less closely than was asked for, as a plan of the
    upstream may have it; and after that until a write that was begun when all was well again has been applied. A write
    that takes too long is a doubt as well: what is served falls behind.

    Positions of the upstream are those of one history of its log. They go back when it is restored from a copy; the
    sequence numbers of what is written here do not. `History` says how the one follows from the other; it is made
    durable before anything is written under it, so that the next life knows the place that was reached.

    Nothing here knows a clock or a socket; `now` is the moment on any clock that does not go back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from slackwater.aggregator.base import MOST_ITEMS, Item
from slackwater.client.live.events import AnswerChanged, Certainty, Described, SubscriptionEnded
from slackwater.client.live.state import ClientState
from slackwater.core.lineage import FORMER, Place
from slackwater.core.types import Key, Position

ROOM = 1 << 24
"""Sequence numbers for each position of an upstream: more than one write at a position needs."""
assert MOST_ITEMS < ROOM

_NOBODY = 0
"""A reference that no subscription has."""

RowKey = tuple[str, Key]
"""A table and a key of it."""


@dataclass(frozen=True, slots=True)
class WrittenRow:
    """A row as it is to be from now on; without a value in any column it is no more."""

    table: str
    key: Key
    values: Mapping[str, float | None]

    @property
    def there(self) -> bool:
        """Whether there is such a row."""
        return any(value is not None for value in self.values.values())


@dataclass(frozen=True, slots=True)
class History:
    """The incarnation of the upstream's log; sequence numbers begin at (position + `shift`) × ROOM under it."""

    incarnation: int = FORMER
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Write:
    """Rows that are right as of `position` of the upstream. `first` is the sequence number of the first of them."""

    position: int
    first: int
    time: int
    rows: tuple[WrittenRow, ...]
    trust: int


class UpstreamState:
    """See the module. `last` is the event time and the sequence number of the last row in the log that it wrote.

    `stale` are rows in the log that are held no longer; the first write takes them away.
    """

    def __init__(
        self,
        name: str,
        items: Sequence[Item],
        last: tuple[int, int] = (0, -1),
        stale: Iterable[RowKey] = (),
        patience: int = 5_000_000,
        history: History | None = None,
    ) -> None:
        self.name = name
        self.history = history or History()
        self.items = tuple(items)
        self.position: int | None = None
        """The last position of the upstream that was heard of."""
        self.refused: dict[int, str] = {}
        """Items that the upstream will not have, and why."""
        self._time, self._sequence = last
        self._patience = patience
        self._refs: dict[int, Item] = {}
        self._doubts: dict[int, str] = {}
        self._loose: dict[int, str] = {}
        """Items that the upstream keeps less closely than was asked for."""
        self._latest: dict[RowKey, dict[str, float | None]] = {}
        for item in items:
            self._latest.setdefault((item.table, item.key), {})[item.column] = None
        self._changed: dict[RowKey, None] = dict.fromkeys(self._latest)
        self._stale = dict.fromkeys(stale)
        self._session = ""
        self._settled = False
        self._owing = True
        """Whether a write has to be applied before there is no doubt."""
        self._trust = 0
        """Rises with every doubt: a write that was begun before does not end it."""
        self._under_way: tuple[Write, int] | None = None
        self._late = False
        self._unwritten_since: int | None = None
        """When the first of the writes was begun that have not succeeded yet."""
        self._right: int | None = None

    @property
    def after(self) -> Place:
        """The place of the upstream that is known: nothing from before it may be taken while its log holds it."""
        position = max(self._sequence // ROOM - self.history.shift, self.position or 0, 0)
        return Place(self.history.incarnation, Position(position))

    @property
    def stands(self) -> int | None:
        """A position of the upstream as of which what is in the log, and applied, is right."""
        return self.position if self._settled and not (self._changed or self._under_way) else self._right

    @property
    def doubt(self) -> str | None:
        """Reason why the items of this upstream are in doubt; None where they are not."""
        for why in chain(self._doubts.values(), self._loose.values()):
            return f"upstream {self.name}: {why}"
        if self._late:
            return f"upstream {self.name}: what it says cannot be written down fast enough"
        if self._owing:
            return f"upstream {self.name}: what it says is being taken in"
        return None

    # Events.

    def wanted(self, ref: int, item: Item) -> None:
        """The client subscribes to an item under this reference."""
        self._refs[ref] = item
        self._doubts.pop(_NOBODY, None)
        self._doubt(ref, "it has not answered yet")
        self._settled = False

    def unwanted(self, ref: int) -> Item:
        """Note that the upstream refused an item; it is to be requested again."""
        self._doubts.pop(ref, None)
        self._loose.pop(ref, None)
        self.refused.pop(ref, None)
        return self._refs.pop(ref)

    def lost(self, why: str) -> list[Item]:
        """Note that no node accepts the client any more: all items are to be requested again by another one."""
        items = [self.unwanted(ref) for ref in list(self._refs)]
        self._settled, self._session = False, ""
        self._doubt(_NOBODY, why)
        return items

    def heard(
        self, client: ClientState, events: Sequence[AnswerChanged | Described | SubscriptionEnded | Certainty]
    ) -> None:
        """Take an event's notifications about the items; `client` is their state after it."""
        if client.incarnation != self.history.incarnation:
            self._enter(client.incarnation, client.kept)
        before = self.stands
        for one in events:
            if one.ref not in self._refs:
                continue
            match one:
                case AnswerChanged(ref, _, value):
                    item = self._refs[ref]
                    self._latest[item.table, item.key][item.column] = value
                    self._changed[item.table, item.key] = None
                case Described(ref, within=within, fidelity=fidelity):
                    self._described(ref, within, fidelity)
                case Certainty(ref, True):
                    self._doubts.pop(ref, None)
                case Certainty(ref, False, why):
                    self._doubt(ref, why)
                case SubscriptionEnded(ref, why):
                    self.refused[ref] = why
                    self._doubt(ref, why)
        if client.session != self._session or self._doubts:
            self._session, self._settled = client.session, False
        if not self._settled and client.session and client.as_of is not None:
            complete = len(self._refs) == len(self.items)
            self._settled = complete and all(client.held[ref].live for ref in self._refs)
        if self._settled:
            self.position = client.as_of
        if self._changed or self._under_way or not self._settled:
            self._right = before

    def _enter(self, incarnation: int, kept: int) -> None:
        """The upstream's log is of another incarnation, and `kept` is how far it goes back on what was heard of it."""
        reached = self.after.position
        shift = self.history.shift + (reached - kept + 1 if kept < reached else 0)
        self.history = History(incarnation, shift)
        if kept < reached:
            self._settled, self.position, self._right = False, None, None

    def _described(self, ref: int, within: float, fidelity: float) -> None:
        if within <= self._refs[ref].within and fidelity == 1.0:
            self._loose.pop(ref, None)
            return
        if not self._loose:
            self._distrust()
        self._loose[ref] = f"it keeps an item within {within:g} for {fidelity:.0%} of the time, not as closely as asked"

    def next_write(self, now: int, time: int) -> Write | None:
        """The next write, if any; `time` is the wall clock's, for the event time of the rows."""
        if self._under_way is not None or not self._settled or self._in_doubt or self.position is None:
            return None
        if not (self._changed or self._stale):
            self._owing = False
            return None
        rows = [WrittenRow(table, key, dict(self._latest[table, key])) for table, key in self._changed]
        rows += [WrittenRow(table, key, {}) for table, key in self._stale]
        first = max(self._sequence + 1, (self.position + self.history.shift) * ROOM)
        write = Write(self.position, first, max(self._time + 1, time), tuple(rows), self._trust)
        self._under_way = (write, now)
        self._unwritten_since = now if self._unwritten_since is None else self._unwritten_since
        self._changed = {}
        self._stale = {}
        # Also where it fails: what was handed over may have been taken.
        self._sequence, self._time = first + len(rows) - 1, write.time
        return write

    def wrote(self, write: Write) -> None:
        """A write is durable and applied."""
        assert self._under_way is not None
        self._under_way, self._late, self._unwritten_since = None, False, None
        self._right = write.position
        if self.ends_doubt(write):
            self._owing = False

    def ends_doubt(self, write: Write) -> bool:
        """Whether all was certain when a write was begun, and has been since."""
        return write.trust == self._trust and not self._in_doubt

    def failed(self, write: Write) -> None:
        """It could not be written: it is to be written still."""
        assert self._under_way is not None
        self._under_way = None
        for row in write.rows:
            if row.values:
                self._changed[row.table, row.key] = None
            else:
                self._stale[row.table, row.key] = None

    def tick(self, now: int) -> None:
        """Time has passed."""
        since = self._unwritten_since
        if since is not None and now - since > self._patience and not self._late:
            self._late = True
            self._distrust()

    @property
    def _in_doubt(self) -> bool:
        return bool(self._doubts or self._loose)

    def _doubt(self, ref: int, why: str) -> None:
        if not self._doubts:
            self._distrust()
        self._doubts[ref] = why

    def _distrust(self) -> None:
        self._trust += 1
        self._owing = True
