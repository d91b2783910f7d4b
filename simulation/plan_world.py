"""World of planned sums: a log with its nodes, aggregators of them, a planner, and clients that add parts up.

>>> report = run(1)
>>> report.violation is None, report.checks >= 20
(True, True)
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from simulation import walk, workload
from simulation.aggregator import SimulatedAggregator
from simulation.aggregator_invariants import AggregatedInvariants, Level
from simulation.clock import Schedule
from simulation.invariants import Invariants, Violation
from simulation.network import Faults, Network
from simulation.node import SimulatedNode
from simulation.plan_client import Place, SimulatedSum
from simulation.plan_invariants import PlanInvariants, SumInvariants
from simulation.planner import SimulatedPlanner
from simulation.run import Note, Report, play
from simulation.truth import Truth
from simulation.world import RULES
from slackwater.aggregator.upstream.state import UpstreamState
from slackwater.client.planned.partial_sum import PartialSum
from slackwater.core.hosts import HostKind
from slackwater.server.planners.network.base import HERE, NetworkRules
from slackwater.server.planners.network.state import NetworkState
from slackwater.sessions.state import ServerState

_SECOND = 1_000_000
WEIGHTS = (1.0, 2.0, -1.0, 0.5, 2.5)
HOLDS = (0.0, 0.25, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class PlannedSetting:
    """How large a world is, and what its planner and clients are made of."""

    aggregators: int = 4
    sums: int = 3
    chaos: int = 8 * _SECOND
    adding: type[PartialSum] = PartialSum
    planner: type[NetworkState] = NetworkState


class PlannedWorld:
    """Everything in it follows from the seed."""

    def __init__(self, seed: int, setting: PlannedSetting, note: Note | None) -> None:
        self.random = Random(seed)
        self.setting = setting
        self.schedule = Schedule()
        self.happened: Counter[str] = Counter()
        self._noted = note
        self._walk = walk.Walk(self.random)
        self.network = Network(self.schedule, self.random, Faults.draw(self.random), self.happened)
        self.truth = Truth(workload.TABLE, lambda text: workload.bound(text)[0])
        about = (self.schedule, self.random, self.network)
        make = workload.engine(1)
        self.nodes = [
            SimulatedNode(f"n{nth}", *about, self.truth, RULES, ServerState, make, self.happened, self.note)
            for nth in range(2)
        ]
        self.network_rules = NetworkRules(
            window=300_000,
            lost_after=1_200_000,
            windows_between=4,
            unheld=self.random.random() < 0.5,
            append_again=400_000,
        )
        above = Invariants(self.truth, {node.name: node for node in self.nodes}, RULES.lease)
        self.levels: list[Level] = []
        self.places = {HERE: Place(self.nodes, above)}
        for nth in range(setting.aggregators):
            self._aggregator(f"a{nth}", above)
        self.aggregators = {level.aggregator.name: level.aggregator for level in self.levels}
        self.planner = SimulatedPlanner(
            "planner",
            *about,
            self.truth,
            replace(RULES, host=HostKind.NETWORK),
            self.happened,
            self.note,
            aggregators=list(self.aggregators.values()),
            network_rules=self.network_rules,
            planner_class=setting.planner,
        )
        self.invariants = SumInvariants(self.truth, self.aggregators, self.planner)
        place = Place([self.planner], PlanInvariants(self.truth, self.planner, RULES.lease))
        self.sums: list[SimulatedSum] = []
        for nth in range(setting.sums):
            one = SimulatedSum(
                f"s{nth}", self._sum(), *about, place, self.places, setting.adding, self.happened, self.note
            )
            one.checked = self.invariants.check
            self.sums.append(one)
        self._begun: set[str] = set()

    def _aggregator(self, name: str, above: Invariants) -> None:
        keys = self.random.sample(range(1, 8), self.random.randint(3, 6))
        bounds = {key: self.random.choice(HOLDS) for key in sorted(keys)}
        own = Truth(walk.HELD, lambda text: workload.bound(text)[0])
        one = SimulatedAggregator(
            name,
            self.schedule,
            self.random,
            self.network,
            own,
            RULES,
            ServerState,
            walk.PlainAggregatorEngine,
            self.happened,
            self.note,
            above=self.nodes,
            invariants=above,
            items=walk.items("nodes", bounds),
            upstream_class=UpstreamState,
        )
        level = Level(one, self.truth, self.nodes, "")
        self.levels.append(level)
        self.places[name] = Place([one], AggregatedInvariants(own, {name: one}, RULES.lease, (level,)))

    def _sum(self) -> str:
        """A sum of some items, from the tightest bound that all aggregators can have together to a loose one."""
        there = {int(str(item.key[0])) for one in self.aggregators.values() for item in one.items}
        # Items that no aggregator holds are served only by the nodes.
        pool = range(1, 8) if self.network_rules.unheld else sorted(there)
        keys = sorted(self.random.sample(pool, min(self.random.randint(2, 5), len(pool))))
        weights = {key: self.random.choice(WEIGHTS) for key in keys}
        tightest = 0.0
        for key in keys:
            held = [item.within for one in self.aggregators.values() for item in one.items if item.key == (key,)]
            tightest += abs(weights[key]) * min(held, default=0.0)
        within = tightest * self.random.choice((1.0, 1.5, 3.0)) + self.random.choice((0.25, 1.0, 4.0))
        rows = ", ".join(f"({key}, {weight:g})" for key, weight in weights.items())
        head = "SUBSCRIBE SELECT SUM(w * price) FROM items JOIN"
        return f"{head} (VALUES {rows}) AS p(id, w) USING (id) WITHIN {within:g}"

    @property
    def changes(self) -> int:
        """How often an item changed."""
        return self._walk.changes

    @property
    def checks(self) -> int:
        """How many different things that were shown have been compared with the truth."""
        return self.invariants.checks

    def note(self, who: str, what: object) -> None:
        """Write into the trace, if there is one."""
        if self._noted is not None:
            self._noted(self.schedule.now, who, what)

    # The course of a run.

    def run(self) -> None:
        """Let things happen and go wrong; heal the network and see that all comes right; then let one die for good."""
        self._plan()
        while self.schedule.now < self.setting.chaos:
            self._pass(20_000)
        self._heal()
        self._come_right("after the network has healed")
        victim = self.random.choice(list(self.aggregators.values()))
        self.note(victim.name, "dies for good")
        victim.stop(forget=True)
        self.invariants.dead.add(victim.name)
        self._come_right(f"after {victim.name} has died")

    def _pass(self, time: int) -> None:
        self.schedule.run(self.schedule.now + time)
        for level in self.levels:
            level.check(self.schedule.now, RULES.lease)
        for one in self.sums:
            shown = self.invariants.check(one)
            if shown.certain:
                self._begun.add(one.name)
            if one.name in self._begun:
                self.happened["looks"] += 1
                self.happened["looks at what is not certain"] += not shown.certain
                self.happened["looks while plans change"] += one.adding._coming is not None

    def _come_right(self, when: str) -> None:
        give_up = self.schedule.now + 25 * _SECOND
        quiet = 0
        why: str | None = ""
        while quiet < 10:
            self._pass(100_000)
            # A while without news: what is under way may yet turn out otherwise.
            why = next((doubt for one in self.sums if (doubt := self.invariants.converged(one)) is not None), None)
            quiet = quiet + 1 if why is None else 0
            if self.schedule.now > give_up:
                raise Violation(f"{when}: {why}")

    def _plan(self) -> None:
        everybody: list[SimulatedNode] = [*self.nodes, *self.aggregators.values(), self.planner]
        aggregators = list(self.aggregators.values())
        self.truth.change(self._walk.updates(12))
        self._at_random(self._change, 160)
        self._at_random(lambda: self._kill(aggregators, 3_500_000), 3)
        self._at_random(lambda: self._kill([self.planner], 1_500_000), 1)
        self._at_random(lambda: self._kill(self.nodes, 1_500_000), 1)
        self._at_random(self.planner.unsettle, 6)
        self._at_random(self._late_plan, 2)
        self._at_random(lambda: self.random.choice(everybody).take_snapshot(), 4)
        self._at_random(self._partition_sum, 3)
        self._at_random(lambda: self._cut_off([node.name for node in self.nodes], "aggregator cut off"), 1)
        self._at_random(self._partition_planner, 1)
        self._at_random(lambda: self._lag(everybody), 3)
        self._at_random(lambda: self.random.choice(everybody).block(self.random.randrange(200_000, 1_500_000)), 5)
        self._at_random(lambda: self.random.choice(self.random.choice(self.sums).faces).reconnect(), 3)
        self._at_random(lambda: self.random.choice(aggregators).reconnect(), 2)
        for node in everybody:
            node.appends_lost = 0.2
            self._follow(node)

    def _change(self) -> None:
        self.truth.change(self._walk.updates(self.random.randint(1, 4)))

    def _at_random(self, call: Callable[[], None], times: int) -> None:
        for _ in range(times):
            self.schedule.at(self.random.randrange(self.setting.chaos), call)

    def _follow(self, node: SimulatedNode) -> None:
        node.follow()
        self.schedule.after(self.random.randrange(50_000, 300_000), lambda: self._follow(node))

    def _kill(self, some: Sequence[SimulatedNode], longest: int) -> None:
        up = [node for node in some if node.up]
        if up:
            node = self.random.choice(up)
            forget = self.random.random() < 0.5
            if not forget:
                node.take_snapshot()
            self.happened[f"{'planner' if node is self.planner else 'aggregator or node'} killed"] += 1
            node.stop(forget=forget)
            self.schedule.after(self.random.randrange(100_000, longest), node.start)

    def _late_plan(self) -> None:
        """A plan of an epoch that is in force already, or over."""
        numbers = sorted(self.planner.planner.queries)
        if self.planner.up and numbers:
            number = self.random.choice(numbers)
            self.happened["late plan"] += 1
            self.planner.register_again(number, self.planner.planner.queries[number].epoch)

    def _partition_sum(self) -> None:
        face = self.random.choice(self.random.choice(self.sums).faces)
        pairs = [(face.name, node.name) for node in face._nodes]
        self.note("network", f"{pairs} are apart")
        self.network.partition(pairs, self.random.randrange(500_000, 2_500_000))

    def _cut_off(self, above: Sequence[str], what: str) -> None:
        one = self.random.choice(list(self.aggregators))
        self.happened[what] += 1
        self.note("network", f"{one} is apart from {above}")
        self.network.partition([(one, name) for name in above], self.random.randrange(1_000_000, 3_500_000))

    def _partition_planner(self) -> None:
        one = self.random.choice(list(self.aggregators))
        self.happened["planner does not hear an aggregator"] += 1
        self.network.partition([(self.planner.name, one)], self.random.randrange(1_000_000, 3_500_000))

    def _lag(self, nodes: list[SimulatedNode]) -> None:
        node = self.random.choice(nodes)
        self.happened["node behind the log"] += 1
        self.note(node.name, "cannot read its log")
        node.lagging_until = self.schedule.now + self.random.randrange(500_000, 2_500_000)

    def _heal(self) -> None:
        self.note("network", "has healed")
        self.network.heal()
        for node in (*self.nodes, *self.aggregators.values(), self.planner):
            node.appends_lost = 0.0
            node.lagging_until = 0
        for aggregator in self.aggregators.values():
            aggregator.writes_fail = aggregator.writes_slow = 0.0
        # In a few worlds no plan was taken up before this: there is something to compare in every one.
        for _ in range(30):
            self.schedule.after(self.random.randrange(4 * _SECOND), self._change)


def run(seed: int, setting: PlannedSetting | None = None, trace: list[str] | None = None) -> Report:
    """Simulate a world in which sums are planned."""
    return play(seed, lambda note: PlannedWorld(seed, setting or PlannedSetting(), note), trace)


def traced(seed: int, setting: PlannedSetting | None = None) -> Iterator[str]:
    """The lines of a run's trace."""
    trace: list[str] = []
    report = run(seed, setting, trace)
    yield from trace
    yield f"seed {seed}: {report.violation or 'every promise was kept'}"
