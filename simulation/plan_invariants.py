"""Invariants of sums planned over aggregators, beside those of sessions and aggregators.

11. *One plan an epoch.* Every recipient of the plan of a query under an epoch gets the same; its parts are those of the
    query, each once, and their bounds add up to no more than the query's, exactly.
12. *Bound of the sum.* |value − Σ truthₖ| ≤ C, where truthₖ is that of part k of *one* plan at the position at the top
    that the position shown for the part stands for: certain or not. A value is there if and only if one of a part is.
13. *Certain.* A sum is certain only while each part of its plan is, at its own aggregator.
14. *Order.* The positions of the parts do not go back under a plan; the plans do not go back; and what was once shown
    does not become nothing.
15. *Convergence.* When the network has healed, every sum that the aggregators can keep is certain, adds up the last
    plan, and is within its bound of the truth at the end. When then an aggregator dies for good, every sum that the
    others can keep becomes certain again without it, and every other one says the tightest bound that can be had.
"""

import math
from collections.abc import Mapping
from fractions import Fraction

from simulation.aggregator import SimulatedAggregator
from simulation.invariants import Invariants, Program, Violation
from simulation.plan_client import SimulatedSum
from simulation.planner import SimulatedPlanner, planned_form
from simulation.truth import Truth
from simulation.workload import bound
from slackwater.client.live.events import Shown
from slackwater.core.query import Aggregate, StandingQuery
from slackwater.kinds.aggregate.kind import as_aggregate
from slackwater.server.lanes.network import plan_rows
from slackwater.server.planners.network.base import HERE, LivePart, LivePlan

_ROUNDING = 1e-9


class PlanInvariants(Invariants):
    """What is shown of plans; checked as any session is, but for what the rows are."""

    def __init__(self, truth: Truth, planner: SimulatedPlanner, lease: int) -> None:
        super().__init__(truth, {planner.name: planner}, lease)
        self._planner = planner

    def _check_value(self, where: str, program: Program, query: StandingQuery, shown: Shown, ref: int) -> None:
        """Invariant 11."""
        assert shown.query is not None
        assert shown.epoch is not None
        if shown.bound != query.bound.within:
            raise Violation(f"{where}: the plan is for a sum within {shown.bound}, asked was {query.bound.within}")
        if not shown.rows:
            return
        plan = self._planner.plans.get((shown.query, shown.epoch))
        expected = dict(plan_rows(plan, lambda name: (name,) if name else ()))
        if shown.rows != expected:
            raise Violation(f"{where}: plan {shown.epoch} is {shown.rows}, and others were told {expected}")
        if program.rows.get(ref) != shown.rows:
            raise Violation(f"{where}: told {program.rows.get(ref)} and shows {shown.rows}")
        assert plan is not None
        _check_plan(where, plan, planned_form(query))


def _check_plan(where: str, plan: LivePlan, query: Aggregate) -> None:
    weights = sorted(((one.key, one.factor) for part in plan.parts for one in part.query.weights or ()), key=repr)
    if weights != sorted(((one.key, one.factor) for one in query.weights or ()), key=repr):
        raise Violation(f"{where}: the parts of {plan} are not those of {query}")
    if sum((Fraction(part.within) for part in plan.parts), Fraction(0)) > Fraction(query.bound.within):
        raise Violation(f"{where}: the bounds of {plan} are more than {query.bound.within} together")


class SumInvariants:
    """What is shown of sums."""

    def __init__(self, truth: Truth, aggregators: Mapping[str, SimulatedAggregator], planner: SimulatedPlanner) -> None:
        self._truth = truth
        self._aggregators = aggregators
        self._planner = planner
        self._seen: dict[str, Shown] = {}
        self._least: dict[tuple[object, ...], float] = {}
        self.dead: set[str] = set()
        """Aggregators that will not come back."""
        self.checks = 0

    def check(self, one: SimulatedSum) -> Shown:
        """Invariants 12, 13 and 14; what is shown."""
        shown, before = one.shown, self._seen.get(one.name)
        if bool(shown.why) is shown.certain:
            raise Violation(f"{one.name}: certain {shown.certain}, because {shown.why!r}")
        if shown.positions is None:
            if before is not None or shown.value is not None or shown.certain:
                raise Violation(f"{one.name}: was shown and is nothing now, or is shown as of nothing: {shown}")
            return shown
        plan = self._plan(shown)
        if [part.aggregator for part in plan.parts] != [name for name, _ in shown.positions]:
            raise Violation(f"{one.name}: shows parts at {shown.positions}, and the plan is {plan}")
        if before is not None and before != shown:
            self._check_order(one, before, shown)
        if shown.certain:
            self._check_certain(one, plan)
        if before != shown:
            self._seen[one.name] = shown
            self.checks += 1
            self._check_value(one, shown, plan)
        return shown

    def _plan(self, shown: Shown) -> LivePlan:
        assert shown.query is not None
        assert shown.epoch is not None
        return self._planner.plans[shown.query, shown.epoch]

    def _check_order(self, one: SimulatedSum, before: Shown, shown: Shown) -> None:
        assert before.positions is not None
        assert shown.positions is not None
        if (before.query, before.epoch) == (shown.query, shown.epoch):
            for (name, earlier), (_, later) in zip(before.positions, shown.positions, strict=True):
                if later < earlier:
                    raise Violation(f"{one.name}: the part at {name} is as of {later} after {earlier}")
        elif before.query == shown.query and (before.epoch or 0) > (shown.epoch or 0):
            raise Violation(f"{one.name}: plan {shown.epoch} after {before.epoch}")

    def _check_certain(self, one: SimulatedSum, plan: LivePlan) -> None:
        for part in plan.parts:
            if not any(
                kept.sql == part.text and kept.aggregator == part.aggregator and face.state.shown(ref, face.now).certain
                for kept, face, ref in one.parts.values()
            ):
                raise Violation(f"{one.name}: certain, and the part at {part.aggregator} is not")

    def _top(self, part: LivePart, position: int) -> int:
        """The position at the top that one of an aggregator stands for."""
        if part.aggregator == HERE:
            return position
        found = self._aggregators[part.aggregator].upstream_position(position)
        if found is None:
            raise Violation(f"as of {position} nothing of {part.aggregator} was written yet")
        return found

    def _check_value(self, one: SimulatedSum, shown: Shown, plan: LivePlan) -> None:
        assert shown.positions is not None
        asked = bound(one.sql)[0]
        if shown.bound != asked.bound.within:
            raise Violation(f"{one.name}: shown within {shown.bound}, asked was {asked.bound.within}")
        truths = [
            self._truth.value(part.query, self._top(part, position))
            for part, (_, position) in zip(plan.parts, shown.positions, strict=True)
        ]
        there = [truth for truth in truths if truth is not None]
        self._compare(one, shown, sum(there) if there else None, f"{truths} at {shown.positions}")

    def _compare(self, one: SimulatedSum, shown: Shown, truth: float | None, doubt: str) -> None:
        if (truth is None) is not (shown.value is None):
            raise Violation(f"{one.name}: {shown.value} is shown, and the truth is {truth}: {doubt}")
        if truth is not None and shown.value is not None:
            most = shown.bound + _ROUNDING * (1 + abs(truth))
            if abs(shown.value - truth) > most:
                raise Violation(
                    f"{one.name}: {shown.value} under plan {shown.epoch} "
                    f"is not within {shown.bound} of {truth}: {doubt}"
                )

    # Convergence.

    def converged(self, one: SimulatedSum) -> str | None:
        """Why a sum has not come right at the end; None where it has."""
        shown = one.shown
        query = as_aggregate(bound(one.sql)[0])
        assert query is not None
        least = self._tightest(query)
        if least > query.bound.within:
            doubt = one.plan.why
            tightest = f"{least:g}" if math.isfinite(least) else "no aggregator offers"
            if shown.certain or tightest not in doubt:
                return f"{one.name}: cannot be kept within less than {least:g}, and says {doubt!r} ({shown})"
            return None
        if not shown.certain:
            return f"{one.name} ({one.sql}) is not certain: {shown.why}"
        latest = self._planner.planner.queries.get(shown.query or -1)
        if latest is None or latest.epoch != shown.epoch:
            return f"{one.name} adds up plan {shown.epoch} of {shown.query}, and the last one is {latest}"
        truth = self._truth.value(query, int(self._truth.end))
        try:
            self._compare(one, shown, truth, "at the end")
        except Violation as found:
            return str(found)
        return None

    def _tightest(self, query: Aggregate) -> float:
        """The tightest bound that can be had of what there is, not of what the planner knows: it has to find out.

        An aggregator that is down, and will be up again, has to be waited for.
        """
        there = {name: of.items for name, of in self._aggregators.items() if name not in self.dead}
        if (query, *there) not in self._least:
            held = {name: {item.key: item.within for item in items} for name, items in there.items()}
            problem = self._planner.planner.drafter.problem(planned_form(query), held)
            self._least[query, *there] = problem.tightest
        return self._least[query, *there]
