"""The choices of section 1 on examples worked by hand, and against the best set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.planning.pulling import CHOICES, Choice, Limited, data_incoherency, fewest, largest, positive_negative
from slackwater.planning.pulling.published.data_incoherency import item_bound

FOUR = Limited((0, 1, 2, 3), (1.0, 1.0, 1.0, 1.0), 200.0)
CHANGES = [500.0, 75.0, -200.0, -150.0]

changes = st.lists(st.integers(-9, 9).map(float), min_size=4, max_size=4)
weights = st.lists(st.integers(-4, 4).filter(bool).map(float), min_size=4, max_size=4)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Limited], list[float]]:
    queries = []
    for _ in range(draw(st.integers(1, 3))):
        items = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True))
        queries.append(Limited(tuple(items), tuple(draw(weights)[: len(items)]), float(draw(st.integers(0, 12)))))
    return queries, draw(changes)


def test_the_worked_example() -> None:
    assert FOUR.error(CHANGES) == 225.0
    assert positive_negative([FOUR], CHANGES) == [1]
    assert largest([FOUR], CHANGES) == [0]
    assert fewest([FOUR], CHANGES) == [1]


def test_the_whole_side_is_pulled_where_each_item_would_turn_the_error_round() -> None:
    query = Limited((0, 1, 2), (1.0, 1.0, 1.0), 5.0)
    assert positive_negative([query], [20.0, 20.0, -30.0]) == [0, 1]


def test_the_negative_side_is_the_mirror_of_the_positive_one() -> None:
    assert positive_negative([FOUR], [-change for change in CHANGES]) == [1]
    mirrored = Limited((0, 1, 2, 3), (-1.0, 1.0, -1.0, 1.0), 200.0)
    assert positive_negative([mirrored], [-500.0, 75.0, 200.0, -150.0]) == [1]


@given(weights.flatmap(lambda some: st.integers(1, 4).map(lambda n: some[:n])), st.integers(1, 100))
def test_bounds_of_items_add_up_to_the_bound(some: list[float], limit: int) -> None:
    parts = [abs(weight) * item_bound(some, place, float(limit)) for place, weight in enumerate(some)]
    assert sum(parts) == pytest.approx(limit)


def test_a_single_item_has_the_whole_bound() -> None:
    assert item_bound((-4.0,), 0, 8.0) == 2.0
    assert data_incoherency([Limited((0,), (-4.0,), 8.0)], [2.1]) == [0]


@given(worlds())
def test_positive_negative_keeps_one_query_or_takes_a_whole_side(world: tuple[list[Limited], list[float]]) -> None:
    queries, found = world
    query = queries[0]
    chosen = positive_negative([query], found)
    left = [0.0 if item in chosen else change for item, change in enumerate(found)]
    side = 1.0 if query.error(found) > 0 else -1.0
    pulls = {item: side * weight * left[item] for item, weight in zip(query.items, query.weights, strict=True)}
    assert not query.broken(left) or not any(pull > 0 for pull in pulls.values())
    assert len(chosen) >= len(fewest([query], found)) or query.broken(left)


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
@given(world=worlds())
def test_every_choice_names_held_items_once_and_only_where_needed(
    choice: Choice, world: tuple[list[Limited], list[float]]
) -> None:
    queries, found = world
    before = list(found)
    chosen = choice(queries, found)
    assert found == before
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= {item for query in queries for item in query.items}
    assert all(found[item] != 0.0 for item in chosen)
    if choice is not data_incoherency and not any(query.broken(found) for query in queries):
        assert chosen == []
    if any(query.broken(found) for query in queries) and choice not in (data_incoherency, CHOICES["max_for_many"]):
        assert chosen
