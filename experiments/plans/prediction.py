"""Predictive accuracy of cost models: fitted on the first half of a trace, tested on the second.

R, ρ, factors and exponents are of the first half; counted is the second. The order of queries at one bound is what
planning needs (rank correlation), the size of the numbers what a person who reads `EXPLAIN` does (median relative
error).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.plans.consistent_cost import ConsistentCost
from experiments.plans.cost_fit import (
    MeasuredSums,
    fit_factor,
    fit_scale_free,
    predicted,
    rank_correlation,
    relative_error,
)
from experiments.plans.message_count import sum_messages
from experiments.plans.traces import Trace
from slackwater.planning.aggregation import CostModel, Dynamics, PrintedCost, Problem, ScaleFreeCost, SumQuery


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Of one model on one trace: Spearman's correlation at each bound, and the median relative error at all."""

    trace: str
    model: str
    fitted: str
    rank_correlation: tuple[float, ...]
    relative_error: float


def counted(
    trace: Trace, dynamics: Dynamics, queries: Sequence[SumQuery], bounds: Sequence[float], pairs: CostModel
) -> MeasuredSums:
    """Each query as one sum at each bound."""
    rows = []
    for query in queries:
        raw, norm = Problem(query, (), dynamics, pairs).sizes((1 << len(query.items)) - 1)
        for bound in bounds:
            sent = sum_messages(trace, query.items, query.weights, bound) / trace.hours
            rows.append((raw[0], norm[0], bound, sent))
    return MeasuredSums(*np.array(rows).T)


def fitted(trace: Trace, queries: Sequence[SumQuery], bounds: Sequence[float]) -> dict[str, CostModel]:
    """Every model, fitted to a trace; the first is the one we default to."""
    dynamics = trace.dynamics()
    known = counted(trace, dynamics, queries, bounds, ConsistentCost())
    consistent = ConsistentCost(fit_factor(ConsistentCost(), known))
    walk = ScaleFreeCost(fit_factor(ScaleFreeCost(), known))
    printed = PrintedCost(fit_factor(PrintedCost(), counted(trace, dynamics, queries, bounds, PrintedCost())))
    return {
        "scale-free": fit_scale_free(known),
        "scale-free, p = 2": walk,
        "consistent": consistent,
        "as printed": printed,
    }


def accuracies(trace: Trace, queries: Sequence[SumQuery], bounds: Sequence[float]) -> list[Accuracy]:
    """All models on one trace."""
    first, second = trace.halves()
    dynamics = first.dynamics()
    found = []
    for name, model in fitted(first, queries, bounds).items():
        test = counted(second, dynamics, queries, bounds, model)
        expected = predicted(model, test)
        ranks = [
            rank_correlation(expected[test.within == bound], test.messages[test.within == bound]) for bound in bounds
        ]
        exponent = f"κ = {model.factor:.3g}, p = {model.exponent:.3g}"
        found.append(Accuracy(trace.name, name, exponent, tuple(ranks), relative_error(expected, test.messages)))
    return found
