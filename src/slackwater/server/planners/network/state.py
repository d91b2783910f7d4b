"""Network planner state, without I/O: reports and log events in, instructions out.

The contract is in `base`. Times are microseconds of a clock that never goes back.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from slackwater.core.query import Aggregate
from slackwater.core.types import Key
from slackwater.planning.aggregation.movement import Column, MovementModel
from slackwater.server.planners.network.base import (
    HERE,
    AggregatorReport,
    Instruction,
    LivePart,
    LivePlan,
    NetworkRules,
    Replan,
    Resume,
    Suspend,
)
from slackwater.server.planners.network.planner import NO_PLAN, Drafter, column_of
from slackwater.server.planners.network.watch import Watch

_UNHEARD = "the query is being planned: no aggregator that it needs has been heard of yet"


@dataclass(slots=True)
class Aggregator:
    """State of one aggregator."""

    heard: AggregatorReport | None = None
    well: int | None = None
    """When it last answered and vouched for its items."""
    lost: bool = False
    why: str = "it has not answered yet"

    @property
    def usable(self) -> bool:
        """Whether plans may use it."""
        return self.heard is not None and self.well is not None and not self.lost


@dataclass(slots=True)
class Planned:
    """A query that is planned: its plan in force, the next one if it is under way, and what was counted."""

    number: int
    epoch: int
    query: Aggregate
    plan: LivePlan | None = None
    suspended: str | None = None
    coming: tuple[int, LivePlan, int] | None = None
    """The epoch of the next plan, that plan, and when the log was last asked for it."""
    watch: Watch | None = None
    replans: int = 0
    """How often another plan was put in force."""
    reviews: int = 0
    """How often it was planned anew because of counts, or because more can be used, whether or not that was better."""
    moved: bool = False
    """True if an aggregator of its plan has changed its address since clients got the plan."""
    version: int = -1
    """Of what could be used when it was last planned."""


@dataclass(slots=True)
class ClientReport:
    """Sum of clients' reports of a query, for display; no decision depends on it."""

    seconds: float = 0.0
    uncertain: float = 0.0
    messages: int = 0
    planning: int = 0
    """Messages that plan changes took: plans, subscriptions and their ends."""

    def add(self, more: "ClientReport") -> None:
        """Another report."""
        self.seconds += more.seconds
        self.uncertain += more.uncertain
        self.messages += more.messages
        self.planning += more.planning


class NetworkState:
    """The aggregators of a network and the queries that are planned over them."""

    def __init__(
        self,
        aggregators: Iterable[str],
        rules: NetworkRules,
        movement: MovementModel,
        text_of: Callable[[Aggregate], str],
    ) -> None:
        self.rules = rules
        self.aggregators = {name: Aggregator() for name in aggregators}
        self.queries: dict[int, Planned] = {}
        self.seen: dict[int, ClientReport] = {}
        self.drafter = Drafter(rules, movement, text_of)
        self._version = 0
        """Raised when what can be used of whom is another."""
        self._began: int | None = None

    # What can be used.

    def held(self, column: Column) -> dict[str, Mapping[Key, float]]:
        """What each aggregator that can be used holds of a column."""
        return {
            name: one.heard.held.get(column, {})
            for name, one in self.aggregators.items()
            if one.usable and one.heard is not None
        }

    def concerns(self, query: Aggregate) -> bool:
        """Whether an aggregator that was heard of holds any of a sum's items."""
        column = column_of(query)
        return any(
            weight.key in one.heard.held.get(column, {})
            for one in self.aggregators.values()
            if one.heard is not None
            for weight in query.weights or ()
        )

    def kept_here(self, query: Aggregate) -> bool:
        """Whether this is a part that a plan gave to the node itself."""
        plans = [one.plan for one in self.queries.values() if one.plan is not None]
        plans += [one.coming[1] for one in self.queries.values() if one.coming is not None]
        return any(part.aggregator == HERE and part.query == query for plan in plans for part in plan.parts)

    # What aggregators say.

    def heard(self, name: str, heard: AggregatorReport, now: int) -> list[Instruction]:
        """An aggregator has answered."""
        one = self.aggregators[name]
        before = (one.usable, None if one.heard is None else one.heard.held)
        one.heard = heard
        if heard.doubt is None:
            one.well, one.lost, one.why = now, False, ""
        else:
            one.why = heard.doubt
        self._version += before != (one.usable, heard.held)
        self.counted(name, heard.generation, heard.counts)
        return self.tick(now)

    def counted(self, name: str, generation: int, counts: Mapping[str, int]) -> None:
        """How often the queries of an aggregator, or of the node itself, had something to say."""
        for query in self.queries.values():
            if query.plan is None or query.watch is None:
                continue
            for place, part in enumerate(query.plan.parts):
                if part.aggregator == name and part.text in counts:
                    query.watch.saw(place, generation, counts[part.text])

    def moved(self, name: str) -> None:
        """An aggregator has another address: who has a plan that uses it needs one that says so."""
        for query in self.queries.values():
            if query.plan is not None and any(part.aggregator == name for part in query.plan.parts):
                query.moved = True

    def parts_at(self, name: str) -> set[str]:
        """The texts of the parts that an aggregator keeps, or the node itself."""
        plans = [one.plan for one in self.queries.values() if one.plan is not None]
        return {part.text for plan in plans for part in plan.parts if part.aggregator == name}

    def silent(self, name: str, why: str, now: int) -> list[Instruction]:
        """An aggregator was asked and has not answered."""
        self.aggregators[name].why = why
        return self.tick(now)

    def tick(self, now: int) -> list[Instruction]:
        """Time has passed."""
        self._began = now if self._began is None else self._began
        for one in self.aggregators.values():
            if one.usable and one.well is not None and now >= one.well + self.rules.lost_after:
                one.lost = True
                one.why = one.why or "it has not been heard of for a while"
                self._version += 1
        out: list[Instruction] = []
        for query in self.queries.values():
            self._look(query, now, out)
        return out

    def _too_early(self, now: int) -> bool:
        """True while an aggregator had no time to answer yet: a plan without it would last for long."""
        began = now if self._began is None else self._began
        return now < began + self.rules.lost_after and any(one.well is None for one in self.aggregators.values())

    # What the log says.

    def registered(
        self, number: int, epoch: int, query: Aggregate, now: int, *, restored: bool = False
    ) -> list[Instruction]:
        """A query is to be planned, or is under another plan from here on.

        `restored`: it was registered in an earlier life of this node. The plan of its epoch is not known any more, so
        it is planned under the next one.
        """
        known = self.queries.get(number)
        if known is None:
            known = self.queries[number] = Planned(number, epoch, query)
            out: list[Instruction] = []
            if restored:
                self._suspend(known, _UNHEARD, out)
            else:
                self._begin(known, now, out)
            return out
        same = known.query == query
        known.epoch, known.query = epoch, query
        coming, known.coming = known.coming, None
        if coming is None or coming[0] != epoch or not same:
            # Not a plan of ours, or of the query under other rights: it is followed by one that is known.
            known.plan, known.version = None, -1
            out = []
            self._suspend(known, _UNHEARD, out)
            return out
        return self._put_in_force(known, coming[1], now)

    def unregistered(self, number: int) -> None:
        """A query is not wanted any more."""
        self.queries.pop(number, None)
        self.seen.pop(number, None)

    def reported(self, number: int, report: ClientReport) -> None:
        """Add the report of a client."""
        if number in self.queries:
            self.seen.setdefault(number, ClientReport()).add(report)

    # Plans.

    def _begin(self, query: Planned, now: int, out: list[Instruction]) -> None:
        plan = self._planned(query, now, out)
        if plan is not None:
            self._put_in_force(query, plan, now)

    def _planned(self, query: Planned, now: int, out: list[Instruction]) -> LivePlan | None:
        """A plan over what can be used now; where there is none the query is suspended."""
        if self._too_early(now):
            self._suspend(query, _UNHEARD, out)
            return None
        query.version = self._version
        try:
            return self.drafter.plan(query.query, self.held(column_of(query.query)))
        except NO_PLAN as error:
            self._suspend(query, self._refusal(query.query, error), out)
            return None

    def _put_in_force(self, query: Planned, plan: LivePlan, now: int) -> list[Instruction]:
        query.replans += query.plan is not None
        query.plan, query.moved = plan, False
        query.watch = Watch([part.messages for part in plan.parts], self.rules.window, now)
        resumed, query.suspended = query.suspended is not None, None
        return [Resume(query.number)] if resumed else []

    def _look(self, query: Planned, now: int, out: list[Instruction]) -> None:
        """Whether a query needs another plan."""
        if query.watch is not None:
            query.watch.pass_time(now)
        if query.coming is not None:
            epoch, plan, asked = query.coming
            if now >= asked + self.rules.append_again:
                query.coming = (epoch, plan, now)
                out.append(Replan(query.number, epoch))
            return
        if query.plan is None or query.moved or not all(self._valid(part) for part in query.plan.parts):
            if query.suspended is None or query.version != self._version:
                found = self._planned(query, now, out)
                if found is not None:
                    self._ask_for(query, found, now, out)
            return
        assert query.watch is not None
        if query.suspended is not None:
            # The lost aggregators are back before there was another plan.
            query.suspended = None
            out.append(Resume(query.number))
        moved = query.watch.drifted or query.version != self._version
        if moved and query.watch.windows >= self.rules.windows_between:
            self._reconsider(query, query.plan, query.watch, now, out)

    def _valid(self, part: LivePart) -> bool:
        """Whether an aggregator can still keep a part."""
        if part.aggregator == HERE:
            return True
        one = self.aggregators[part.aggregator]
        if not one.usable or one.heard is None:
            return False
        some = one.heard.held.get(column_of(part.query), {})
        if any(weight.key not in some for weight in part.query.weights or ()):
            return False
        # Aggregators refuse by their own exact floor; here the doubt of rounding is enough to ask for another plan.
        floor = sum(abs(weight.factor * part.query.scale) * some[weight.key] for weight in part.query.weights or ())
        return floor <= part.within * (1 + 1e-9)

    def _reconsider(self, query: Planned, plan: LivePlan, watch: Watch, now: int, out: list[Instruction]) -> None:
        """Correct the model by the counts, and plan again; a plan that is not better is dropped."""
        query.reviews += 1
        query.version = self._version
        query.watch = Watch(watch.predicted, self.rules.window, now)
        try:
            expected = self._believe(plan, watch)
            query.watch = Watch(expected, self.rules.window, now)
            other = self.drafter.plan(query.query, self.held(column_of(query.query)))
        except NO_PLAN:
            return
        relieved = _here(other) < _here(plan)
        if relieved or (not other.like(plan) and other.messages < self.rules.worth * sum(expected)):
            self._ask_for(query, other, now, out)

    def _believe(self, plan: LivePlan, watch: Watch) -> list[float]:
        """Correct the model by the counts; returns the prediction of each part then."""
        drafter = self.drafter
        for place, part in enumerate(plan.parts):
            counted, predicted = watch.expected_of(place, drafter.expected(part))
            # Half a message: what was never sent in so short a time is seldom, and not never.
            drafter.movement.correct(column_of(part.query), part.items, counted + 0.5, predicted + 0.5)
        return [drafter.expected(part) for part in plan.parts]

    def _ask_for(self, query: Planned, plan: LivePlan, now: int, out: list[Instruction]) -> None:
        query.coming = (query.epoch + 1, plan, now)
        out.append(Replan(query.number, query.epoch + 1))

    def _suspend(self, query: Planned, why: str, out: list[Instruction]) -> None:
        if query.suspended != why:
            query.suspended = why
            out.append(Suspend(query.number, why))

    def _refusal(self, query: Aggregate, error: Exception) -> str:
        column, keys = column_of(query), [weight.key for weight in query.weights or ()]
        away = [
            f"{name} ({one.why})"
            for name, one in self.aggregators.items()
            if not one.usable and (one.heard is None or any(key in one.heard.held.get(column, {}) for key in keys))
        ]
        lost = f"; {', '.join(away)} cannot be used at the moment" if away else ""
        return f"there is no plan for this query: {error}{lost}"


def _here(plan: LivePlan) -> int:
    """How many items the node itself has to serve."""
    return sum(len(part.items) for part in plan.parts if part.aggregator == HERE)
