"""Simulated planner: the real states of the planner and of its sessions, with simulated aggregators."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from simulation.aggregator import SimulatedAggregator
from simulation.clock import Schedule
from simulation.host import PlainHost
from simulation.network import Network
from simulation.node import SimulatedNode
from simulation.truth import Truth
from simulation.workload import TABLE, LabEngine, written
from slackwater.core.errors import Infeasible
from slackwater.core.hosts import HostKind
from slackwater.core.query import Aggregate, StandingQuery
from slackwater.hosting.step import Registration
from slackwater.kinds.registry import plain_query
from slackwater.log.records import Registered
from slackwater.planning.aggregation.movement import MovementModel
from slackwater.processing.base import Notifications
from slackwater.server.lanes.network import PlanRows, PlanState, plan_rows
from slackwater.server.planners.network.base import (
    AggregatorReport,
    Instruction,
    LivePlan,
    NetworkRules,
    Replan,
    Resume,
    Suspend,
)
from slackwater.server.planners.network.plannable import plannable
from slackwater.server.planners.network.state import NetworkState
from slackwater.sessions.events import (
    Append,
    Applied,
    QueriesResumed,
    QueriesSuspended,
    QueryRegistered,
    QueryUnregistered,
)
from slackwater.sessions.rules import SessionRules

ASKED_EVERY = 200_000
COLUMN = ("items", "price")


def on_network(one: Registration) -> bool:
    """A planned query."""
    return one.host is HostKind.NETWORK


class PlanEngine(LabEngine):
    """Registrations of planned queries, as the engine of a node has them."""

    def __init__(self) -> None:
        super().__init__()
        self.host = PlainHost()
        self.keeps = on_network


def planned_form(query: StandingQuery) -> Aggregate:
    """A query in the form that it is planned in."""
    found = plannable(query, TABLE)
    assert found is not None
    return found


class SimulatedPlanner(SimulatedNode):
    """One planner over all its lives. `plans` has what was ever in force, by number and epoch."""

    def __init__(
        self,
        name: str,
        schedule: Schedule,
        random: Random,
        network: Network,
        truth: Truth,
        rules: SessionRules,
        happened: Counter[str],
        note: Callable[[str, object], None],
        *,
        aggregators: Sequence[SimulatedAggregator],
        network_rules: NetworkRules,
        planner_class: type[NetworkState],
    ) -> None:
        self.plans: dict[tuple[int, int], LivePlan] = {}
        self._aggregators = aggregators
        self._network_rules = network_rules
        self._planner_class = planner_class
        super().__init__(name, schedule, random, network, truth, rules, PlanState, PlanEngine, happened, note)

    def start(self) -> None:
        """Begin a life: what was believed of the items is forgotten, and so are the plans."""
        self.planner = self._planner_class(
            [one.name for one in self._aggregators], self._network_rules, MovementModel(), written
        )
        super().start()
        assert isinstance(self.state, PlanState)
        self.state.subscriptions.rows = self._rows
        for one, query in self.engine.kept():
            self._do(self.planner.registered(one.number, one.epoch, planned_form(query), self._now, restored=True))
        generation = self.generation
        for aggregator in self._aggregators:
            self._ask(generation, aggregator)

    @property
    def _now(self) -> int:
        return self.clock.read(self._schedule.now)

    def _rows(self, number: int) -> PlanRows:
        known = self.planner.queries.get(number)
        plan = None if known is None else known.plan
        if known is not None and plan is not None:
            self.plans.setdefault((number, known.epoch), plan)
        return plan_rows(plan, lambda name: (name,) if name else ())

    # The aggregators.

    def _ask(self, generation: int, one: SimulatedAggregator) -> None:
        if not self.up or generation != self.generation:
            return
        if one.up and self._network.connected(self.name, one.name):
            assert one.upstream is not None
            held = {COLUMN: {item.key: item.within for item in one.items}}
            counts = {kept.text: one.engine.notified[kept.number] for kept in one.engine.registrations.values()}
            heard = AggregatorReport(one.generation, held, one.upstream.doubt, counts)
            self._schedule.after(self._network.delay(), lambda: self._heard(generation, one, heard))
        else:
            self._schedule.after(ASKED_EVERY, lambda: self._heard(generation, one, None))

    def _heard(self, generation: int, one: SimulatedAggregator, heard: AggregatorReport | None) -> None:
        if not self.up or generation != self.generation:
            return
        if heard is None:
            self._do(self.planner.silent(one.name, "it does not answer", self._now))
        else:
            self._do(self.planner.heard(one.name, heard, self._now))
        self._schedule.after(ASKED_EVERY, lambda: self._ask(generation, one))

    # The log.

    def follow(self) -> None:
        """Read on in the log, up to its end or not quite."""
        if not self.up or self._schedule.now < self.lagging_until:
            return
        start, end = int(self.engine.position), int(self._truth.end)
        for events in self.engine.events(self._truth.read(start, end)) if start < end else ():
            for event in events:
                match event:
                    case QueryRegistered(one, query):
                        number, epoch = one.number, one.epoch
                        todo = self.planner.registered(number, epoch, planned_form(query), self._now)
                        self.handle(event)
                        self._do(todo)
                    case QueryUnregistered(number):
                        self.planner.unregistered(number)
                        self.handle(event)
                    case Applied(notifications):
                        # The value of the sum itself is not published.
                        self.handle(Applied(Notifications(notifications.position)))
                    case _:
                        self.handle(event)
            self._stands()

    def _do(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            self._note(self.name, instruction)
            self._happened[type(instruction).__name__.lower()] += 1
            match instruction:
                case Replan(number, epoch):
                    self.register_again(number, epoch)
                case Suspend(number, why):
                    self.handle(QueriesSuspended((number,), why))
                case Resume(number):
                    self.handle(QueriesResumed((number,)))

    def register_again(self, number: int, epoch: int) -> None:
        """Ask the log for a plan, perhaps for one that is late."""
        one = self.engine.registrations.get(number)
        if one is not None:
            query = plain_query(self.engine.query(number))
            record = Registered("items", one.text, one.owner, one.name, number, epoch, query, HostKind.NETWORK.value)
            self._carry_out(Append((record,)))

    def unsettle(self) -> None:
        """Have a query planned by other beliefs, as counts would in the course of hours."""
        queries = [one for one in self.planner.queries.values() if one.plan is not None and one.coming is None]
        if not self.up or not queries:
            return
        query = self._random.choice(queries)
        for weight in query.query.weights or ():
            self.planner.drafter.movement.correct(
                COLUMN, [str(weight.key[0])], self._random.choice((0.02, 1.0, 50.0)), 1.0
            )
        try:
            plan = self.planner.drafter.plan(query.query, self.planner.held(COLUMN))
        except Infeasible:
            return
        assert query.plan is not None
        if not plan.like(query.plan):
            self._happened["another plan is better"] += 1
            out: list[Instruction] = []
            self.planner._ask_for(query, plan, self._now, out)
            self._do(out)
