"""Invariants of aggregators, beside those of any node.

Notation: *M(L)* is the position of the upstream that was written to the aggregator's log before its position L. The
simulation notes it when a write becomes durable; the aggregator itself need not know.

8.  *Bound, all the way up.* |value − truth| ≤ bound, where truth is that of the log at the top, at M applied once for
    every aggregator between: certain or not. A value is there if and only if it is there in truth.
9.  *Nothing stale is vouched for.* Whenever an aggregator serves a query that is not suspended to anybody, there is
    *one* position P of its upstream such that every item that it has applied is within its bound of what it is at P,
    and P is no earlier than where the upstream's nodes stood one lease and two writes ago. (A write may take a lease.)
10. *Convergence, all the way up.* When the network has healed, everything wanted is certain and within its bound of the
    truth at the end of the log at the top; and what cannot be promised has been refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulation.aggregator import SimulatedAggregator
from simulation.invariants import Invariants, Program, Violation
from simulation.node import SimulatedNode
from simulation.truth import Truth
from simulation.workload import bound
from slackwater.client.live.events import Shown
from slackwater.client.live.state import ClientState
from slackwater.core.query import StandingQuery
from slackwater.core.types import Key

_ROUNDING = 1e-9
_CLOCKS = 2_000
"""Microseconds by which clocks that are not equally fast may differ over a few leases."""


@dataclass(slots=True)
class Level:
    """An aggregator, and the log and the nodes above it."""

    aggregator: SimulatedAggregator
    truth: Truth
    above: Sequence[SimulatedNode]
    too_tight: str
    """What it has to refuse."""
    _witness: tuple[dict[Key, float], int] | None = None

    def check(self, now: int, lease: int) -> None:
        """Invariant 9."""
        one = self.aggregator
        if one.written[1][-2:] != sorted(one.written[1][-2:]):
            raise Violation(f"{one.name}: the upstream went back to {one.written[1][-1]}")
        if not one.vouches:
            return
        then = now - 3 * lease - _CLOCKS
        stood = [node.stood_at(then) for node in self.above]
        least = min((position for position in stood if position is not None), default=0)
        held = _prices(one.log, int(one.engine.position))
        if self._witness is not None and self._witness[0] == held and self._witness[1] >= least:
            return
        for position in range(int(self.truth.end), least - 1, -1):
            if self._right(held, position):
                self._witness = (held, position)
                return
        raise Violation(f"{one.name}: it serves {held}, which is right at no position from {least} on")

    def _right(self, held: dict[Key, float], position: int) -> bool:
        truth = _prices(self.truth, position)
        for item in self.aggregator.items:
            here, there = held.get(item.key), truth.get(item.key)
            if (here is None) is not (there is None):
                return False
            if here is not None and there is not None and abs(here - there) > item.within + _ROUNDING:
                return False
        return True


def _prices(truth: Truth, position: int) -> dict[Key, float]:
    return truth.column("price", position)


class AggregatedInvariants(Invariants):
    """Checks what a client of an aggregator shows; `levels` are those from the top down to it."""

    def __init__(self, truth: Truth, nodes: Mapping[str, SimulatedNode], lease: int, levels: tuple[Level, ...]) -> None:
        super().__init__(truth, nodes, lease)
        self._levels = levels

    def converged(self, program: Program, state: ClientState, wanted: Mapping[int, str], now: int) -> str | None:
        """Invariant 10."""
        why = super().converged(program, state, wanted, now)
        if why is not None:
            return why
        top = self._levels[0].truth
        for ref, sql in wanted.items():
            query = bound(sql)[0]
            refused = query == bound(self._levels[-1].too_tight)[0]
            if refused is not (ref in program.ended):
                return f"{program.name} {ref} ({sql}) is {'kept' if refused else 'refused'}: {program.ended.get(ref)}"
            if not refused:
                end = int(top.end)
                self._compare(f"{program.name} {ref}", state.shown(ref, now), top.value(query, end), end)
        return None

    def _check_value(self, where: str, program: Program, query: StandingQuery, shown: Shown, ref: int) -> None:
        super()._check_value(where, program, query, shown, ref)
        position = shown.as_of
        for level in reversed(self._levels):
            assert position is not None
            position = level.aggregator.upstream_position(position)
            if position is None:
                raise Violation(f"{where}: as of {shown.as_of} nothing of {level.aggregator.name} was written yet")
        self._compare(where, shown, self._levels[0].truth.value(query, position or 0), position or 0)

    def _compare(self, where: str, shown: Shown, truth: float | None, position: int) -> None:
        """Invariant 8."""
        if (truth is None) is not (shown.value is None):
            raise Violation(f"{where}: {shown.value} stands for {position} at the top, where the truth is {truth}")
        if truth is None or shown.value is None:
            return
        if abs(shown.value - truth) > shown.bound + _ROUNDING * (1 + abs(truth)):
            raise Violation(
                f"{where}: {shown.value} stands for {position} at the top, where the truth is {truth}: "
                f"not within {shown.bound}"
            )
