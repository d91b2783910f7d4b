"""Safety invariants, checked against the truth at every moment.

1.  *Bound.* |value − truth at `as_of`| ≤ bound, and rows are those of `as_of`: always, certain or not.
2.  *Order.* `as_of` never goes back, and what was once shown does not become nothing.
3.  *Plans.* What is shown is under the plan that was in force at `as_of`, and of the query that was asked for.
4.  *Lease.* What is certain was confirmed by a frame that came less than a lease ago.
5.  *Nothing held back.* What is certain is as of a position no earlier than where the node stood at the reading of the
    client's clock that it gave back, which is less than a lease ago.
6.  *Told once.* The changes told to the program, applied in order, give what is shown, and each of them is a change.
7.  *Log time.* It never goes back, and every host has the same at the same position.
8.  *Convergence.* When the network has healed, everything wanted is certain and right as of the end of the log.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from simulation.clock import SkewedClock
from simulation.node import SimulatedNode
from simulation.truth import Truth
from simulation.workload import bound
from slackwater.client.live.events import AnswerChanged, Certainty, Described, Shown, SubscriptionEnded
from slackwater.client.live.replica import Held
from slackwater.client.live.state import ClientState
from slackwater.core.bound import EXACT
from slackwater.core.query import AnswerShape, StandingQuery
from slackwater.dissemination.messages import WireRow

_ROUNDING = 1e-9
_FROM_NODE = 2
"""Microseconds by which times read off two clocks may differ for no reason but rounding."""


class Violation(AssertionError):
    """A promise that was not kept."""


class Program:
    """Notifications that the program of a client received."""

    def __init__(self, name: str, clock: SkewedClock) -> None:
        self.name = name
        self.clock = clock
        self.frame_came: int | None = None
        """When, on its clock, the last frame arrived on the present connection."""
        self.values: dict[int, float | None] = {}
        self.rows: dict[int, dict[WireRow, WireRow]] = {}
        self.has_rows: dict[int, bool] = {}
        self.certain: dict[int, bool] = {}
        self.ended: dict[int, str] = {}
        self.as_of: dict[int, int] = {}
        self.session: dict[int, str] = {}
        self.applied: tuple[str, int] = ("", 0)
        self.checked: dict[int, tuple[object, ...]] = {}

    def forget(self, ref: int) -> None:
        """It ended a subscription itself."""
        for known in (self.values, self.rows, self.has_rows, self.certain, self.ended, self.as_of, self.session):
            known.pop(ref, None)
        self.checked.pop(ref, None)

    def notify(self, instruction: AnswerChanged | Described | SubscriptionEnded | Certainty) -> None:
        """Take in what the client says."""
        ref = instruction.ref
        match instruction:
            case Described():
                self.has_rows[ref] = bool(instruction.columns)
            case SubscriptionEnded():
                self.ended[ref] = instruction.why
            case Certainty():
                if self.certain.get(ref, False) is instruction.certain:
                    raise Violation(f"{self.name} {ref}: told twice that it is certain or not")
                self.certain[ref] = instruction.certain
            case AnswerChanged() if self.has_rows[ref]:
                self._rows_changed(instruction)
            case AnswerChanged():
                if ref in self.values and self.values[ref] == instruction.value:
                    raise Violation(f"{self.name} {ref}: told twice that the value is {instruction.value}")
                self.values[ref] = instruction.value
        self.checked.pop(ref, None)

    def _rows_changed(self, changed: AnswerChanged) -> None:
        ref = changed.ref
        if ref in self.rows and not (changed.upserts or changed.deletes):
            raise Violation(f"{self.name} {ref}: told of a change that changes nothing")
        rows = self.rows.setdefault(ref, {})
        for key, row in changed.upserts.items():
            if rows.get(key) == row:
                raise Violation(f"{self.name} {ref}: told twice of the row {row}")
            rows[key] = row
        for key in changed.deletes:
            if key not in rows:
                raise Violation(f"{self.name} {ref}: told that {key} left, which was not there")
            del rows[key]


class Invariants:
    """Checks what a client shows."""

    def __init__(self, truth: Truth, nodes: Mapping[str, SimulatedNode], lease: int) -> None:
        self._truth = truth
        self._nodes = nodes
        self._lease = lease
        self.checks = 0

    def check(self, program: Program, state: ClientState, now: int) -> None:
        """Everything but convergence, for all subscriptions of a client."""
        if state.session == program.applied[0] and state.applied < program.applied[1]:
            raise Violation(f"{program.name}: frame {state.applied} was applied after {program.applied[1]}")
        program.applied = (state.session, state.applied)
        for ref, held in state.held.items():
            shown = state.shown(ref, now)
            where = f"{program.name} {ref}"
            if shown.certain is not program.certain.get(ref, False) and held.reported_certain == shown.certain:
                raise Violation(f"{where}: shown certain {shown.certain}, and told otherwise")
            if bool(shown.why) is shown.certain:
                raise Violation(f"{where}: certain {shown.certain}, because {shown.why!r}")
            if held.live:
                program.session[ref] = state.session
            if shown.certain:
                self._check_lease(where, program, state, held, shown, now)
            known = (shown.as_of, shown.query, shown.epoch, shown.value, shown.bound)
            if program.checked.get(ref) != known:
                self._check_answer(where, program, held, shown)
                program.checked[ref] = known
                self.checks += 1

    def check_time(self, name: str, position: int, time: int) -> None:
        """Log time as a node has it at a position, against the log."""
        before, last = self._truth.ticks(position)
        if last < before:
            raise Violation(f"log time goes back from {before} to {last} before position {position}")
        if time != last:
            raise Violation(f"{name}: log time is {time} at position {position}, and {last} in the log")

    def converged(self, program: Program, state: ClientState, wanted: Mapping[int, str], now: int) -> str | None:
        """Why a client has not come to the right answers at the end of the log; None where it has."""
        for ref, sql in wanted.items():
            shown = state.shown(ref, now)
            if ref in program.ended:
                continue
            if not shown.certain:
                return f"{program.name} {ref} ({sql}) is not certain: {shown.why}"
            if shown.as_of != self._truth.end:
                return f"{program.name} {ref} ({sql}) is as of {shown.as_of}, the log ends at {self._truth.end}"
        return None

    def _check_lease(
        self, where: str, program: Program, state: ClientState, held: Held, shown: Shown, now: int
    ) -> None:
        if program.frame_came is None or now >= program.frame_came + self._lease:
            raise Violation(f"{where}: certain at {now}, and the last frame came at {program.frame_came}")
        heard = (state.until if held.live else held.until) - self._lease
        node, generation, _ = program.session[held.ref].split("/")
        stood = self._nodes[node].position_at(int(generation), program.clock.time_of(heard) - _FROM_NODE)
        if shown.as_of is None or shown.as_of < stood:
            raise Violation(f"{where}: certain as of {shown.as_of}, and {node} stood at {stood} when it was confirmed")

    def _check_answer(self, where: str, program: Program, held: Held, shown: Shown) -> None:
        ref = held.ref
        before = program.as_of.get(ref)
        if shown.as_of is None:
            if before is not None:
                raise Violation(f"{where}: was shown as of {before} and is nothing now")
            return
        if before is not None and shown.as_of < before:
            raise Violation(f"{where}: as of {shown.as_of} after {before}")
        program.as_of[ref] = shown.as_of
        assert shown.query is not None
        standing = self._truth.standing(shown.query, shown.as_of)
        if standing is None or standing.query is None:
            raise Violation(f"{where}: as of {shown.as_of} no node keeps query {shown.query}")
        if standing.epoch != shown.epoch:
            raise Violation(
                f"{where}: shown under plan {shown.epoch}, and {standing.epoch} is in force at {shown.as_of}"
            )
        query = standing.query
        if query is not bound(held.sql)[0] and _question(query) != _question(bound(held.sql)[0]):
            raise Violation(f"{where}: {held.sql} was asked and {query} is answered")
        if query.shape is AnswerShape.ROWS:
            self._check_rows(where, program, query, shown, ref)
        else:
            self._check_value(where, program, query, shown, ref)

    def _check_rows(self, where: str, program: Program, query: StandingQuery, shown: Shown, ref: int) -> None:
        assert shown.as_of is not None
        truth = self._truth.rows(query, shown.as_of)
        if shown.rows != truth:
            raise Violation(f"{where}: rows as of {shown.as_of} are {shown.rows}, and the truth is {truth}")
        if program.rows.get(ref) != shown.rows:
            raise Violation(f"{where}: told {program.rows.get(ref)} and shows {shown.rows}")

    def _check_value(self, where: str, program: Program, query: StandingQuery, shown: Shown, ref: int) -> None:
        assert shown.as_of is not None
        truth = self._truth.value(query, shown.as_of)
        if shown.bound != query.bound.within:
            raise Violation(f"{where}: shown within {shown.bound} and kept within {query.bound.within}")
        if (truth is None) is not (shown.value is None):
            raise Violation(f"{where}: {shown.value} as of {shown.as_of}, and the truth is {truth}")
        if truth is not None and shown.value is not None:
            most = shown.bound + _ROUNDING * (1 + abs(truth))
            if abs(shown.value - truth) > most:
                raise Violation(
                    f"{where}: {shown.value} as of {shown.as_of} is not within {shown.bound} of the truth {truth}"
                )
        if program.values.get(ref) != shown.value:
            raise Violation(f"{where}: told {program.values.get(ref)} and shows {shown.value}")


@lru_cache(maxsize=10_000)
def _question(query: StandingQuery) -> StandingQuery:
    """A query without its bound, which a plan may change."""
    return query if query.bound == EXACT else replace(query, bound=EXACT)  # type: ignore[type-var]
