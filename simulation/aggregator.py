"""Simulated aggregator: a node with a log of its own, and a client of the nodes above it."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from simulation import walk
from simulation.client import SimulatedClient
from simulation.clock import Schedule
from simulation.invariants import Invariants, Program
from simulation.network import Network
from simulation.node import SimulatedNode
from simulation.truth import Truth
from slackwater.aggregator.base import Item
from slackwater.aggregator.engine import AggregatorEngine
from slackwater.aggregator.mirrored_items import MirroredItems
from slackwater.aggregator.upstream.state import UpstreamState, Write
from slackwater.client.live.events import AnswerChanged, Certainty, Described, Event, SubscriptionEnded
from slackwater.client.live.state import ClientState
from slackwater.core.types import Instant
from slackwater.core.update import Operation, Origin, Update
from slackwater.dissemination.encoding import Encoding
from slackwater.sessions.rules import SessionRules
from slackwater.sessions.state import ServerState

TICK = 100_000


class SimulatedAggregator(SimulatedNode):
    """One aggregator over all its lives. Its log survives them; what it was about to write does not."""

    def __init__(
        self,
        name: str,
        schedule: Schedule,
        random: Random,
        network: Network,
        truth: Truth,
        rules: SessionRules,
        state_class: type[ServerState],
        engine_class: type[AggregatorEngine],
        happened: Counter[str],
        note: Callable[[str, object], None],
        *,
        above: Sequence[SimulatedNode],
        invariants: Invariants,
        items: Sequence[Item],
        upstream_class: type[UpstreamState],
    ) -> None:
        self.above = above
        self.log = truth
        self.items = items
        self.written: tuple[list[int], list[int]] = ([], [])
        """Positions of its own log, and the upstream's positions that were written up to there."""
        self.writes_fail, self.writes_slow = 0.05, 0.1
        self.upstream: UpstreamState | None = None
        self._invariants = invariants
        self._upstream_class = upstream_class
        self._face: UpstreamFace | None = None
        self._writing: tuple[Write, int] | None = None
        self._set_back = 0
        mirrored_items = MirroredItems(items)

        def make() -> AggregatorEngine:
            return engine_class(mirrored_items, self._doubt)

        super().__init__(name, schedule, random, network, truth, rules, state_class, make, happened, note)

    def upstream_position(self, position: int) -> int | None:
        """The upstream's position that was written before one of its own log."""
        own, above = self.written
        place = bisect_right(own, position) - 1
        return above[place] if place >= 0 else None

    @property
    def vouches(self) -> bool:
        """Whether its answers are certain."""
        return self.up and any(kept.suspended is None and kept.sessions for kept in self.state.subscriptions.queries)

    # Life and death.

    def start(self) -> None:
        """Begin a life."""
        self.upstream, self._writing = None, None
        if self._random.random() < 0.3:
            self._set_back += self._random.randrange(10_000_000)
        super().start()
        assert isinstance(self.engine, AggregatorEngine)
        last = self.engine.last_of("items", self.items[0].upstream)
        self.upstream = self._upstream_class(self.items[0].upstream, self.items, last, patience=self._rules.lease)
        self._face = UpstreamFace(self, self.upstream, self._invariants)
        generation = self.generation
        self._schedule.after(TICK, lambda: self._tick(generation))

    def stop(self, *, forget: bool) -> None:
        """End a life."""
        assert self._face is not None
        self._face.die()
        super().stop(forget=forget)

    def reconnect(self) -> None:
        """Lose the connection to the upstream, and have another soon."""
        if self.up and self._face is not None:
            self._face.reconnect()

    def _tick(self, generation: int) -> None:
        if self.up and generation == self.generation:
            assert self.upstream is not None
            self.upstream.tick(self._now)
            self._go_on()
            self._schedule.after(TICK, lambda: self._tick(generation))

    @property
    def _now(self) -> int:
        return self.clock.read(self._schedule.now)

    def _doubt(self, _: str) -> str | None:
        return "it has not begun yet" if self.upstream is None else self.upstream.doubt

    # The upstream.

    def heard(
        self, client: ClientState, events: Sequence[AnswerChanged | Described | SubscriptionEnded | Certainty]
    ) -> None:
        """Take an event's notifications about the items."""
        assert self.upstream is not None
        self.upstream.heard(client, events)
        self._go_on()

    def _go_on(self) -> None:
        assert self.upstream is not None
        write = self.upstream.next_write(self._now, 10**15 + self._schedule.now - self._set_back)
        if write is not None:
            generation = self.generation
            slow = self._random.random() < self.writes_slow
            delay = self._random.randrange(3_500_000 if slow else 20_000)
            self._happened["write slow" if slow else "write"] += 1
            self._schedule.after(delay, lambda: self._durable(generation, write))
        self._review()

    def _durable(self, generation: int, write: Write) -> None:
        if not self.up or generation != self.generation:
            self._happened["write lost with its process"] += 1
            return
        assert self.upstream is not None
        if self._random.random() < self.writes_fail:
            self._happened["write failed"] += 1
            self.upstream.failed(write)
            self._go_on()
            return
        self._note(self.name, f"writes {len(write.rows)} rows as of {write.position} above")
        self._truth.change(
            [
                Update(
                    row.table,
                    (row.key[0], row.values["price"]),
                    Instant(write.time),
                    Origin(self.upstream.name, write.first + place),
                    Operation.UPSERT if row.there else Operation.DELETE,
                )
                for place, row in enumerate(write.rows)
            ]
        )
        self.written[0].append(self._truth.end)
        self.written[1].append(write.position)
        self._writing = (write, self._truth.end)
        self._schedule.after(self._random.randrange(5_000), self.follow)

    def follow(self) -> None:
        """Read on in the log, which has no other writer: to its end."""
        if not self.up or self._schedule.now < self.lagging_until:
            return
        for events in self.engine.events(self._truth.read(int(self.engine.position), int(self._truth.end))):
            for event in events:
                self.handle(event)
            self._stands()
        if self._writing is not None and self.engine.position >= self._writing[1]:
            (write, _), self._writing = self._writing, None
            assert self.upstream is not None
            self.upstream.wrote(write)
            self._go_on()

    def _review(self) -> None:
        assert isinstance(self.engine, AggregatorEngine)
        for event in self.engine.reviewed():
            self._happened[type(event).__name__] += 1
            self._note(self.name, event)
            self.handle(event)


class _Listening(Program):
    """A program that forwards its notifications."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.name, program.clock)
        self.heard: list[AnswerChanged | Described | SubscriptionEnded | Certainty] = []

    def notify(self, instruction: AnswerChanged | Described | SubscriptionEnded | Certainty) -> None:
        super().notify(instruction)
        self.heard.append(instruction)


class UpstreamFace(SimulatedClient):
    """The side of an aggregator that is a client, in one life of it."""

    def __init__(self, owner: SimulatedAggregator, upstream: UpstreamState, invariants: Invariants) -> None:
        super().__init__(
            owner.name,
            owner._schedule,
            owner._random,
            owner._network,
            owner.above,
            Encoding.MESSAGEPACK,
            ClientState,
            invariants,
            owner._happened,
            owner._note,
            upstream.after,
        )
        self._owner = owner
        self._dead = False
        self._listening = _Listening(self.program)
        self.program: Program = self._listening
        for item in upstream.items:
            upstream.wanted(self._references + 1, item)
            self.want(walk.item_query(item))

    def die(self) -> None:
        """The process is gone."""
        self._drop()
        self._attempt += 1
        self._dead = True

    def handle(self, event: Event) -> None:
        """As any client; then notify the aggregator."""
        if self._dead:
            return
        super().handle(event)
        events, self._listening.heard = self._listening.heard, []
        if self._owner.upstream is not None:
            self._owner.heard(self.state, events)
