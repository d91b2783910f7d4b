"""Simulated world: a log that all nodes read, the nodes, the clients and the scheduled faults."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from simulation import workload
from simulation.client import SimulatedClient
from simulation.clock import Schedule
from simulation.invariants import Invariants, Violation
from simulation.network import Faults, Network
from simulation.node import SimulatedNode
from simulation.truth import Truth
from slackwater.client.live.state import ClientState
from slackwater.core.query import AnswerShape
from slackwater.core.types import Instant
from slackwater.dissemination.encoding import Encoding
from slackwater.hosting.log_clock import LogClock
from slackwater.log.records import Registered, Unregistered
from slackwater.sessions.engine import NodeEngine
from slackwater.sessions.rules import SessionRules
from slackwater.sessions.state import ServerState

_SECOND = 1_000_000
TICK_PERIODS = frozenset({200_000, 300_000})
"""As if queries needed them."""
RULES = SessionRules(
    lease=1 * _SECOND,
    heartbeat=250_000,
    silence=3 * _SECOND,
    grace=1_500_000,
    append_again=400_000,
    retransmit_again=50_000,
)
"""Everything is quick."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Size of a world, and the classes of its nodes and clients."""

    nodes: int = 3
    clients: int = 5
    changes: int = 200
    chaos: int = 6 * _SECOND
    """How long things go wrong."""
    server: type[ServerState] = ServerState
    client: type[ClientState] = ClientState
    engine: Callable[[], NodeEngine] | None = None
    """None: the real one in some worlds, a quicker one in the others."""
    log_clock: Callable[[Instant], LogClock] | None = LogClock
    """None: a log without ticks."""


class World:
    """Everything in it follows from the seed."""

    client_class = SimulatedClient
    node_class: type[SimulatedNode] = SimulatedNode
    invariants_class = Invariants

    def __init__(self, seed: int, setting: Setting, note: Callable[[int, str, object], None] | None) -> None:
        self.random = Random(seed)
        self.setting = setting
        self.schedule = Schedule()
        self.happened: Counter[str] = Counter()
        self.changes = 0
        self._noted = note
        self.truth = Truth(workload.TABLE, lambda text: workload.bound(text)[0])
        self.network = Network(self.schedule, self.random, Faults.draw(self.random), self.happened)
        self.nodes = [
            self.node_class(
                f"n{nth}",
                self.schedule,
                self.random,
                self.network,
                self.truth,
                RULES,
                setting.server,
                setting.engine or workload.engine(seed),
                self.happened,
                self.note,
                setting.log_clock or LogClock,
            )
            for nth in range(setting.nodes)
        ]
        self.invariants = self.invariants_class(self.truth, {node.name: node for node in self.nodes}, RULES.lease)
        for node in self.nodes:
            node.watch = self.invariants.check_time
        # A tick ends a step, and long steps show more: half of the worlds are without.
        ticks = setting.log_clock is not None and seed % 2 == 0
        self._ticking = Random(f"wall clocks of {seed}") if ticks else None
        self.clients = [
            self.client_class(
                f"c{nth}",
                self.schedule,
                self.random,
                self.network,
                self.nodes,
                Encoding.JSON if nth % 4 == 3 else Encoding.MESSAGEPACK,
                setting.client,
                self.invariants,
                self.happened,
                self.note,
            )
            for nth in range(setting.clients)
        ]

    @property
    def checks(self) -> int:
        """How many different things that were shown have been compared with the truth."""
        return self.invariants.checks

    def note(self, who: str, what: object) -> None:
        """Write into the trace, if there is one."""
        if self._noted is not None:
            self._noted(self.schedule.now, who, what)

    def run(self) -> None:
        """Let things happen and go wrong, then heal the network and see that everything comes right."""
        self._plan()
        self.schedule.run(self.setting.chaos)
        self._heal()
        quiet_since, end = self.schedule.now, self.truth.end
        # As long as it takes a client to give up a node that has come back as another, and a node to ask the log again.
        while self.schedule.now < quiet_since + 3 * _SECOND:
            self.schedule.run(self.schedule.now + 200_000)
            if self.truth.end != end or not all(node.up for node in self.nodes):
                quiet_since, end = self.schedule.now, self.truth.end
            if self.schedule.now > self.setting.chaos + 30 * _SECOND:
                raise Violation("the log does not come to rest after the network has healed")
        for client in self.clients:
            why = self.invariants.converged(client.program, client.state, client.wanted, client.now)
            if why is not None:
                raise Violation(why)

    # Events.

    def _plan(self) -> None:
        for client in self.clients:
            for _ in range(self.random.randint(2, 3)):
                client.want(workload.subscription(self.random))
            self._at_random(client.probe, 12)
        self.clients[0].want(workload.NAMED)
        self.clients[1].want(workload.SELECTIONS[0])
        self._at_random(self._change, self.setting.changes // 4)
        self.schedule.at(self.setting.chaos - 1, self._rest_of_the_changes)
        self._at_random(lambda: self._replan(late=False), 4)
        self._at_random(lambda: self._replan(late=True), 1)
        self._go_wrong()
        self._at_random(self._want_another, 3)
        self._at_random(lambda: self.random.choice(self.clients).unwant(), 3)
        self._at_random(self._drop_named, 1)

    def _go_wrong(self) -> None:
        """Faults of nodes, clients and the network between them."""
        self._at_random(lambda: self._kill(forget=False), 1)
        self._at_random(lambda: self._kill(forget=True), 1)
        self._at_random(self._snapshot, 4)
        self._at_random(self._partition_pair, 2)
        self._at_random(self._partition_node, 1)
        self._at_random(self._lag, 2)
        self._at_random(self._slow, 6)
        self._at_random(self._reconnect, 3)
        for node in self.nodes:
            node.appends_lost = 0.2
            self._follow(node)
        if self._ticking is not None:
            self._set_walls(self.nodes[0], self._ticking)
            self._tick(self.nodes[0])

    def _at_random(self, call: Callable[[], None], times: int) -> None:
        for _ in range(times):
            self.schedule.at(self.random.randrange(self.setting.chaos), call)

    def _follow(self, node: SimulatedNode) -> None:
        node.follow()
        self.schedule.after(self.random.randrange(50_000, 500_000), lambda: self._follow(node))

    def _set_walls(self, writer: SimulatedNode, random: Random) -> None:
        for by in (random.randrange(-2 * _SECOND, 0), random.randrange(_SECOND), random.randrange(-_SECOND, 0)):
            self.schedule.at(random.randrange(self.setting.chaos), partial(writer.set_wall, by))

    def _tick(self, writer: SimulatedNode) -> None:
        writer.tick(TICK_PERIODS)
        if self.schedule.now < self.setting.chaos:
            self.schedule.after(50_000, lambda: self._tick(writer))

    def _change(self) -> None:
        many = self.random.randint(1, 6)
        self.truth.change(workload.updates(self.random, self.changes, many))
        self.changes += many
        self.note("log", f"{many} changes, the log ends at {self.truth.end}")

    def _rest_of_the_changes(self) -> None:
        while self.changes < self.setting.changes:
            self._change()

    def _replan(self, *, late: bool) -> None:
        """Give a query another bound under a new epoch, as a planner would; one that is `late` changes nothing."""
        standing = self.truth.standing_now()
        if not standing:
            return
        number = self.random.choice(sorted(standing))
        text, owner, name = self._registrations()[number]
        epoch = standing[number].epoch + (0 if late else 1)
        self.happened["late plan" if late else "replan"] += 1
        query = standing[number].query
        if query is not None and query.shape is AnswerShape.ROWS:
            self.happened["replan of rows"] += 1
        text = workload.with_another_bound(text, self.random)
        record = Registered(workload.TABLE.name, text, owner, name, number, epoch)
        self.note("log", record)
        self.truth.append([record])

    def _registrations(self) -> dict[int, tuple[str, str, str | None]]:
        found = {}
        for entry in self.truth.read(0, self.truth.end):
            if isinstance(entry.record, Registered):
                number = int(entry.first) if entry.record.number is None else entry.record.number
                found[number] = (entry.record.text, entry.record.owner, entry.record.name)
        return found

    def _kill(self, *, forget: bool) -> None:
        node = self.random.choice([node for node in self.nodes if node.up])
        if not forget:
            node.take_snapshot()
        node.stop(forget=forget)
        self.schedule.after(self.random.randrange(100_000, 1_500_000), node.start)

    def _snapshot(self) -> None:
        self.random.choice(self.nodes).take_snapshot()

    def _partition_pair(self) -> None:
        pair = (self.random.choice(self.clients).name, self.random.choice(self.nodes).name)
        self.note("network", f"{pair} are apart")
        self.network.partition([pair], self.random.randrange(500_000, 2_500_000))

    def _partition_node(self) -> None:
        node = self.random.choice(self.nodes).name
        self.note("network", f"{node} is apart from all")
        pairs = [(client.name, node) for client in self.clients]
        self.network.partition(pairs, self.random.randrange(500_000, 2_000_000))

    def _lag(self) -> None:
        node = self.random.choice(self.nodes)
        self.happened["node behind the log"] += 1
        self.note(node.name, "cannot read the log")
        node.lagging_until = self.schedule.now + self.random.randrange(500_000, 2_500_000)

    def _slow(self) -> None:
        self.random.choice(self.nodes).block(self.random.randrange(200_000, 1_500_000))

    def _reconnect(self) -> None:
        self.random.choice(self.clients).reconnect()

    def _want_another(self) -> None:
        self.random.choice(self.clients).want(workload.subscription(self.random))

    def _drop_named(self) -> None:
        for number, (_, _, name) in sorted(self._registrations().items()):
            if name is not None and number in self.truth.standing_now():
                self.happened["named query dropped"] += 1
                self.truth.append([Unregistered(workload.TABLE.name, number)])

    def _heal(self) -> None:
        self.note("network", "has healed")
        self.network.heal()
        for node in self.nodes:
            node.appends_lost = 0.0
            node.lagging_until = 0
