"""Simulated node: the real state and engine, with a life that can end at any moment."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from simulation.clock import Schedule, SkewedClock
from simulation.network import Link, Network
from simulation.truth import Truth
from slackwater.core.lineage import Place
from slackwater.core.types import Instant
from slackwater.dissemination.encoding import Encoding, decode_from_client, encode
from slackwater.dissemination.messages import Frame, Snapshot, Subscribed, Suspended
from slackwater.hosting.log_clock import LogClock
from slackwater.log.records import TimePassed
from slackwater.sessions.engine import NodeEngine
from slackwater.sessions.events import (
    Append,
    Blocked,
    Close,
    Connected,
    Disconnected,
    Event,
    Instruction,
    Principal,
    Received,
    Send,
    Tick,
    Writable,
)
from slackwater.sessions.limits import ServerLimits
from slackwater.sessions.rules import SessionRules
from slackwater.sessions.state import ServerState

if TYPE_CHECKING:
    from simulation.client import SimulatedClient

LIMITS = ServerLimits(held_facts=10, recent_keys=6)
"""So small that every limit is met in a few seconds."""
_BEGINNING = 1_800_000_000_000_000
"""Where wall clocks begin."""
_COALESCED = 5_000
"""A node's timer is no more exact than this."""


class SimulatedNode:
    """One node over all its lives."""

    def __init__(
        self,
        name: str,
        schedule: Schedule,
        random: Random,
        network: Network,
        truth: Truth,
        rules: SessionRules,
        state_class: type[ServerState],
        make_engine: Callable[[], NodeEngine],
        happened: Counter[str],
        note: Callable[[str, object], None],
        make_log_clock: Callable[[Instant], LogClock] = LogClock,
    ) -> None:
        self.name = name
        self.clock = SkewedClock(random.randrange(10**12))
        self.wall = SkewedClock(_BEGINNING)
        """The clock of the machine, which can be set."""
        self.watch: Callable[[str, int, int], None] | None = None
        """Is shown the position and the log time wherever the node stands."""
        self.generation = 0
        self.up = False
        self.stood: dict[int, tuple[list[int], list[int]]] = {}
        """For each generation, when it reached which position."""
        self.down: list[int] = []
        """When it stopped, when it started again, and so on."""
        self.lagging_until = 0
        self.appends_lost = 0.0
        self.links: dict[int, tuple[Link, SimulatedClient]] = {}
        self._schedule = schedule
        self._random = random
        self._network = network
        self._truth = truth
        self._rules = rules
        self._state_class = state_class
        self._make_engine = make_engine
        self._happened = happened
        self._note = note
        self._make_log_clock = make_log_clock
        self._snapshot: tuple[bytes, Place] | None = None
        self._wake: int | None = None
        self.start()

    # Life and death.

    def start(self) -> None:
        """Begin a life: from the last snapshot if there is one, and from there to the end of the log."""
        self.generation += 1
        self.up = True
        if len(self.down) % 2 == 1:
            self.down.append(self._schedule.now)
        self.engine = self._make_engine()
        self.engine.registrar.limits = LIMITS
        self.stood[self.generation] = ([], [])
        self.engine.lineage = self._truth.lineage
        if self._snapshot is not None and self.usable(self._snapshot[1]):
            self.engine.restore(self._snapshot[0])
        for _ in self.engine.events(self._truth.read(self.engine.position, self._truth.end)):
            pass
        self._log_clock = self._make_log_clock(self.engine.host.time)
        self.state = self._state_class(self.name, self.generation, self._rules, self.engine)
        self._note(self.name, f"starts as generation {self.generation} at {self.engine.position}")
        for event in self.engine.registered():
            self.handle(event)
        self._stands()

    def stop(self, *, forget: bool) -> None:
        """End a life. Ordered links tell the other side; who is at the end of another kind has to find out."""
        self._note(self.name, "is killed" + (" and its snapshot is lost" if forget else ""))
        self._happened["restart from scratch" if forget or self._snapshot is None else "restart from a snapshot"] += 1
        self.up = False
        self.down.append(self._schedule.now)
        self._wake = None
        if forget:
            self._snapshot = None
        for link, client in self.links.values():
            if link.open and link.ordered:
                self._schedule.after(self._network.delay(), partial(client.broken, link))
            link.open = False
        self.links.clear()

    def take_snapshot(self) -> None:
        """Keep the state of the engine for the next life."""
        if self.up:
            place = self.engine.lineage.place(self.engine.position)
            self._snapshot = (self.engine.snapshot(self.generation), place)

    def usable(self, place: Place) -> bool:
        """Whether a snapshot from this place is of the log's history."""
        return self._truth.lineage.holds(place, self._truth.end)

    # The log.

    def follow(self) -> None:
        """Read on in the log, up to its end or not quite."""
        if not self.up or self._schedule.now < self.lagging_until:
            return
        start, end = int(self.engine.position), int(self._truth.end)
        if start < end and self._random.random() < 0.3:
            end = self._random.randint(start + 1, end)
        if start < end:
            for events in self.engine.events(self._truth.read(start, end)):
                for event in events:
                    self.handle(event)
                self._stands()

    def tick(self, periods: frozenset[int]) -> None:
        """Append a tick to the log if one is due: of the nodes of a log the one that writes it does so."""
        tick = self._log_clock.due(Instant(self.wall.read(self._schedule.now)), periods) if self.up else None
        if tick is not None:
            self._happened["tick"] += 1
            self._note("log", f"a tick of {tick}")
            self._truth.append([TimePassed(tick)])
            self._log_clock = self._log_clock.after(tick)

    def set_wall(self, by: int) -> None:
        """Set the clock of the machine ahead, or back."""
        self._happened["wall clock set back" if by < 0 else "wall clock set ahead"] += 1
        self.wall = replace(self.wall, offset=self.wall.offset + by)

    def position_at(self, generation: int, time: int) -> int:
        """Where a life of this node stood at a time."""
        times, positions = self.stood[generation]
        place = bisect_right(times, time) - 1
        return positions[place] if place >= 0 else 0

    def stood_at(self, time: int) -> int | None:
        """Where this node stood at a time; None where it was not running."""
        if self.down and bisect_right(self.down, time) % 2 == 1:
            return None
        return max(self.position_at(generation, time) for generation in self.stood)

    def _stands(self) -> None:
        times, positions = self.stood[self.generation]
        times.append(self._schedule.now)
        positions.append(int(self.state.position))
        if self.watch is not None:
            self.watch(self.name, int(self.engine.position), self.engine.host.time)

    # Connections.

    def accept(self, link: Link, client: "SimulatedClient") -> None:
        """A client has connected."""
        self.links[link.number] = (link, client)
        if client.program.as_of and max(client.program.as_of.values()) > self.state.position:
            self._happened["node behind the client"] += 1
        self.handle(Connected(link.number, Principal(client.name), client.encoding))

    def arrive(self, link: Link, data: bytes, encoding: Encoding) -> None:
        """A message has arrived."""
        if self.up and link.number in self.links and link.generation == self.generation:
            self.handle(Received(link.number, decode_from_client(data, encoding)))

    def broken(self, link: Link) -> None:
        """A link is gone."""
        if self.links.pop(link.number, None) is not None and self.up:
            self.handle(Disconnected(link.number))

    def block(self, duration: int) -> None:
        """One of the connections takes no more for a while."""
        if not (self.up and self.links):
            return
        number = self._random.choice(sorted(self.links))
        link, client = self.links[number]
        self._happened["slow consumer"] += 1
        self._note(self.name, f"connection {number} of {client.name} takes no more")
        self.handle(Blocked(number))

        def writable() -> None:
            if self.up and link.generation == self.generation and number in self.links:
                if self.state.sessions[number].holds_back:
                    self._happened["held back"] += 1
                self.handle(Writable(number))

        self._schedule.after(duration, writable)

    # Events and instructions.

    def handle(self, event: Event) -> None:
        """Give the state an event, and do what it says."""
        for instruction in self.state.handle(event, self.clock.read(self._schedule.now)):
            self._carry_out(instruction)
        due = self.state.next_tick()
        if due is not None:
            when = max(self.clock.time_of(due), self._schedule.now) + _COALESCED
            if self._wake is None or when < self._wake:
                self._wake = when
                generation = self.generation
                self._schedule.at(when, lambda: self._woken(generation, when))

    def _woken(self, generation: int, when: int) -> None:
        if self.up and generation == self.generation and self._wake == when:
            self._wake = None
            self.handle(Tick())

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Send(number, message) if number in self.links:
                link, client = self.links[number]
                self._note(f"{self.name} → {client.name}", message)
                if isinstance(message, Frame):
                    self._happened.update(kinds(message))
                data = encode(message, client.encoding)
                self._network.send(link, False, lambda: client.arrive(link, data), lambda: self._break(link, client))
            case Close(number, why) if number in self.links:
                link, client = self.links.pop(number)
                self._note(self.name, f"closes connection {number} of {client.name}: {why}")
                self._schedule.after(self._network.delay(), lambda: client.broken(link))
            case Append(records):
                if self._random.random() < self.appends_lost:
                    self._happened["append lost"] += 1
                    return
                self._note(self.name, records)
                self._happened["append"] += 1
                self._schedule.after(self._random.randrange(20_000), lambda: self._truth.append([*records]))
            case _:
                pass

    def _break(self, link: Link, client: "SimulatedClient") -> None:
        link.open = False
        self._schedule.after(self._network.delay(), lambda: client.broken(link))
        self._schedule.after(self._network.delay(), lambda: self.broken(link))


def kinds(frame: Frame) -> list[str]:
    """What a frame shows of the ways of the protocol."""
    if not frame.facts:
        return ["heartbeat"]
    found = ["frame"]
    if frame.base < frame.sequence - 1:
        found.append("retransmission")
    rows = {fact.query for fact in frame.facts if isinstance(fact, Subscribed) and fact.columns}
    whole = {fact.query for fact in frame.facts if isinstance(fact, Snapshot)}
    if rows - whole:
        found.append("resumed without a snapshot")
    if whole - rows:
        found.append("snapshot in place of a backlog")
    if any(isinstance(fact, Suspended) for fact in frame.facts):
        found.append("suspended")
    if any(isinstance(fact, Subscribed) and fact.epoch for fact in frame.facts):
        found.append("under a new plan")
    return found
