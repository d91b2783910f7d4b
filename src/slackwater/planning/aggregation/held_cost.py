"""Cost of a part at an aggregator that itself holds its items only within bounds.

Mathematics
    A cost model puts an amount over the bound C of a part, as if the aggregator knew the truth (`base`). It knows held
    values, of which wᵢ·sᵢ is off by up to xᵢ = |wᵢ|·cᵢ, and has to send when their sum has left what the floor
    X = Σ xᵢ leaves of the bound. Held values move in steps of xᵢ, so that the sum passes C − X by half a step, on the
    average of the items by what they move, aᵢ. So the bound that counts is

        C − X + ½·Σ aᵢxᵢ / Σ aᵢ

    And a sum of held values changes no more often than they do: the part sends no more than Σ of what each item costs
    within its own xᵢ. Both are rules of thumb; how good they are on traces stands in docs/network-plans.md. Where
    nothing is off, X = 0, it is the model's own number.
"""

import numpy as np

from slackwater.planning.aggregation.base import CostModel, Floats, messages


def half_steps(amounts: Floats, floors: Floats) -> Floats:
    """½·Σ aᵢxᵢ / Σ aᵢ over the last axis; 0 where nothing moves.

    >>> half_steps(np.array([3.0, 1.0]), np.array([0.4, 0.8]))
    array(0.25)
    """
    # As shares of the largest: products of large numbers must not pass what floating point has.
    largest = amounts.max(axis=-1, keepdims=True, initial=0.0)
    shares = np.divide(amounts, largest, out=np.zeros(np.shape(amounts)), where=largest > 0)
    total = shares.sum(axis=-1)
    steps: Floats = np.divide((shares * floors).sum(axis=-1), 2 * total, out=np.zeros(total.shape), where=total > 0)
    return steps


def most_sent(model: CostModel, amounts: Floats, floors: Floats) -> Floats:
    """Σ aᵢ/xᵢ^p over the last axis: what held values change, but for the model's factor.

    >>> from slackwater.planning.aggregation.scale_free_cost import ScaleFreeCost
    >>> most_sent(ScaleFreeCost(), np.array([[4.0, 3.0, 0.0], [4.0, 3.0, 0.0]]), np.array([[1.0, 2, 0], [0.0, 2, 0]]))
    array([4.75,  inf])
    """
    with np.errstate(divide="ignore", over="ignore"):
        each = np.divide(amounts, floors**model.exponent, out=np.zeros(np.shape(amounts)), where=amounts > 0)
        sent: Floats = each.sum(axis=-1)
    return sent


def held_messages(model: CostModel, amount: float, within: float, amounts: Floats, floors: Floats) -> float:
    """Messages an hour of a part; `amounts` and `floors` are the aᵢ and xᵢ of its items.

    >>> from slackwater.planning.aggregation.scale_free_cost import ScaleFreeCost
    >>> amounts = np.array([4.0, 4.0])
    >>> held_messages(ScaleFreeCost(), 8.0, 2.0, amounts, np.array([0.0, 0.0]))
    2.0
    >>> held_messages(ScaleFreeCost(), 8.0, 2.0, amounts, np.array([0.5, 0.5]))  # 8/1.25²
    5.12
    >>> held_messages(ScaleFreeCost(), 8.0, 2.0, amounts, np.array([1.0, 1.0]))  # no more than 4/1² + 4/1²
    8.0
    """
    left = max(within - float(floors.sum()), 0.0) + float(half_steps(amounts, floors))
    return min(messages(model, amount, left), model.factor * float(most_sent(model, amounts, floors)))
