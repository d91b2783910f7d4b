"""What a part costs at an aggregator that itself knows its items only within bounds.

Mathematics
    Plans put an amount over the bound C of a part, as if the aggregator knew the truth (`base`). It knows held
    values, of which wᵢ·sᵢ is off by up to xᵢ = |wᵢ|·cᵢ, and has to send when their sum has left what the floor
    X = Σ xᵢ leaves of the bound. Held values move in steps of xᵢ, so that the sum passes C − X by half a step, on the
    average of the items by what they move, aᵢ. So the bound that counts is

        C − X + ½·Σ aᵢxᵢ / Σ aᵢ

    And a sum of held values changes no more often than they do: the part sends no more than Σ of what each item costs
    within its own xᵢ. Both are rules of thumb; how good they are on traces stands in docs/network-plans.md. Where
    nothing is off, X = 0, it is the model's own number.
"""

from collections.abc import Sequence

from slackwater.planning.aggregation.base import CostModel, Part, messages
from slackwater.planning.aggregation.problem import Problem


def held_messages(
    model: CostModel, amount: float, within: float, amounts: Sequence[float], floors: Sequence[float]
) -> float:
    """Messages an hour of a part; `amounts` and `floors` are the aᵢ and xᵢ of its items.

    >>> from slackwater.planning.aggregation.scale_free_cost import ScaleFreeCost
    >>> held_messages(ScaleFreeCost(), 8.0, 2.0, [4.0, 4.0], [0.0, 0.0])
    2.0
    >>> held_messages(ScaleFreeCost(), 8.0, 2.0, [4.0, 4.0], [0.5, 0.5])  # 8/1.25²
    5.12
    >>> held_messages(ScaleFreeCost(), 8.0, 2.0, [4.0, 4.0], [1.0, 1.0])  # no more than 4/1² + 4/1²
    8.0
    """
    total = sum(amounts)
    step = sum(moves * off for moves, off in zip(amounts, floors, strict=True)) / total if total > 0 else 0.0
    left = max(within - sum(floors), 0.0) + step / 2
    most = sum(messages(model, moves, off) for moves, off in zip(amounts, floors, strict=True))
    return min(messages(model, amount, left), most)


def held_part_messages(problem: Problem, part: Part) -> float:
    """The same of a part of a plan of this problem."""
    places = [problem.query.items.index(item) for item in part.items]
    (offer,) = (nth for nth, offer in enumerate(problem.offers) if offer.aggregator == part.aggregator)
    return held_messages(
        problem.model,
        problem.amount(sum(1 << place for place in places)),
        part.within,
        [problem.amount(1 << place) for place in places],
        [float(problem.floors[offer, place]) for place in places],
    )
