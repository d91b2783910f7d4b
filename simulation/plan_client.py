"""Simulated client of planned sums: the real states of all its sessions, and the real partial sums."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from simulation.client import SimulatedClient
from simulation.clock import Schedule
from simulation.invariants import Invariants
from simulation.network import Network
from simulation.node import SimulatedNode
from slackwater.client.live.events import Event, Shown, Unwanted
from slackwater.client.live.state import ClientState
from slackwater.client.planned.partial_sum import PartialSum, Step, SubscribePart, SumPart, UnsubscribePart, part_of
from slackwater.dissemination.encoding import Encoding

AGAIN = 300_000


@dataclass(frozen=True, slots=True)
class Place:
    """Servers of parts: the nodes of a place, and the invariants of their answers."""

    nodes: Sequence[SimulatedNode]
    invariants: Invariants


class Face(SimulatedClient):
    """One of the sessions of a client; the partial sum gets every event."""

    after: Callable[[], None] = staticmethod(lambda: None)

    def handle(self, event: Event) -> None:
        """As any client."""
        super().handle(event)
        self.after()

    def ask(self, sql: str) -> int:
        """Subscribe, and return the number of the subscription."""
        ref = self._references + 1
        self.want(sql)
        return ref

    def end(self, ref: int) -> None:
        """End one of the subscriptions."""
        if self.wanted.pop(ref, None) is not None:
            self.program.forget(ref)
            self.handle(Unwanted(ref))


class SimulatedSum:
    """One planned sum. `places` are by the name of an aggregator; the empty one is the nodes themselves."""

    def __init__(
        self,
        name: str,
        sql: str,
        schedule: Schedule,
        random: Random,
        network: Network,
        planner: Place,
        places: Mapping[str, Place],
        adding: type[PartialSum],
        happened: Counter[str],
        note: Callable[[str, object], None],
    ) -> None:
        self.name = name
        self.sql = sql
        self.adding = adding()
        self.parts: dict[int, tuple[SumPart, Face, int]] = {}
        self.checked: Callable[[SimulatedSum], object] = lambda one: None
        self._about = (schedule, random, network)
        self._happened = happened
        self._note = note
        self._places = places
        self._faces: dict[str, Face] = {}
        self._looking = False
        self._again: set[int] = set()
        self._plans = self._face(f"{name}-plans", planner)
        self._plan = 1
        self._plans.ask(sql)

    def _face(self, name: str, place: Place) -> Face:
        schedule, random, network = self._about
        encoding = random.choice((Encoding.JSON, Encoding.MESSAGEPACK))
        about = (place.nodes, encoding, ClientState, place.invariants)
        made = Face(name, schedule, random, network, *about, self._happened, self._note)
        made.after = self.look
        return made

    @property
    def faces(self) -> list[Face]:
        """All its sessions."""
        return [self._plans, *self._faces.values()]

    @property
    def plan(self) -> Shown:
        """The state of the plan."""
        return self._plans.state.shown(self._plan, self._plans.now)

    def part(self, place: int) -> Shown:
        """The state of a part."""
        _, face, ref = self.parts[place]
        return face.state.shown(ref, face.now)

    @property
    def shown(self) -> Shown:
        """The state for the program."""
        # What is known of the plan is asked for only where it is shown: this is called at every event.
        waiting = "" if self.adding.which is not None else self.plan.why or "its plan is awaited"
        return self.adding.shown(self.part, waiting)

    def look(self) -> None:
        """As `client.planned.service` does."""
        if self._looking:
            return
        self._looking = True
        try:
            plan = self.plan
            if plan.rows and plan.as_of is not None and plan.query is not None and plan.epoch is not None:
                parts = map(part_of, plan.rows.values())
                self._do(self.adding.plan((plan.query, plan.epoch), plan.as_of, plan.bound, parts, plan.incarnation))
            before = self.adding.plans
            self._do(self.adding.look(self.part))
            if self.adding.plans > before:
                self._happened["plan taken up" if before else "first plan taken up"] += 1
                self._note(self.name, f"adds up plan {self.adding.which}")
            self._ask_again()
        finally:
            self._looking = False
        self.checked(self)

    def _do(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._note(self.name, step)
            match step:
                case SubscribePart(place, part):
                    self._ask(place, part)
                case UnsubscribePart(place):
                    _, face, ref = self.parts.pop(place)
                    face.end(ref)

    def _ask(self, place: int, part: SumPart) -> None:
        where = part.aggregator
        if where not in self._faces:
            self._faces[where] = self._face(f"{self.name}-{where or 'nodes'}", self._places[where])
        face = self._faces[where]
        self.parts[place] = (part, face, face._references + 1)
        face.ask(part.sql)

    def _ask_again(self) -> None:
        schedule = self._about[0]
        for place, (_, face, ref) in self.parts.items():
            if ref in face.program.ended and place not in self._again:
                self._again.add(place)
                self._happened["part refused"] += 1
                schedule.after(AGAIN, lambda place=place: self._asked_again(place))  # type: ignore[misc]

    def _asked_again(self, place: int) -> None:
        self._again.discard(place)
        if place in self.parts:
            part, face, ref = self.parts[place]
            self._looking = True
            face.end(ref)
            self._ask(place, part)
            self._looking = False
            self.look()
