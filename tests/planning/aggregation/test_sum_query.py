"""A plan as nodes and EXPLAIN know it."""

import pytest

from slackwater.core.bound import Bound
from slackwater.core.errors import PlanningError
from slackwater.core.query import Aggregate, AggregateFunction, Weight
from slackwater.planning.aggregation.sum_query import as_sum

WEIGHTS = tuple(Weight((name,), factor) for name, factor in (("S1", 50.0), ("S2", 200.0), ("S3", 150.0)))
QUERY = Aggregate("quotes", AggregateFunction.SUM, "price", Bound(80.0), weights=WEIGHTS)


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
