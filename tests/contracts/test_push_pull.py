"""The promises of `slackwater.planning.push_pull.base`, for every labeller there is, against a plain enumeration.

The oracle knows nothing of coordinates: it asks the region algebra whether a row lies in a query, tries every
labelling of the places and adds up what is paid.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count, product

import numpy as np
import pytest

from experiments.push_pull.number_ranges import NumberRanges, on_a_line
from experiments.push_pull.transfer import without_pushed
from slackwater.core.errors import PlanningError
from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.region import Box, Region, Side
from slackwater.core.types import Scalar
from slackwater.planning.push_pull.base import Labeller, Labelling, Moves, Queries, Workload
from slackwater.planning.push_pull.cost_models import Constants, Linear, LinearCost, Messages, Pricing
from slackwater.planning.push_pull.cut import exact_by_cut
from slackwater.planning.push_pull.encoding import Asked, Changed, Encoded, Row, Stored, encode
from slackwater.planning.push_pull.exact import exact
from slackwater.planning.push_pull.line import exact_on_a_line
from slackwater.planning.push_pull.partition import equal_height, equal_width, intervals_of_interest, partition
from slackwater.planning.push_pull.published.buckets import buckets
from slackwater.planning.push_pull.published.equi_height import equi_height
from slackwater.planning.push_pull.published.mnaive import mnaive
from slackwater.planning.push_pull.published.naive import naive
from slackwater.planning.push_pull.published.prop import prop
from slackwater.planning.push_pull.published.recurrence import exact_by_recurrence
from slackwater.planning.push_pull.published.uniform import uniform

EXACT: Mapping[str, Labeller] = {"cut": exact_by_cut, "whichever": exact}
EXACT_ON_A_LINE: Mapping[str, Labeller] = {"one pass": exact_on_a_line, "recurrence": exact_by_recurrence}
HEURISTICS: Mapping[str, Labeller] = {"naive": naive, "mnaive": mnaive, "prop": prop}
WITH_REGIONS: Mapping[str, Labeller] = {"uniform": uniform, "buckets": buckets, "equi-height": equi_height}
MODELS: Mapping[str, Pricing] = {
    "M1": Messages(),
    "M2": Constants(),
    "M3": Linear(LinearCost(1.25, 0.3), LinearCost(2.0, 0.45)),
}


@dataclass(frozen=True)
class Drawn:
    """A workload in values."""

    columns: tuple[str, ...]
    asked: tuple[Asked, ...]
    changed: tuple[Changed, ...]
    stored: tuple[Stored, ...]

    def encoded(self, pricing: Pricing) -> Encoded:
        return encode(self.columns, self.asked, self.changed, pricing, self.stored)


def draw_extent(rng: np.random.Generator, *, plain: bool) -> Extent | None:
    kind = rng.integers(0, 4 if plain else 8)
    low, high = sorted(int(v) for v in rng.integers(0, 6, 2))
    match kind:
        case 0:
            return Interval(low, low)
        case 1:
            return Interval(None, high, high_open=bool(rng.integers(2)))
        case 2:
            return Interval(low, None, low_open=bool(rng.integers(2)))
        case 3 | 4:
            return Interval(low, high, bool(rng.integers(2)), bool(rng.integers(2)))
        case 5:
            return Categories(frozenset(int(v) for v in rng.integers(0, 6, 2)), complement=bool(rng.integers(2)))
        case 6:
            return Missing()
    return None


def draw_row(rng: np.random.Generator, columns: tuple[str, ...], *, plain: bool) -> dict[str, Scalar | None]:
    row: dict[str, Scalar | None] = {}
    for column in columns:
        at = int(rng.integers(0, 12)) / 2
        row[column] = None if not plain and rng.random() < 0.1 else at
    return row


def draw(seed: int, axes: int, *, plain: bool) -> Drawn:
    """A small workload; a plain one has ranges in one piece, and rows that stay and are never null."""
    rng = np.random.default_rng(seed)
    columns = ("a", "b", "c")[:axes]
    asked = []
    for _ in range(rng.integers(0, 8)):
        boxes = []
        for _ in range(1 if plain else rng.integers(1, 3)):
            extents = [(column, draw_extent(rng, plain=plain)) for column in columns]
            sides = [Side(column, extent) for column, extent in extents if extent is not None]
            if not any(side.extent.empty for side in sides):
                boxes.append(Box.of(*sides))
        asked.append(Asked(Region.of(boxes), float(rng.integers(1, 9)) / 4, int(rng.integers(1, 3))))
    rows = [draw_row(rng, columns, plain=plain) for _ in range(rng.integers(1, 7))]
    changed = []
    for _ in range(rng.integers(0, 12)):
        place, before = rows[rng.integers(len(rows))], rows[rng.integers(len(rows))]
        moves = not plain and rng.random() < 0.3
        price, size = float(rng.integers(1, 7)) / 4, float(rng.integers(1, 5))
        changed.append(Changed(place, before if moves else None, price, size))
    stored = tuple(Stored(row, float(rng.integers(1, 4))) for row in rows if rng.random() < 0.7)
    return Drawn(columns, tuple(asked), tuple(changed), stored)


def least_by_trying(drawn: Drawn, pricing: Pricing) -> float:
    """The least cost of any labelling of the places, with nothing but `Region.contains`."""

    def key(row: Row) -> tuple[Scalar | None, ...]:
        return tuple(row[column] for column in drawn.columns)

    rows = {key(row): row for update in drawn.changed for row in (update.place, update.before) if row is not None}
    rows |= {key(held.place): held.place for held in drawn.stored}
    numbers = {row: k for k, row in enumerate(rows)}
    asking = [
        (
            pricing.setup(query.price) * query.times,
            query.times,
            [query.region.contains(row.get) for row in rows.values()],
        )
        for query in drawn.asked
    ]
    changing = [
        (
            pricing.pushing(update.price, update.size),
            {numbers[key(row)] for row in (update.place, update.before) if row is not None},
        )
        for update in drawn.changed
    ]
    best = float("inf")
    for push in product((False, True), repeat=len(rows)):
        cost = sum(price for price, at in changing if any(push[k] for k in at))
        for price, times, holds in asking:
            pulled = [k for k in range(len(rows)) if holds[k] and not push[k]]
            cost += price * bool(pulled)
            moved = sum(held.size for held in drawn.stored if numbers[key(held.place)] in pulled)
            cost += pricing.rate() * times * moved
        best = min(best, cost)
    return best


def check(drawn: Drawn, pricing: Pricing) -> float:
    """Everything the contract says, for one workload; what it costs at least."""
    workload = drawn.encoded(pricing).workload
    least = least_by_trying(drawn, pricing)
    exacts = {**EXACT, **(EXACT_ON_A_LINE if workload.line else {})}
    for name, labeller in exacts.items():
        for labels in (labeller(workload), without_pushed(workload, labeller)):
            assert labels.cost == pytest.approx(workload.cost(labels.push)), name
            assert labels.cost == pytest.approx(least), name
            assert labels.at_least <= least + 1e-9, name
    assert exact_by_cut(workload).at_least == pytest.approx(least)
    for name, labeller in HEURISTICS.items():
        labels = labeller(workload)
        assert labels.cost == pytest.approx(workload.cost(labels.push)), name
        assert labels.cost >= least - 1e-9, name
    for name, labeller in WITH_REGIONS.items():
        labels = labeller(workload)
        assert labels.push.shape == (len(workload.places),)
        assert labels.cost >= workload.cost(labels.push) - 1e-9, name
    return least


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("plain", [True, False])
def test_exact_is_what_trying_everything_finds_and_nothing_is_below(model: str, axes: int, *, plain: bool) -> None:
    for seed in range(30):
        check(draw(seed, axes, plain=plain), MODELS[model])


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("model", MODELS)
def test_where_nothing_is_asked_and_nothing_changes_nothing_is_paid(model: str, axes: int) -> None:
    assert check(Drawn(("a", "b", "c")[:axes], (), (), ()), MODELS[model]) == 0


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("plain", [True, False])
def test_ten_thousand_workloads(model: str, axes: int, *, plain: bool) -> None:
    """Of 18 kinds 560 workloads each: 10 080, all different; those where nothing has to be paid do not count."""
    seeds = count(1_000_000 * (1 + 2 * list(MODELS).index(model) + plain))
    paid = 0
    while paid < 560:
        paid += check(draw(next(seeds), axes, plain=plain), MODELS[model]) > 0


def worked_example() -> Workload:
    everywhere_open = np.ones(6, np.bool_)
    ranges = NumberRanges(
        np.array([2.0, 2, 6, 6, 6, 14]), np.array([6.0, 14, 10, 10, 18, 18]), everywhere_open, everywhere_open
    )
    return on_a_line(ranges, np.ones(6), np.array([3.0, 4, 7, 11, 12, 15, 16]), np.ones(7))


@pytest.mark.parametrize("labeller", [*EXACT.values(), *EXACT_ON_A_LINE.values()])
def test_the_worked_example_pushes_exactly_the_second_region(labeller: Labeller) -> None:
    workload = worked_example()
    labels = labeller(workload)
    assert labels.cost == 5
    assert labels.push.tolist() == [False, False, True, False, False, False, False]
    assert workload.cost(np.ones(7, np.bool_)) == 7
    assert workload.cost(np.zeros(7, np.bool_)) == 6
    assert uniform(workload).cost == 6


def large(seed: int, queries: int, updates: int, *, model: str) -> Workload:
    rng = np.random.default_rng(seed)
    # Whole numbers, so that ends and updates meet often and openness decides.
    low = np.floor(rng.uniform(0, queries, queries))
    ranges = NumberRanges(
        np.where(rng.random(queries) < 0.001, -np.inf, low),
        low + np.floor(rng.exponential(6, queries)),
        rng.random(queries) < 0.5,
        rng.random(queries) < 0.5,
    )
    values = np.floor(rng.uniform(0, queries, updates))
    if model == "M1":
        return on_a_line(ranges, np.ones(queries), values, np.ones(updates))
    setup, costs = rng.uniform(1, 20, queries), rng.uniform(1, 20, updates)
    if model == "M2":
        return on_a_line(ranges, setup, values, costs)
    return on_a_line(ranges, setup, values, costs, np.full(queries, 0.5), rng.uniform(0, 3, updates))


@pytest.mark.parametrize("model", MODELS)
def test_the_exact_algorithms_agree_on_large_lines(model: str) -> None:
    workload = large(1, 20_000, 30_000, model=model)
    one_pass, recurrence, cut = (by(workload).cost for by in (exact_on_a_line, exact_by_recurrence, exact_by_cut))
    assert one_pass == pytest.approx(recurrence, rel=1e-12)
    assert one_pass == pytest.approx(cut, rel=1e-12)
    assert exact_by_cut(workload).at_least == pytest.approx(cut, rel=1e-12)
    for labeller in HEURISTICS.values():
        assert labeller(workload).cost >= one_pass - 1e-6


@pytest.mark.parametrize("seed", range(20))
def test_on_a_line_the_heuristics_say_the_same_as_in_space(seed: int) -> None:
    """The fast way of a line and the way that looks everywhere, taken when there is a second axis that says nothing."""
    flat = large(seed, 60, 80, model="M2")
    queries = flat.queries

    def doubled(array: np.typing.NDArray[np.int64]) -> np.typing.NDArray[np.int64]:
        return np.concatenate((array, np.zeros_like(array)), axis=1)

    wide = Workload(
        Queries(queries.setup, queries.owners, doubled(queries.lows), doubled(queries.highs)),
        doubled(flat.places),
        flat.push,
        flat.transfer,
        Moves.none(),
    )
    assert naive(flat).push.tolist() == naive(wide).push.tolist()
    assert exact_by_cut(wide).cost == pytest.approx(exact_on_a_line(flat).cost)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("cuts", [equal_width, equal_height], ids=["equal width", "equal height"])
def test_regions_cost_at_least_what_places_cost(
    axes: int, cuts: Callable[[Workload, int], list[np.typing.NDArray[np.int64]]]
) -> None:
    for seed in range(40):
        for pricing in MODELS.values():
            workload = draw(seed, axes, plain=False).encoded(pricing).workload
            best = exact_by_cut(workload).cost
            if not len(workload.queries.owners):
                continue
            parted = partition(workload, cuts(workload, 3))
            decided = exact_by_cut(parted.coarse)
            assert decided.cost >= best - 1e-9
            assert parted.spread(decided).cost <= decided.cost + 1e-9
            interest = partition(workload, intervals_of_interest(workload))
            if pricing is not MODELS["M3"]:
                assert exact_by_cut(interest.coarse).cost == pytest.approx(best)


def test_what_is_pushed_as_a_region_costs_no_more() -> None:
    for seed in range(40):
        drawn = draw(seed, 1 + seed % 3, plain=seed % 2 == 0)
        for pricing in MODELS.values():
            encoded = drawn.encoded(pricing)
            labels: Labelling = exact(encoded.workload)
            region = encoded.pushed(labels)
            names = [axis.column for axis in encoded.axes]
            inside = [region.contains(dict(zip(names, row, strict=True)).get) for row in encoded.rows]
            assert encoded.workload.cost(np.array(inside, np.bool_)) <= labels.cost + 1e-9


def test_open_and_closed_ends_decide_whether_an_update_on_them_counts() -> None:
    for low_open, high_open in product((False, True), repeat=2):
        drawn = Drawn(
            ("a",),
            (Asked(Region((Box.of(Side("a", Interval(1, 2, low_open, high_open))),)), times=3),),
            tuple(Changed({"a": at}) for at in (1, 1, 2)),
            (),
        )
        expected = (0 if low_open else 2) + (0 if high_open else 1)
        assert exact(drawn.encoded(Messages()).workload).cost == expected


@pytest.mark.parametrize("labeller", EXACT_ON_A_LINE.values())
def test_the_line_refuses_what_is_not_one(labeller: Labeller) -> None:
    moving = Drawn(("a",), (), (Changed({"a": 1}, before={"a": 2}),), ())
    with pytest.raises(PlanningError, match="minimum cut"):
        labeller(moving.encoded(Messages()).workload)


def test_a_row_that_moves_is_told_once_when_either_place_is_pushed() -> None:
    everything = Asked(Region((Box(),)), times=5)
    drawn = Drawn(("a",), (everything,), (Changed({"a": 1}, before={"a": 2}), Changed({"a": 2}, before={"a": 1})), ())
    labels = exact(drawn.encoded(Messages()).workload)
    assert labels.push.all()
    assert labels.cost == 2
