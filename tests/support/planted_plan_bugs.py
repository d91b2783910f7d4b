"""Mutations of planned sums: planted bugs, each in a few lines."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from simulation.plan_world import PlannedSetting
from simulation.workload import written
from slackwater.client.live.events import Shown
from slackwater.client.planned.partial_sum import Look, PartialSum, Step, SumPart
from slackwater.core.bound import Bound
from slackwater.core.lineage import FORMER
from slackwater.core.query import Aggregate
from slackwater.server.planners.network.base import Instruction, LivePart, LivePlan, Replan
from slackwater.server.planners.network.state import NetworkState, Planned


@dataclass(frozen=True)
class Planted:
    """A world in which everything is right but one thing."""

    name: str
    setting: PlannedSetting
    begin: int = 0
    """The seed to begin with, for bugs that few worlds show; all others are tried after it."""


class TakenUpTooEarly(PartialSum):
    """Another plan is taken up when its first part is in."""

    def complete(self, places: Iterable[int], shown: Look) -> bool:
        return any(shown(place).certain for place in places)


class PlansMixed(PartialSum):
    """Parts of the next plan are added up as soon as they are in."""

    def shown(self, shown: Look, waiting: str) -> Shown:
        found = super().shown(shown, waiting)
        if self._current is None or self._coming is None or found.value is None:
            return found
        old, new = self._current.places, self._coming.places
        pairs = zip(old, (*new, *old[len(new) :]), strict=False)
        mixed = [later if shown(later).certain else earlier for earlier, later in pairs]
        return replace(found, value=sum(shown(place).value or 0.0 for place in mixed))


class CertainByOne(PartialSum):
    """A sum is certain when one of its parts is."""

    def shown(self, shown: Look, waiting: str) -> Shown:
        found = super().shown(shown, waiting)
        if found.positions is not None and any(shown(place).certain for place in self.places):
            return replace(found, certain=True, why="")
        return found


class AddedUpInPart(PartialSum):
    """A part that is gone is left out of the sum."""

    def _doubt(self, places: Iterable[int], shown: Look) -> str:
        return super()._doubt([place for place in places if shown(place).as_of is not None], shown)

    def complete(self, places: Iterable[int], shown: Look) -> bool:
        return any(shown(place).as_of is not None for place in places)


class OldPartsDropped(PartialSum):
    """The parts of a plan are dropped as soon as the next one is known."""

    def plan(
        self,
        which: tuple[int, int],
        position: int,
        bound: float,
        parts: Iterable[SumPart],
        incarnation: int = FORMER,
    ) -> list[Step]:
        steps = super().plan(which, position, bound, parts, incarnation)
        if self._coming is not None:
            self._current, self._last = None, None
        return steps + self._drop_unused()


class OldBoundsKept(NetworkState):
    """A part that comes into a new plan keeps the bound that it would have alone."""

    def _ask_for(self, query: Planned, plan: LivePlan, now: int, out: list[Instruction]) -> None:
        parts = tuple(self._loose(part, query.query) for part in plan.parts)
        super()._ask_for(query, LivePlan(plan.planner, parts), now, out)

    def _loose(self, part: LivePart, whole: Aggregate) -> LivePart:
        asked = replace(part.query, bound=Bound(whole.bound.within))
        return replace(part, query=asked, text=written(asked))


class LostNotNoticed(NetworkState):
    """An aggregator that does not answer any more is used as before."""

    def tick(self, now: int) -> list[Instruction]:
        for one in self.aggregators.values():
            one.well = None if one.well is None else now
        return super().tick(now)


class InForceAtOnce(NetworkState):
    """Another plan is published before the log has it, under the epoch of the one before."""

    def _ask_for(self, query: Planned, plan: LivePlan, now: int, out: list[Instruction]) -> None:
        super()._ask_for(query, plan, now, out)
        query.plan = plan


class EpochUsedAgain(NetworkState):
    """After a restart a query is planned under the epoch that it has, which had another plan."""

    def _ask_for(self, query: Planned, plan: LivePlan, now: int, out: list[Instruction]) -> None:
        if query.plan is not None:
            super()._ask_for(query, plan, now, out)
        else:
            out += self._put_in_force(query, plan, now)


class NeverAskedAgain(NetworkState):
    """A plan whose registration was lost is not asked for again."""

    def _look(self, query: Planned, now: int, out: list[Instruction]) -> None:
        found: list[Instruction] = []
        waiting = query.coming is not None
        super()._look(query, now, found)
        out += [one for one in found if not (waiting and isinstance(one, Replan))]


def _adding(adding: type[PartialSum]) -> PlannedSetting:
    return PlannedSetting(adding=adding)


def _planner(planner: type[NetworkState]) -> PlannedSetting:
    return PlannedSetting(planner=planner)


PLANTED = (
    Planted("a plan is taken up before all parts are in", _adding(TakenUpTooEarly)),
    Planted("parts of two plans are added up", _adding(PlansMixed)),
    Planted("certain when one part is", _adding(CertainByOne)),
    Planted("a part that has not come is left out", _adding(AddedUpInPart)),
    Planted("the parts of a plan are dropped too early", _adding(OldPartsDropped)),
    Planted("old bounds are kept under a new plan", _planner(OldBoundsKept)),
    Planted("a lost aggregator is used as before", _planner(LostNotNoticed)),
    Planted("another plan under the same epoch", _planner(InForceAtOnce)),
    Planted("an epoch is used again after a restart", _planner(EpochUsedAgain)),
    Planted("a lost registration is not asked for again", _planner(NeverAskedAgain)),
)
