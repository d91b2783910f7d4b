"""World with aggregators: a log with its nodes, an aggregator of them, one stacked on that, and clients of both.

>>> report = run(1)
>>> report.violation is None, report.changes >= 200
(True, True)
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from simulation import walk, workload
from simulation.aggregator import SimulatedAggregator
from simulation.aggregator_invariants import AggregatedInvariants, Level
from simulation.client import SimulatedClient
from simulation.clock import Schedule
from simulation.invariants import Invariants, Violation
from simulation.network import Faults, Network
from simulation.node import SimulatedNode
from simulation.run import Note, Report, play
from simulation.truth import Truth
from simulation.world import RULES
from slackwater.aggregator.engine import AggregatorEngine
from slackwater.aggregator.upstream.state import UpstreamState
from slackwater.client.live.state import ClientState
from slackwater.dissemination.encoding import Encoding
from slackwater.sessions.state import ServerState

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class TreeSetting:
    """Size of a world, and the classes of its aggregators."""

    clients: int = 3
    """Of each aggregator."""
    changes: int = 400
    chaos: int = 8 * _SECOND
    server: type[ServerState] = ServerState
    upstream: type[UpstreamState] = UpstreamState
    engine: type[AggregatorEngine] | None = None
    """None: the real one in some worlds, a quicker one in the others."""


class Tree:
    """Everything in it follows from the seed."""

    def __init__(self, seed: int, setting: TreeSetting, note: Note | None) -> None:
        self.random = Random(seed)
        self.setting = setting
        self.schedule = Schedule()
        self.happened: Counter[str] = Counter()
        self._noted = note
        self._walk = walk.Walk(self.random)
        self.network = Network(self.schedule, self.random, Faults.draw(self.random), self.happened)
        self.truth = Truth(workload.TABLE, lambda text: workload.bound(text)[0])
        make = workload.engine(seed)
        arguments = (self.schedule, self.random, self.network)
        self.nodes = [
            SimulatedNode(f"n{nth}", *arguments, self.truth, RULES, ServerState, make, self.happened, self.note)
            for nth in range(2)
        ]
        engine = setting.engine or (walk.LabAggregatorEngine if seed % 10 == 0 else walk.PlainAggregatorEngine)
        checked = Invariants(self.truth, {node.name: node for node in self.nodes}, RULES.lease)
        self.invariants: list[AggregatedInvariants] = []
        self.levels: list[Level] = []
        self.aggregators: list[SimulatedAggregator] = []
        self.clients: list[SimulatedClient] = []
        above: list[SimulatedNode] = self.nodes
        truth = self.truth
        for name, bounds in (("near", walk.NEAR), ("far", walk.FAR)):
            own = Truth(walk.HELD, lambda text: workload.bound(text)[0])
            aggregator = SimulatedAggregator(
                name,
                *arguments,
                own,
                RULES,
                setting.server,
                engine,
                self.happened,
                self.note,
                above=above,
                invariants=checked,
                items=walk.items(above[0].name if len(above) == 1 else "nodes", bounds),
                upstream_class=setting.upstream,
            )
            self.aggregators.append(aggregator)
            self.levels.append(Level(aggregator, truth, above, walk.too_tight(bounds)))
            checked = AggregatedInvariants(own, {name: aggregator}, RULES.lease, tuple(self.levels))
            self.invariants.append(checked)
            self.clients += [self._client(f"{name}-{nth}", aggregator, checked) for nth in range(setting.clients)]
            above, truth = [aggregator], own

    def _client(self, name: str, aggregator: SimulatedAggregator, invariants: Invariants) -> SimulatedClient:
        encoding = Encoding.JSON if name.endswith("2") else Encoding.MESSAGEPACK
        arguments = (self.schedule, self.random, self.network, [aggregator], encoding, ClientState, invariants)
        return SimulatedClient(name, *arguments, self.happened, self.note)

    @property
    def changes(self) -> int:
        """How often an item changed."""
        return self._walk.changes

    @property
    def checks(self) -> int:
        """How many different things that were shown have been compared with the truth."""
        return sum(one.checks for one in self.invariants)

    def note(self, who: str, what: object) -> None:
        """Write into the trace, if there is one."""
        if self._noted is not None:
            self._noted(self.schedule.now, who, what)

    def run(self) -> None:
        """Let things happen and go wrong, then heal the network and see that everything comes right."""
        self._plan()
        while self.schedule.now < self.setting.chaos:
            self.schedule.run(self.schedule.now + 20_000)
            self._look()
        self._heal()
        quiet_since, ends = self.schedule.now, self._ends()
        while self.schedule.now < quiet_since + 4 * _SECOND:
            self.schedule.run(self.schedule.now + 100_000)
            self._look()
            if self._ends() != ends or not all(node.up for node in (*self.nodes, *self.aggregators)):
                quiet_since, ends = self.schedule.now, self._ends()
            if self.schedule.now > self.setting.chaos + 40 * _SECOND:
                raise Violation("the logs do not come to rest after the network has healed")
        for place, client in enumerate(self.clients):
            invariants = self.invariants[place // self.setting.clients]
            why = invariants.converged(client.program, client.state, client.wanted, client.now)
            if why is not None:
                raise Violation(why)

    def _ends(self) -> list[int]:
        return [int(self.truth.end), *(int(level.aggregator.log.end) for level in self.levels)]

    def _look(self) -> None:
        for level in self.levels:
            level.check(self.schedule.now, RULES.lease)
        for client in self.clients:
            client.probe()

    # Events.

    def _plan(self) -> None:
        bounds = {"near": walk.NEAR, "far": walk.FAR}
        for client in self.clients:
            for _ in range(self.random.randint(1, 3)):
                client.want(walk.subscription(self.random, bounds[client.name.split("-")[0]]))
        for level, client in zip(self.levels, self.clients[:: self.setting.clients], strict=True):
            client.want(level.too_tight)
        self.truth.change(self._walk.updates(12))
        self._at_random(lambda: self.truth.change(self._walk.updates(self.random.randint(1, 4))), 160)
        self.schedule.at(self.setting.chaos - 1, self._rest_of_the_changes)
        everybody = [*self.nodes, *self.aggregators]
        self._at_random(lambda: self._kill(self.nodes), 1)
        self._at_random(lambda: self._kill(self.aggregators), 2)
        self._at_random(self._come_back_to_the_past, 1)
        self._at_random(lambda: self.random.choice(everybody).take_snapshot(), 4)
        self._at_random(self._partition_client, 2)
        self._at_random(self._partition_aggregator, 2)
        self._at_random(lambda: self._lag(everybody), 3)
        self._at_random(lambda: self.random.choice(everybody).block(self.random.randrange(200_000, 1_500_000)), 6)
        self._at_random(lambda: self.random.choice(self.clients).reconnect(), 2)
        self._at_random(lambda: self.random.choice(self.aggregators).reconnect(), 5)
        self._at_random(lambda: self.random.choice(self.clients).unwant(), 2)
        for node in everybody:
            node.appends_lost = 0.2
            self._follow(node)

    def _at_random(self, call: Callable[[], None], times: int) -> None:
        for _ in range(times):
            self.schedule.at(self.random.randrange(self.setting.chaos), call)

    def _rest_of_the_changes(self) -> None:
        while self.changes < self.setting.changes:
            self.truth.change(self._walk.updates(3))

    def _follow(self, node: SimulatedNode) -> None:
        node.follow()
        self.schedule.after(self.random.randrange(50_000, 300_000), lambda: self._follow(node))

    def _kill(self, some: "list[SimulatedNode] | list[SimulatedAggregator]") -> None:
        up = [node for node in some if node.up]
        if not up:
            return
        node = self.random.choice(up)
        forget = self.random.random() < 0.5
        if not forget:
            node.take_snapshot()
        self.happened["aggregator killed" if isinstance(node, SimulatedAggregator) else "node killed"] += 1
        node.stop(forget=forget)
        self.schedule.after(self.random.randrange(100_000, 2_500_000), node.start)

    def _come_back_to_the_past(self) -> None:
        """Have an aggregator start again while a node above it is behind what the aggregator has written."""
        node, near = self.random.choice(self.nodes), self.aggregators[0]
        self.note(node.name, "cannot read its log")
        node.lagging_until = self.schedule.now + 4 * _SECOND
        self.network.partition([(near.name, node.name)], 1_500_000)

        def kill() -> None:
            if near.up and node.up:
                self.happened["aggregator back to a node that is behind"] += 1
                near.stop(forget=False)
                others = [(near.name, other.name) for other in self.nodes if other is not node]
                self.network.partition(others, 1_500_000)
                self.schedule.after(100_000, near.start)

        self.schedule.after(1_500_000, kill)

    def _partition_client(self) -> None:
        client = self.random.choice(self.clients)
        pair = (client.name, client.name.split("-")[0])
        self.note("network", f"{pair} are apart")
        self.network.partition([pair], self.random.randrange(500_000, 2_500_000))

    def _partition_aggregator(self) -> None:
        """Cut an aggregator off from all above it."""
        level = self.random.choice(self.levels)
        self.happened["aggregator cut off"] += 1
        self.note("network", f"{level.aggregator.name} is apart from all above it")
        pairs = [(level.aggregator.name, node.name) for node in level.above]
        self.network.partition(pairs, self.random.randrange(1_000_000, 3_000_000))

    def _lag(self, nodes: list[SimulatedNode]) -> None:
        node = self.random.choice(nodes)
        self.happened["node behind the log"] += 1
        self.note(node.name, "cannot read its log")
        node.lagging_until = self.schedule.now + self.random.randrange(500_000, 2_500_000)

    def _heal(self) -> None:
        self.note("network", "has healed")
        self.network.heal()
        for node in (*self.nodes, *self.aggregators):
            node.appends_lost = 0.0
            node.lagging_until = 0
        for aggregator in self.aggregators:
            aggregator.writes_fail = aggregator.writes_slow = 0.0


def run(seed: int, setting: TreeSetting | None = None, trace: list[str] | None = None) -> Report:
    """Simulate a world with aggregators."""
    return play(seed, lambda note: Tree(seed, setting or TreeSetting(), note), trace)


def traced(seed: int, setting: TreeSetting | None = None) -> Iterator[str]:
    """The lines of a run's trace."""
    trace: list[str] = []
    report = run(seed, setting, trace)
    yield from trace
    yield f"seed {seed}: {report.violation or 'every promise was kept'}"
