"""A plan as nodes and EXPLAIN know it."""

import numpy as np
import pytest

from slackwater.core.bound import Bound
from slackwater.core.errors import PlanningError
from slackwater.core.query import Aggregate, AggregateFunction, QueryId, Weight
from slackwater.core.types import Position
from slackwater.planning.aggregation import Dynamics, Exact, Offer, Problem, ScaleFreeCost
from slackwater.planning.aggregation.sum_query import as_plan, as_sum
from slackwater.sql.explain import explain_plan

WEIGHTS = tuple(Weight((name,), factor) for name, factor in (("S1", 50.0), ("S2", 200.0), ("S3", 150.0)))
QUERY = Aggregate("quotes", AggregateFunction.SUM, "price", Bound(80.0), weights=WEIGHTS)


def test_the_worked_example_is_explained() -> None:
    offers = (Offer("D1", {"S1": 0.5, "S3": 0.2}), Offer("D2", {"S1": 1.0, "S2": 0.1, "S4": 0.2}))
    moving = Dynamics(("S1", "S2", "S3"), np.array([1.0, 1.0, 1.0]), np.eye(3))
    plan = Exact()(Problem(as_sum(QUERY), offers, moving, ScaleFreeCost()))
    made = as_plan(QueryId("q"), QUERY, plan, epoch=1, takes_effect=Position(7))
    assert {part.node: tuple(weight.key[0] for weight in part.query.weights or ()) for part in made.parts} == {
        "D1": ("S1", "S3"),
        "D2": ("S2",),
    }
    assert sum(part.messages_per_hour or 0.0 for part in made.parts) == pytest.approx(plan.messages)
    text = explain_plan(made).text()
    assert "node D1" in text
    assert "messages/hour" in text
    assert "share of the bound: 55" in text


def test_scales_are_part_of_the_weights_and_what_does_not_count_is_left_out() -> None:
    scaled = Aggregate(
        "quotes",
        AggregateFunction.SUM,
        "price",
        Bound(1.0),
        weights=(Weight(("a",), 2.0), Weight(("b",), 0.0)),
        scale=-3.0,
    )
    assert as_sum(scaled).items == ("a",)
    assert as_sum(scaled).weights == (-6.0,)


@pytest.mark.parametrize("function", [AggregateFunction.SUM, AggregateFunction.MAX])
def test_other_aggregates_are_refused_with_what_to_write(function: AggregateFunction) -> None:
    with pytest.raises(PlanningError, match="VALUES"):
        as_sum(Aggregate("quotes", function, "price", Bound(1.0)))
