"""Rivals are counted as if each pair of query and item were watched by itself."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.cli.demo_rivals import Rivals, WeightedSum

ITEMS = 6
QUERIES = st.lists(
    st.builds(
        lambda items, within: WeightedSum(tuple(items), tuple(1.0 + item for item in items), within),
        st.lists(st.integers(0, ITEMS - 1), min_size=1, unique=True),
        st.floats(0.0, 50.0),
    ),
    max_size=5,
)
BATCHES = st.lists(st.dictionaries(st.integers(0, ITEMS - 1), st.floats(-100, 100), min_size=1), max_size=20)


@given(QUERIES, BATCHES)
def test_counts_are_those_of_watching_each_pair(queries: list[WeightedSum], batches: list[dict[int, float]]) -> None:
    rivals = Rivals(queries, np.zeros(ITEMS))
    sent = [dict.fromkeys(query.items, 0.0) for query in queries]
    truth = [0.0] * ITEMS
    everything = deadband = 0
    for batch in batches:
        rivals.see(np.array(list(batch), np.int64), np.array(list(batch.values())))
        for item, value in batch.items():
            truth[item] = value
        for query, held in zip(queries, sent, strict=True):
            for item, weight in zip(query.items, query.weights, strict=True):
                if item in batch:
                    everything += 1
                    if abs(batch[item] - held[item]) > query.within / (len(query.items) * weight):
                        deadband += 1
                        held[item] = batch[item]
            error = sum(w * (truth[i] - held[i]) for i, w in zip(query.items, query.weights, strict=True))
            assert abs(error) <= query.within * (1 + 1e-9) + 1e-9, "a deadband done right keeps the bound"
    assert (rivals.everything, rivals.deadband) == (everything, deadband)
