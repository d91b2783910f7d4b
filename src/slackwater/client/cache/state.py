"""Cache state machine, without I/O: the queries a client answers from its cache, and the ones it sends.

Contract
    1. An answer is of one position, its `as_of`, and equals what a node would have answered there. That position is at
       least everything that had been delivered to this client when the question was asked.
    2. Wholly from the cache (`at_home`) a question is answered only while the lease lasts, and only if the regions that
       are pushed cover it. Otherwise it is asked, or refused while no node is connected.
    3. An asked question is answered by a frame: the frame is applied, with it all that was pushed up to its position,
       and then the reply and the cache are of the same position. A reply that leaves out rows under other labels than
       the client's own of that moment, or rows of another shape, answers nothing; the question is asked again, for all
       rows.
    4. Labels take effect when the frame that fills them is applied. Rows that do not fit the labels a node speaks of
       are not relied on: everything is asked for again.
    5. Questions are repeated until answered, over as many connections and nodes as it takes.
    6. What was answered at home is counted by region and reported with acknowledgements.
"""

from collections import Counter
from dataclasses import dataclass

from slackwater.client.cache.table import CachedTable, held
from slackwater.client.live.events import Answered, Event, Instruction, Questioned, SendMessage, Unanswerable, Withdrawn
from slackwater.client.live.replica import Held
from slackwater.client.live.state import ClientState, Phase
from slackwater.core.errors import AlgebraError, ProtocolError
from slackwater.core.labels import is_requestable, pushed_region
from slackwater.core.lineage import FORMER
from slackwater.core.region import NOTHING, Region
from slackwater.core.region_codec import plain_region
from slackwater.dissemination.encoding import decode_rows, encode
from slackwater.dissemination.messages import (
    Ask,
    Counted,
    Delete,
    Frame,
    GiveUp,
    Reply,
    Report,
    Snapshot,
    Subscribe,
    Subscribed,
    Suspended,
    Unanswered,
    Upsert,
    Welcome,
    WireRow,
)

MOST_REPORTED = 64
"""Regions that are counted in one report; the others wait for the next."""
MOST_COUNTED = 4_096
"""Regions that are counted at all between two reports."""
MOST_WRITTEN = 4_096
"""Characters that a region takes to be written, if it is to be counted: a report has to fit into a message."""


@dataclass(slots=True)
class _Open:
    """A question that waits for its answer."""

    question: Questioned
    whole: bool = False
    """Whether all rows are to be asked for, also those that are pushed."""
    sent_at: int | None = None
    """When it was last asked in this session."""


class CacheState(ClientState):
    """A client whose questions are answered from what is pushed to it, as far as that goes."""

    held_class = staticmethod(held)

    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **named)  # type: ignore[arg-type]  # typed by the base class
        self.open: dict[int, _Open] = {}
        self.seen = 0
        """The latest position as of which anything was delivered or answered: nothing is answered as of an earlier."""
        self.counts: Counter[str] = Counter()
        """Messages and bytes by kind; see `docs/client-cache.md`."""
        self.answered: Counter[tuple[str, Region]] = Counter()
        """Queries answered from the cache over this connection, since the last report."""

    def handle(self, event: Event, now: int) -> list[Instruction]:
        """Take one event in."""
        out: list[Instruction] = []
        match event:
            case Questioned():
                waiting = self.open[event.ref] = _Open(event)
                if self.phase is Phase.OPEN:
                    self._ask(waiting, now, out)
            case Withdrawn():
                self.open.pop(event.ref, None)
        return out + super().handle(event, now)

    # Local answers.

    def cached(self, table: str) -> CachedTable | None:
        """The cached part of a table."""
        for one in self.held.values():
            if isinstance(one, CachedTable) and one.text.table == table and one.ended is None:
                return one
        return None

    def at_home(self, table: str, region: Region, after: int, now: int) -> int | None:
        """The position as of which the cache can answer for a region; None where it cannot."""
        own = self.cached(table)
        if own is None or own.suspended is not None or own.description is None:
            return None
        as_of, until = (self.as_of, self.until) if own.live else (own.as_of, own.until)
        if as_of is None or as_of < max(after, self.seen) or not self.lasts(until, now):
            return None
        try:
            return as_of if own.covers(region) else None
        except AlgebraError:
            return None

    def lasts(self, until: int, now: int) -> bool:
        """Whether a lease lasts still."""
        return now < until

    def took(self, table: str, region: Region, as_of: int) -> None:
        """A question was answered from the cache as of a position."""
        self.saw(as_of)
        self.counts["answered at home"] += 1
        own = self.cached(table)
        if own is not None:
            own.used(region)
        self.count(table, region)

    def count(self, table: str, region: Region) -> None:
        """Count a question for the next report, as no `Ask` has carried it to the node."""
        known = (table, region) in self.answered
        if known or (len(self.answered) < MOST_COUNTED and len(str(region)) <= MOST_WRITTEN):
            self.answered[table, region] += 1

    def saw(self, position: int, incarnation: int | None = None) -> None:
        """Something as of this position was shown: nothing earlier may be, from now on.

        A position that is known to be of another history does not count.
        """
        if incarnation is None or incarnation == self.incarnation:
            self.seen = max(self.seen, position)

    def furthest(self) -> int:
        """The furthest position of the present history that is known; answers to one-shot queries count.

        Before the first session it is not known which history those are of.
        """
        return super().furthest() if self.incarnation == FORMER else max(super().furthest(), self.seen)

    def drop_after(self, position: int, out: list[Instruction]) -> None:
        """Drop what is cached as of a later position, and the questions that wait for one."""
        super().drop_after(position, out)
        self.seen = min(self.seen, position)
        for own in self.held.values():
            if isinstance(own, CachedTable):
                self._tell(own, out)
        for ref in [ref for ref, one in self.open.items() if one.question.after > position]:
            after = self.open.pop(ref).question.after
            out.append(Unanswerable(ref, f"position {after} is not in the log's history any more: {self._replaced}"))

    # Questions.

    def next_tick(self, now: int) -> int | None:
        """When a `Tick` is due; None where nothing waits for one."""
        due = super().next_tick(now)
        if self.phase is Phase.OPEN and self.open:
            again = min((one.sent_at or now) + self._patience.retry for one in self.open.values())
            due = again if due is None else min(due, again)
        return due

    def _ask(self, waiting: _Open, now: int, out: list[Instruction]) -> None:
        question = waiting.question
        own = self.cached(question.table)
        label = None if waiting.whole or own is None or not own.live else own.query
        self.counts["asked" if waiting.sent_at is None else "asked again"] += 1
        waiting.sent_at = now
        region = plain_region(question.region)
        out.append(SendMessage(Ask(question.ref, question.table, region, max(question.after, self.seen), label)))

    def _welcome(self, welcome: Welcome, now: int, out: list[Instruction]) -> None:
        super()._welcome(welcome, now, out)
        if self.phase is Phase.OPEN and self.session == welcome.session:
            for waiting in self.open.values():
                waiting.whole = False
                self._ask(waiting, now, out)

    def _repeat(self, now: int, out: list[Instruction]) -> None:
        if now >= self._next_ack:
            self._report(out)
            self._make_room(out)
        super()._repeat(now, out)
        for waiting in self.open.values():
            if now >= (waiting.sent_at or 0) + self._patience.retry:
                self._ask(waiting, now, out)

    def _subscribe(self, held: Held, now: int, out: list[Instruction]) -> None:
        super()._subscribe(held, now, out)
        if isinstance(held, CachedTable) and held.doubted:
            out[-1] = SendMessage(Subscribe(held.ref, held.sql, None))

    def _report(self, out: list[Instruction]) -> None:
        if not self.answered:
            return
        counted = self.answered.most_common(MOST_REPORTED)
        for entry, _ in counted:
            del self.answered[entry]
        report = Report(tuple(Counted(table, plain_region(region), times) for (table, region), times in counted))
        self.counts["reports"] += 1
        self.counts["report bytes"] += len(encode(report, self.encoding))
        out.append(SendMessage(report))

    def _make_room(self, out: list[Instruction]) -> None:
        """Give up regions for which there is no room, and report it until the labels change."""
        for own in self.held.values():
            if not isinstance(own, CachedTable) or not own.live or own.query is None or own.epoch is None:
                continue
            if own.shrink(own.text.limit):
                self.counts["regions given up"] += 1
                self._tell(own, out)
            if not own.given_up.empty:
                # A region that no message can carry is not kept.
                kept = own.region if is_requestable(own.region) else NOTHING
                out.append(SendMessage(GiveUp(own.query, own.epoch, plain_region(kept))))

    def _tell(self, own: CachedTable, out: list[Instruction]) -> None:
        changed = own.changed(self.as_of or own.as_of or 0)
        if changed is not None:
            out.append(changed)

    # Frames.

    def _frame(self, frame: Frame, now: int, out: list[Instruction]) -> None:
        replies = [fact for fact in frame.facts if isinstance(fact, Reply | Unanswered)]
        fresh = self.applied < frame.sequence
        try:
            rows = {fact.ref: self._rows(fact) for fact in replies if isinstance(fact, Reply)}
        except ProtocolError as error:
            self._lost(str(error), out)
            return
        if self.of_this_session(frame) and frame.base <= self.applied:
            try:
                self._check_labels(frame)
            except AlgebraError as error:
                self._lost(f"labels that cannot be used came: {error}", out)
                return
            if not self._fits(frame, out):
                self._lost("labels came for other rows than are held; all of them are asked for again", out)
                return
        super()._frame(frame, now, out)
        if self.phase is not Phase.OPEN or self.session != frame.session or self.applied != frame.sequence:
            return
        if self.as_of is not None:
            self.saw(self.as_of)
        if fresh:
            self._count(frame)
            for own in self.held.values():
                if isinstance(own, CachedTable) and own.live:
                    self._tell(own, out)
            for fact in replies:
                self._resolve(fact, rows.get(fact.ref, ()), frame.as_of, now, out)

    def _rows(self, reply: Reply) -> tuple[WireRow, ...]:
        return tuple(row for _, row in decode_rows(reply.rows, reply.digest, self.encoding))

    def _check_labels(self, frame: Frame) -> None:
        """Refuse labels before anything of their frame is applied."""
        for fact in frame.facts:
            if isinstance(fact, Subscribed) and isinstance(self.held.get(fact.ref), CachedTable):
                pushed_region(fact.region or [])

    def _fits(self, frame: Frame, out: list[Instruction]) -> bool:
        """Whether the labels of a frame fit the rows that are held; rows that do not fit are dropped."""
        if self.applied >= frame.sequence:
            return True
        # Of what is suspended everything comes when it is resumed.
        whole = {fact.query for fact in frame.facts if isinstance(fact, Snapshot | Suspended)}
        fits = True
        for fact in frame.facts:
            if isinstance(fact, Subscribed) and fact.query not in whole:
                own = self.held.get(fact.ref)
                if isinstance(own, CachedTable) and not own.fits(fact):
                    own.forget()
                    self._tell(own, out)
                    fits = False
        return fits

    def _count(self, frame: Frame) -> None:
        own = {one.query for one in self.held.values() if isinstance(one, CachedTable)}
        labelled = {fact.query for fact in frame.facts if isinstance(fact, Subscribed)}
        for fact in frame.facts:
            match fact:
                case Subscribed() if fact.region is not None:
                    self.counts["labels"] += 1
                case Upsert() | Delete() if fact.query in own:
                    self.counts["filled" if fact.query in labelled else "pushed"] += 1
                case Snapshot() if fact.query in own:
                    self.counts["filled"] += fact.count
                case Reply():
                    self.counts["replies"] += 1
                    self.counts["rows in replies"] += fact.count
                case _:
                    pass

    def _resolve(
        self, fact: Reply | Unanswered, rows: tuple[WireRow, ...], as_of: int, now: int, out: list[Instruction]
    ) -> None:
        waiting = self.open.get(fact.ref)
        if waiting is None:
            return
        if isinstance(fact, Unanswered):
            del self.open[fact.ref]
            out.append(Unanswerable(fact.ref, fact.why))
            return
        home = self.home(waiting.question, fact)
        if home is None or as_of < waiting.question.after:
            waiting.whole = True
            self._ask(waiting, now, out)
            return
        del self.open[fact.ref]
        self.counts["answered in part"] += not home.empty
        out.append(Answered(fact.ref, as_of, rows, home, fact.shape))

    def home(self, question: Questioned, reply: Reply) -> Region | None:
        """The part of a question that a reply leaves to the cache; None where the cache has not all of it."""
        if reply.epoch is None:
            return NOTHING
        own = self.cached(question.table)
        if own is None or not own.live or own.epoch != reply.epoch or own.shape != reply.shape:
            return None
        try:
            home = question.region.intersect(own.label)
            return home if own.given_up.empty or own.region.covers(home) else None
        except AlgebraError:
            return None
