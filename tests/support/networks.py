"""Random planning problems, small and adversarial: constant items, perfect correlations, mixed signs, tight floors."""

import numpy as np

from experiments.plans.consistent_cost import ConsistentCost
from slackwater.planning.aggregation import CostModel, Dynamics, Offer, PrintedCost, Problem, ScaleFreeCost, SumQuery

MODELS: tuple[CostModel, ...] = (
    ConsistentCost(),
    PrintedCost(),
    ScaleFreeCost(),
    ScaleFreeCost(factor=3.0, exponent=1.3),
)


def dynamics(generator: np.random.Generator, count: int) -> Dynamics:
    """Changes that are mixtures of a few causes; now and then an item that rests, or two that are opposite."""
    causes = generator.normal(size=(count, 3)) + generator.normal(size=(count, 1))
    if count > 1 and generator.random() < 0.2:
        causes[1] = -causes[0]
    causes /= np.linalg.norm(causes, axis=1, keepdims=True)
    sumdiff = generator.lognormal(0.0, 1.0, count)
    sumdiff[generator.random(count) < 0.05] = 0.0
    return Dynamics(tuple(f"s{place}" for place in range(count)), sumdiff, np.clip(causes @ causes.T, -1.0, 1.0))


def problem(
    generator: np.random.Generator,
    items: int,
    aggregators: int,
    model: CostModel,
    tightness: float | None = None,
    *,
    floors_take: bool = False,
) -> Problem:
    """A query over all items; `tightness` is the share of the bound that the lowest floors take, drawn where None."""
    moving = dynamics(generator, items)
    weights = generator.uniform(0.5, 10.0, items) * generator.choice((1.0, 1.0, -1.0), items)
    offers = []
    for number in range(aggregators):
        held = [item for item in moving.items if generator.random() < 0.6]
        offers.append(Offer(f"D{number}", {item: float(generator.uniform(0.005, 0.05)) for item in held}))
    offers.append(Offer("all", {item: float(generator.uniform(0.02, 0.08)) for item in moving.items}))
    floors = [min(offer.within.get(item, np.inf) for offer in offers) for item in moving.items]
    least = float(np.abs(weights) @ np.array(floors))
    share = generator.uniform(0.05, 1.0) if tightness is None else tightness
    query = SumQuery(moving.items, tuple(weights.tolist()), within=least / share)
    return Problem(query, tuple(offers), moving, model, floors_take)
