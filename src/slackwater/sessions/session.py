"""Session: one client's subscriptions, unacknowledged frames and held facts.

Design
    Every frame takes along all that is held (`pending`), so after it nothing is held back and the client's reading may
    be given back. What was sent stays, conflated, until it is acknowledged; a client that misses a frame gets one
    frame that begins where its acknowledgement ended. Acknowledgements come a few times a lease while frames may come
    many times, so what was sent is kept in two layers: when all frames of the older one are acknowledged it is
    dropped and the newer takes its place. A retransmission may therefore repeat facts the client has. They are states
    and still true, unless a newer fact took their place here.

    What does not fit the limit is dropped altogether; the next frame then carries the whole state (`whole`).

    Questions wait for the next frame and are answered as of it, after all that is held: so the answer and everything
    pushed up to it are of one position. Answers are not kept; a frame that makes good for lost ones answers their
    questions anew. What more answers there are than one frame can carry, or than are worked out in one go, waits for
    the next frame.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from slackwater.core.lineage import FORMER
from slackwater.core.rights import EVERY_ROW, Grant
from slackwater.dissemination.delivery.base import Delivery
from slackwater.dissemination.encoding import Encoding
from slackwater.dissemination.messages import (
    UNICAST,
    Ask,
    Fact,
    Frame,
    Reply,
    Snapshot,
    Subscribe,
    Unanswered,
    WireRow,
)
from slackwater.sessions.conflation import Facts
from slackwater.sessions.events import Principal
from slackwater.sessions.limits import ServerLimits

MOST_ASKED = 512 * 1024
"""Bytes of all questions of one session that wait; and of those that may have to be answered again."""
MOST_BOXES_AT_ONCE = 512
"""Boxes of the questions that are answered with one frame: others have their turn before the next."""
MOST_ANSWERED_AGAIN = 64
"""Pulls that are answered again when frames were lost; clients repeat further ones."""


@dataclass(slots=True)
class SessionSubscription:
    """A reference of a client: the query it stands for once `number` is known, or none (`refused`)."""

    ref: int
    held: int | None
    text: str = ""
    rights: Grant = EVERY_ROW
    name: str | None = None
    number: int | None = None
    refused: bool = False
    delivery: str = UNICAST
    """How the client asks for its facts to be delivered."""


class Session:
    """The frames of one connection. Times are the node's, save `heard`, which is the client's."""

    def __init__(
        self, connection: int, identity: str, principal: Principal, encoding: Encoding, limits: ServerLimits, now: int
    ) -> None:
        self.connection = connection
        self.identity = identity
        self.principal = principal
        self.encoding = encoding
        self.opened = False
        self.blocked = False
        self.after = 0
        self.incarnation = FORMER
        """That of the log when the session began."""
        self.subscriptions: dict[int, SessionSubscription] = {}
        self.references: dict[int, set[int]] = {}
        """The references of each query that is subscribed to."""
        self.deliveries: dict[int, Delivery[Session]] = {}
        """How each of these queries is delivered."""
        self.sizes: dict[int, int] = {}
        """Bytes of the snapshot of each selection that is subscribed to, as it was then."""
        self.early: list[Subscribe] = []
        """Subscriptions received while the node was behind the client's position."""
        self.questions: dict[int, Ask] = {}
        """Pulls to be answered with the next frame."""
        self.answer: Callable[[Ask], Fact] = lambda ask: Unanswered(ask.ref, "this node answers no questions")
        """Gives the answer to a question as of where the node stands."""
        self._asked: dict[int, int] = {}
        """Bytes of each question that waits, or whose answer may be lost."""
        self._answered: dict[int, tuple[int, Ask]] = {}
        """Questions whose answers may be lost, and the frames that carried them."""
        self.last_sent = now
        self.last_received = now
        self.sequence = 0
        self.acknowledged = 0
        self.heard = 0
        self._limits = limits
        self._pending = Facts()
        self._pending_whole = False
        self._older = Facts()
        self._newer = Facts()
        self._older_until = 0
        self._whole_until = 0
        """The content of frames up to this one is no longer known."""
        self._missing = False
        self._retransmitted: int | None = None

    @property
    def holds_back(self) -> bool:
        """True if facts are held for the next frame."""
        return bool(self._pending) or self._pending_whole

    def hold(self, fact: Fact) -> None:
        """Keep a fact for the next frame."""
        self._pending.put(fact)
        if self._pending.count > self._limits.held_facts:
            self._pending.forget_answers()
            self._pending_whole = True

    def wait(self, ask: Ask) -> bool:
        """Queue a pull for one of the next frames, if there is room; a repeated one counts once."""
        size = len(msgspec.msgpack.encode(ask))
        most = self._limits.queries + self._limits.queries_waiting
        others = sum(self._asked.get(ref, 0) for ref in self.questions if ref != ask.ref)
        if len(self.questions) - (ask.ref in self.questions) >= most or others + size > MOST_ASKED:
            return False
        known = self.questions.keys() | self._answered.keys()
        self._asked = {ref: self._asked.get(ref, 0) for ref in known} | {ask.ref: size}
        self.questions[ask.ref] = ask
        return True

    def certainly_knows(self, ref: int) -> bool:
        """True if the client has acknowledged all facts about a reference itself."""
        return not any(facts.has_reference(ref) for facts in (self._pending, self._older, self._newer))

    def unacknowledged(self, query: int) -> set[WireRow] | None:
        """Keys of a query's rows with facts that are sent or held and not acknowledged; None: all rows."""
        found: set[WireRow] = set()
        for facts in (self._older, self._newer, self._pending):
            keys = facts.keys(query)
            if keys is None:
                return None
            found.update(keys)
        return None if self._pending_whole else found

    def forget(self, query: int) -> None:
        """Drop all held and unacknowledged facts about a query."""
        for facts in (self._pending, self._older, self._newer):
            facts.forget(query)

    def acknowledge(self, sequence: int) -> None:
        """The client has applied all frames up to this one."""
        self.acknowledged = max(self.acknowledged, sequence)
        if self.acknowledged >= self._older_until:
            if self._newer or self._older:
                self._older, self._newer = self._newer, Facts()
            self._older_until = self.sequence
        if self._answered:
            self._answered = {ref: one for ref, one in self._answered.items() if one[0] > self.acknowledged}
        if self.acknowledged >= self.sequence:
            if self._older:
                self._older = Facts()
            self._missing = False

    def miss(self, now: int, again: int) -> bool:
        """Note that the client misses frames; True if a retransmission is due now."""
        if self.acknowledged >= self.sequence or (
            self._retransmitted is not None and now < self._retransmitted + again
        ):
            return False
        self._missing = True
        self._retransmitted = now
        return True

    def may_send(self, position: int) -> bool:
        """Whether a frame as of this position may go out."""
        return self.opened and not self.blocked and position >= self.after

    def frame(self, as_of: int, now: int, whole: Callable[[int], Iterable[Fact]], *, heartbeat: bool) -> Frame | None:
        """The next frame, if one may be sent and facts are held, or a heartbeat is due.

        `whole` gives the whole state of a query.
        """
        if not self.may_send(as_of):
            return None
        if self._missing:
            self.questions = {ref: ask for ref, (_, ask) in self._answered.items()} | self.questions
        asked = [ask for ask in self.questions.values() if ask.after <= as_of] if self.questions else []
        if not (self.holds_back or self._missing or asked):
            return self._frame(self.sequence, as_of, now, ()) if heartbeat else None
        base, facts, everything = self.sequence, self._pending, self._pending_whole
        at_once = self._limits.queries
        if self._missing:
            # One frame makes good for all that were lost: in many, some would be lost again.
            at_once = max(at_once, MOST_ANSWERED_AGAIN)
            base, everything = self.acknowledged, everything or self.acknowledged < self._whole_until
            facts = self._older
            facts.merge(self._newer)
            facts.merge(self._pending)
            self._older, self._newer = Facts(), Facts()
        if everything:
            facts.forget_answers()
            for query in self.references:
                for fact in whole(query):
                    facts.put(fact)
        self.sequence += 1
        self._pending, self._pending_whole, self._missing = Facts(), False, False
        carried = facts.listed()
        self._remember(facts)
        if asked:
            carried = (*carried, *self._answers(asked[:at_once], carried))
        return self._frame(base, as_of, now, carried)

    def _answers(self, asked: Iterable[Ask], carried: Iterable[Fact]) -> Iterator[Fact]:
        """Answers to pulls, as many as the frame of these facts has room for."""
        most_bytes = self._limits.snapshot_bytes
        bytes_left = most_bytes - sum(memoryview(fact.rows).nbytes for fact in carried if isinstance(fact, Snapshot))
        boxes_left, empty = MOST_BOXES_AT_ONCE, bytes_left == most_bytes
        for ask in asked:
            if not empty and (bytes_left <= 0 or boxes_left < len(ask.region)):
                break
            answer = self.answer(ask)
            size = memoryview(answer.rows).nbytes if isinstance(answer, Reply) else 0
            if not empty and size > bytes_left:
                break
            bytes_left, boxes_left, empty = bytes_left - size, boxes_left - len(ask.region), False
            del self.questions[ask.ref]
            self._answered[ask.ref] = (self.sequence, ask)
            yield answer
        sizes = {ref: self._asked.get(ref, 0) for ref in self._answered}
        while len(sizes) > MOST_ANSWERED_AGAIN or sum(sizes.values()) > MOST_ASKED:
            oldest = next(iter(sizes))
            del sizes[oldest], self._answered[oldest]

    def _frame(self, base: int, as_of: int, now: int, facts: tuple[Fact, ...]) -> Frame:
        self.last_sent = now
        return Frame(self.identity, base, self.sequence, as_of, self.heard, facts)

    def _remember(self, facts: Facts) -> None:
        if self._newer:
            self._newer.merge(facts)
        else:
            self._newer = facts
        if self._older.count + self._newer.count > self._limits.held_facts:
            self._older.forget_answers()
            self._newer.forget_answers()
            self._whole_until = self.sequence
