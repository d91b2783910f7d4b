"""Faulty network: messages are lost, repeated, delayed and reordered, connections break, partitions come and go.

Some links are *ordered*, as a WebSocket is: nothing is lost or overtakes, but the link can break at any moment with
what is under way. The others carry each message for itself, as a bus does: it may be lost, come twice, or come after a
later one, even after its link was given up for another. All chance is one generator's.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from simulation.clock import Schedule


@dataclass(frozen=True, slots=True)
class Faults:
    """How bad a network is; the shares are of messages, or of connections that are made."""

    lost: float
    repeated: float
    delayed: float
    """Messages that take very long, so that others overtake them."""
    ordered: float
    broken: float
    """Messages on an ordered link in place of which the link breaks."""

    @staticmethod
    def draw(random: Random) -> "Faults":
        """A network for one run: each is bad in its own way."""
        return Faults(
            lost=random.choice((0.05, 0.1, 0.2)),
            repeated=random.choice((0.05, 0.1)),
            delayed=random.choice((0.03, 0.1)),
            ordered=random.choice((0.3, 0.5, 0.7)),
            broken=random.choice((0.005, 0.02)),
        )


NONE = Faults(0.0, 0.0, 0.0, 1.0, 0.0)


@dataclass(slots=True)
class Link:
    """A connection between a client and one life of a node."""

    number: int
    client: str
    node: str
    generation: int
    ordered: bool
    open: bool = True
    free: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    """For each direction, when what was sent before has arrived."""


class Network:
    """Carries bytes, or does not."""

    def __init__(self, schedule: Schedule, random: Random, faults: Faults, happened: Counter[str]) -> None:
        self.faults = faults
        self._schedule = schedule
        self._random = random
        self._happened = happened
        self._apart: Counter[tuple[str, str]] = Counter()
        self._links = 0

    def link(self, client: str, node: str, generation: int) -> Link:
        """A new connection."""
        self._links += 1
        # The first two are one of each kind, so that no world is without either.
        ordered = self._links % 2 == 1 if self._links <= 2 else self._random.random() < self.faults.ordered
        self._happened["link ordered" if ordered else "link unordered"] += 1
        return Link(self._links, client, node, generation, ordered)

    def partition(self, pairs: list[tuple[str, str]], duration: int) -> None:
        """Let nothing pass between these clients and nodes for a while."""
        self._happened["partition"] += 1
        self._apart.update(pairs)
        self._schedule.after(duration, lambda: self._apart.subtract(pairs))

    def connected(self, client: str, node: str) -> bool:
        """Whether anything passes between them."""
        return self._apart.get((client, node), 0) <= 0

    def heal(self) -> None:
        """Be a good network from now on."""
        self.faults = NONE
        self._apart.clear()

    def delay(self) -> int:
        """How long a message takes."""
        if self._random.random() < self.faults.delayed:
            self._happened["message delayed"] += 1
            return self._random.randrange(200_000, 900_000)
        return 1_000 + int(self._random.expovariate(1 / 15_000))

    def send(self, link: Link, to_node: bool, arrive: Callable[[], None], broke: Callable[[], None]) -> None:
        """Carry a message over a link: `arrive` is called for each time it arrives, `broke` if the link breaks."""
        if not self.connected(link.client, link.node):
            self._happened["message into a partition"] += 1
            return
        if link.ordered:
            if self._random.random() < self.faults.broken:
                self._happened["link broken"] += 1
                broke()
                return
            when = max(link.free[to_node], self._schedule.now + self.delay())
            link.free[to_node] = when
            self._schedule.at(when, arrive)
            return
        if self._random.random() < self.faults.lost:
            self._happened["message lost"] += 1
            return
        self._late(link, to_node, arrive)
        if self._random.random() < self.faults.repeated:
            self._happened["message repeated"] += 1
            self._late(link, to_node, arrive)

    def _late(self, link: Link, to_node: bool, arrive: Callable[[], None]) -> None:
        when = self._schedule.now + self.delay()
        if when < link.free[to_node]:
            self._happened["message reordered"] += 1
        link.free[to_node] = max(link.free[to_node], when)
        self._schedule.at(when, arrive)
