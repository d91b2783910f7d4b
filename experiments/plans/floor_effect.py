"""Floor effect: predicted and counted messages of parts whose aggregators hold their items within bounds.

Queries as one part each, fitted on the first half of a trace and counted on the second, where floors take a share of
the bound, unevenly spread over the items. `as_if_known` is the model's own number, `held` that of
`planning.aggregation.held_cost`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.plans.cost_fit import relative_error
from experiments.plans.pushes import count_pushes, pushed
from experiments.plans.traces import Trace
from slackwater.planning.aggregation import CostModel, Problem, SumQuery, messages
from slackwater.planning.aggregation.held_cost import held_messages

SHARES = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
LEAST_SENT = 5
"""Parts that send less in half a trace are left out."""


@dataclass(frozen=True, slots=True)
class FloorEffect:
    """With floors that take a share of the bound: expected over counted (the median), and the median relative error."""

    trace: str
    share: float
    parts: int
    as_if_known_ratio: float
    as_if_known_error: float
    held_ratio: float
    held_error: float


def floor_effect(
    trace: Trace, queries: Sequence[SumQuery], within: float, model: CostModel, generator: np.random.Generator
) -> list[FloorEffect]:
    """All shares on one trace."""
    first, second = trace.halves()
    dynamics = first.dynamics()
    found = []
    for share in SHARES:
        rows = []
        for query in queries:
            weights = np.array(query.weights)
            spread = generator.uniform(0.1, 1.0, len(weights))
            floors = share * within * spread / spread.sum()
            courses = second.values[:, second.columns(query.items)]
            held = np.stack([pushed(courses[:, n].copy(), floors[n] / abs(w)) for n, w in enumerate(weights)], axis=1)
            sent = count_pushes(held @ weights, within - floors.sum())
            problem = Problem(query, (), dynamics, model)
            amount = problem.amount(problem.whole)
            if sent >= LEAST_SENT:
                known = messages(model, amount, within)
                rows.append((sent / second.hours, known, held_messages(model, amount, within, problem.amounts, floors)))
        counted, known_messages, expected = np.array(rows).T
        found.append(
            FloorEffect(
                trace.name,
                share,
                len(rows),
                float(np.median(known_messages / counted)),
                relative_error(known_messages, counted),
                float(np.median(expected / counted)),
                relative_error(expected, counted),
            )
        )
    return found
