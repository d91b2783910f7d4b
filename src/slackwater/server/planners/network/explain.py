"""EXPLAIN of a planned query: its parts, predictions, measurements and alternative plans."""

import math

from slackwater.core.query import Aggregate
from slackwater.server.planners.network.base import LivePart, LivePlan
from slackwater.server.planners.network.planner import NO_PLAN, column_of
from slackwater.server.planners.network.state import NetworkState, Planned
from slackwater.server.upstreams import PlannedFigures
from slackwater.sql import Detail, ExplainTree

_HOURLY = "messages/hour"


def explained(state: NetworkState, query: Aggregate, planned: Planned | None = None) -> ExplainTree:
    """The plan of a query: the one in force, or the one that would be made now; and what other planners would need."""
    held = state.held(column_of(query))
    parts: list[ExplainTree] = []
    details: list[Detail] = []
    plan = None if planned is None else planned.plan
    if planned is not None:
        details.append(Detail("epoch", planned.epoch))
    try:
        plan = plan or state.drafter.plan(query, held)
        # What was counted since a plan was made may have made another prediction of it: that is the one it is held to.
        watch = None if planned is None or planned.plan is None else planned.watch
        expected = [part.messages for part in plan.parts] if watch is None else watch.predicted
        parts += [_part(part, messages) for part, messages in zip(plan.parts, expected, strict=True)]
        details += [Detail("planner", plan.planner), Detail("expected", _figure(sum(expected)), _HOURLY)]
    except NO_PLAN as error:
        details.append(Detail("none", str(error)))
    if planned is not None:
        figures = figures_of(state, planned)
        details += [
            Detail("measured", figures.measured, None if figures.measured is None else _HOURLY),
            Detail("planned anew", planned.replans),
            *([] if planned.suspended is None else [Detail("suspended", planned.suspended)]),
        ]
    away = tuple(f"{name} ({one.why})" for name, one in state.aggregators.items() if not one.usable)
    details += [Detail("cannot be used", away)] if away else []
    return ExplainTree("plan", tuple(details), (*parts, _alternatives(state, query)))


def _part(part: LivePart, messages: float) -> ExplainTree:
    details = (
        Detail("items", part.items),
        Detail("within", part.within),
        Detail("floor", part.floor),
        Detail("expected", _figure(messages), _HOURLY),
        Detail("asked", part.text),
    )
    return ExplainTree(f"aggregator {part.aggregator}" if part.aggregator else "this node", details)


def _alternatives(state: NetworkState, query: Aggregate) -> ExplainTree:
    held = state.held(column_of(query))
    details = []
    try:
        alternatives = state.drafter.alternatives(query, held)
    except NO_PLAN as error:
        return ExplainTree("alternatives", (Detail("none", str(error)),))
    for name, messages in alternatives.items():
        details.append(Detail(name, "no plan") if messages is None else Detail(name, _figure(messages), _HOURLY))
    return ExplainTree("alternatives", tuple(details))


def figures_of(state: NetworkState, planned: Planned) -> PlannedFigures:
    """Predictions and measurements of a planned query."""
    plan: LivePlan | None = planned.plan
    watch, seen = planned.watch, state.seen.get(planned.number)
    measured = None if watch is None else watch.measured
    return PlannedFigures(
        predicted=None if plan is None or watch is None else _figure(sum(watch.predicted)),
        measured=None if measured is None else _figure(measured),
        replans=planned.replans,
        planning=None if seen is None else seen.planning,
        uncertain=None if seen is None or seen.seconds == 0 else round(seen.uncertain / seen.seconds, 6),
    )


def _figure(number: float) -> float | None:
    """A prediction in as many digits as it is worth; None of a part that is exact, of which there is none."""
    return float(f"{number:.4g}") if math.isfinite(number) else None
