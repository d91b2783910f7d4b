"""Experiment 2: the value of knowing ρ. 10 items of equal sumdiff, every pair an aggregator, queries of 4 items.

Each query ends as two parts of two items, and which two is all there is to choose. Planned once with ρ as it is and
once as if all were 0; counted on the same trace.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from experiments.plans.message_count import plan_messages
from experiments.plans.setting import draw_queries
from experiments.plans.traces import related
from slackwater.planning.aggregation import CostModel, Exact, MaxGain, Offer, Planner, Problem, ScaleFreeCost, SumQuery


@dataclass(frozen=True, slots=True)
class SimilarityEffect:
    """Messages a query on average, with and without ρ."""

    bound: float
    planner: str
    considered: float
    ignored: float

    @property
    def saved(self) -> float:
        """The share of messages that knowing ρ saves."""
        return 1.0 - self.considered / self.ignored


def similarity_effect(
    bounds: Sequence[float] = (0.5, 0.8, 1.0), *, seed: int = 5, worlds: int = 5, queries: int = 100
) -> list[SimilarityEffect]:
    """Exact and max-gain at each bound, over several worlds."""
    taken: dict[tuple[float, str], list[tuple[int, int]]] = {}
    model: CostModel = ScaleFreeCost()
    planners: tuple[Planner, ...] = (MaxGain(), Exact())
    for world in range(worlds):
        generator = np.random.default_rng((seed, world))
        trace = related(generator)
        known = trace.dynamics()
        unknown = known.independent()
        offers = tuple(
            Offer(f"D{number + 1}", dict.fromkeys(pair, 0.005))
            for number, pair in enumerate(combinations(trace.items, 2))
        )
        drawn = draw_queries(generator, trace.items, count=queries, least=4, most=4)
        for bound in bounds:
            for query in (SumQuery(one.items, one.weights, bound) for one in drawn):
                for planner in planners:
                    counts = [
                        plan_messages(trace, planner(Problem(query, offers, dynamics, model)))
                        for dynamics in (known, unknown)
                    ]
                    taken.setdefault((bound, planner.name), []).append((counts[0], counts[1]))
    return [
        SimilarityEffect(bound, planner, *(float(mean) for mean in np.mean(counts, axis=0)))
        for (bound, planner), counts in taken.items()
    ]
