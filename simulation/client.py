"""Simulated client: the real state, a subscribing program, and the notifications that program received."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from simulation.clock import Schedule, SkewedClock
from simulation.invariants import Invariants, Program
from simulation.network import Link, Network
from simulation.node import SimulatedNode
from slackwater.client.live.events import (
    AnswerChanged,
    Answered,
    Certainty,
    ClockTick,
    Connect,
    Described,
    Event,
    Lost,
    MessageReceived,
    Opened,
    SendMessage,
    SubscriptionEnded,
    Unanswerable,
    Unwanted,
    Wanted,
)
from slackwater.client.live.state import ClientState, Patience
from slackwater.core.lineage import BEGINNING, Place
from slackwater.dissemination.encoding import Encoding, decode_from_node, encode
from slackwater.dissemination.messages import Frame

PATIENCE = Patience(retry=300_000, opening=1_000_000, first_backoff=50_000, longest_backoff=800_000)


class SimulatedClient:
    """One client over all its connections."""

    def __init__(
        self,
        name: str,
        schedule: Schedule,
        random: Random,
        network: Network,
        nodes: Sequence[SimulatedNode],
        encoding: Encoding,
        state_class: type[ClientState],
        invariants: Invariants,
        happened: Counter[str],
        note: Callable[[str, object], None],
        after: Place = BEGINNING,
    ) -> None:
        self.name = name
        self.encoding = encoding
        self.clock = SkewedClock(random.randrange(10**12), 1 + random.uniform(-1e-4, 1e-4))
        self.state = state_class(random.random, encoding, PATIENCE, after)
        self.program = Program(name, self.clock)
        self.wanted: dict[int, str] = {}
        self._schedule = schedule
        self._random = random
        self._network = network
        self._nodes = nodes
        self._invariants = invariants
        self._happened = happened
        self._note = note
        self._link: Link | None = None
        self._node: SimulatedNode | None = None
        self._attempt = 0
        self._references = 0
        self._wake: int | None = None

    @property
    def now(self) -> int:
        """The time of its clock."""
        return self.clock.read(self._schedule.now)

    # The program.

    def want(self, sql: str) -> None:
        """Subscribe."""
        self._references += 1
        self.wanted[self._references] = sql
        self._note(self.name, f"subscribes {self._references}: {sql}")
        self.handle(Wanted(self._references, sql))

    def unwant(self) -> None:
        """End one of the subscriptions."""
        if self.wanted:
            ref = self._random.choice(sorted(self.wanted))
            del self.wanted[ref]
            self._happened["unsubscribe"] += 1
            self._note(self.name, f"ends {ref}")
            self.program.forget(ref)
            self.handle(Unwanted(ref))

    # The connection.

    def arrive(self, link: Link, data: bytes) -> None:
        """A message has arrived, perhaps one from an earlier connection."""
        if link is not self._link:
            if link.ordered:
                return
            self._happened["message of an earlier connection"] += 1
        message = decode_from_node(data, self.encoding)
        if isinstance(message, Frame) and link is self._link:
            self.program.frame_came = self.now
        self.handle(MessageReceived(message))

    def broken(self, link: Link) -> None:
        """A link is gone."""
        link.open = False
        if link is self._link:
            self._link = None
            self.handle(Lost("the connection broke"))

    def reconnect(self) -> None:
        """Lose the connection for no known reason."""
        if self._link is not None:
            self._happened["client reconnects"] += 1
            self._drop()
            self.handle(Lost("the network was changed"))

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.open = False
            node = self._node
            assert node is not None
            if self._network.connected(self.name, node.name):
                self._schedule.after(self._network.delay(), lambda: node.broken(link))

    def _connect(self, attempt: int) -> None:
        if attempt != self._attempt:
            return
        others = [node for node in self._nodes if node is not self._node] or self._nodes
        before, self._node = self._node, self._random.choice(others)
        node = self._node
        if before is not None:
            self._happened["failover"] += 1
        if not node.up or not self._network.connected(self.name, node.name):
            self._schedule.after(50_000, lambda: self._fail(attempt))
            return
        link = self._network.link(self.name, node.name, node.generation)
        self._note(self.name, f"connects to {node.name} as {link.number}")

        def opened() -> None:
            if not node.up or node.generation != link.generation or attempt != self._attempt:
                self._fail(attempt)
                return
            node.accept(link, self)
            self._link = link
            self.handle(Opened())

        self._schedule.after(self._network.delay(), opened)

    def _fail(self, attempt: int) -> None:
        if attempt == self._attempt:
            self._happened["connection refused"] += 1
            self.handle(Lost("no node answered"))

    # Events and instructions.

    def handle(self, event: Event) -> None:
        """Give the state an event, execute its instructions, and check the invariants."""
        now = self.now
        for instruction in self.state.handle(event, now):
            match instruction:
                case SendMessage(message):
                    self._note(f"{self.name} → {self._node.name if self._node else '?'}", message)
                    self._send(encode(message, self.encoding))
                case Connect(after, why):
                    self._note(self.name, f"is to connect in {after} µs: {why}")
                    self._drop()
                    self._attempt += 1
                    self._schedule.after(after, partial(self._connect, self._attempt))
                case AnswerChanged() | Described() | SubscriptionEnded() | Certainty():
                    self._note(self.name, instruction)
                    self._happened[type(instruction).__name__.lower()] += 1
                    self.program.notify(instruction)
                case Answered() | Unanswerable():
                    self.replied(instruction)
        self._invariants.check(self.program, self.state, now)
        due = self.state.next_tick(now)
        if due is not None:
            when = max(self.clock.time_of(due) + 4, self._schedule.now)
            if self._wake is None or when < self._wake:
                self._wake = when
                self._schedule.at(when, lambda: self._woken(when))

    def replied(self, instruction: Answered | Unanswerable) -> None:
        """A question was answered; this kind of client asks none."""

    def probe(self) -> None:
        """Check the shown answers at any moment."""
        self._invariants.check(self.program, self.state, self.now)

    def _woken(self, when: int) -> None:
        if self._wake == when:
            self._wake = None
            self.handle(ClockTick())

    def _send(self, data: bytes) -> None:
        link, node = self._link, self._node
        if link is None or node is None:
            return
        self._network.send(link, True, lambda: node.arrive(link, data, self.encoding), lambda: self._break(link, node))

    def _break(self, link: Link, node: SimulatedNode) -> None:
        link.open = False
        self._schedule.after(self._network.delay(), lambda: self.broken(link))
        self._schedule.after(self._network.delay(), lambda: node.broken(link))
