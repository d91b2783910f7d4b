"""Labels for one of many clients cost what labels made for it alone cost, and push no more."""

from itertools import product

import numpy as np
import pytest

from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.labels import MOST_LABELLED
from slackwater.core.region import Box, Region, Side
from slackwater.core.types import Scalar
from slackwater.planning.push_pull.cost_models import Constants, Linear, LinearCost, Messages, Pricing
from slackwater.planning.push_pull.encoding import Asked, Changed, Encoded, Row, Stored, encode
from slackwater.planning.push_pull.exact import exact
from slackwater.planning.push_pull.label_many import Activity, ClientPlan, Demand, label_client

MODELS: dict[str, Pricing] = {
    "M1": Messages(),
    "M2": Constants(),
    "M3": Linear(LinearCost(1.25, 0.3), LinearCost(2.0, 0.45)),
}
WORDS = ("blue", "green", "red")


def draw_extent(rng: np.random.Generator, column: str) -> Extent | None:
    kind = rng.integers(0, 6)
    if column == "colour":
        chosen = frozenset(WORDS[k] for k in rng.integers(0, 3, 2))
        options: list[Extent | None] = [Categories(chosen), Categories(chosen, True), Missing(), None]
        return options[kind % 4]
    low, high = sorted(float(v) / 4 for v in rng.integers(0, 40, 2))
    opened = bool(rng.integers(2)), bool(rng.integers(2))
    match kind:
        case 0:
            return None
        case 1:
            return Interval(None, high, high_open=opened[1])
        case 2:
            return Interval(low, None, low_open=opened[0])
        case 3:
            return Interval(low, low)
    return Interval(low, high + 0.25, *opened)


def draw_row(rng: np.random.Generator, columns: tuple[str, ...]) -> Row:
    row: dict[str, Scalar | None] = {}
    for column in columns:
        value = WORDS[rng.integers(3)] if column == "colour" else float(rng.integers(0, 20)) / 2
        row[column] = None if rng.random() < 0.1 else value
    return row


def draw_changes(seed: int, columns: tuple[str, ...]) -> tuple[list[Changed], list[Stored]]:
    """What happens to a table, the same for all clients."""
    rng = np.random.default_rng(seed)
    rows = [draw_row(rng, columns) for _ in range(25)]
    changed = []
    for _ in range(60):
        place, before = rows[rng.integers(25)], rows[rng.integers(25)]
        moves = rng.random() < 0.3
        price, size, times = float(rng.uniform(0.5, 2)), float(rng.integers(1, 4)), int(rng.integers(1, 3))
        changed.append(Changed(place, before if moves else None, price, size, times))
    return changed, [Stored(row, float(rng.integers(1, 4)), int(rng.integers(1, 4))) for row in rows]


def draw_asked(seed: int, columns: tuple[str, ...]) -> list[Asked]:
    """What one client asks; the last column is often not asked by at all."""
    rng = np.random.default_rng((seed, 1))
    some = columns if seed % 3 or len(columns) == 1 else columns[:-1]
    asked = []
    for _ in range(rng.integers(1, 12)):
        boxes = []
        for _ in range(rng.integers(1, 3)):
            extents = [(column, draw_extent(rng, column)) for column in some]
            boxes.append(Box.of(*(Side(column, extent) for column, extent in extents if extent is not None)))
        asked.append(Asked(Region.of(boxes), float(rng.uniform(1, 9)), int(rng.integers(1, 4))))
    return asked


def planned(activity: Activity, asked: list[Asked], limit: int | None = None) -> ClientPlan:
    return label_client(activity, [Demand(activity.footprint(a.region), a.price, a.times) for a in asked], limit)


def inside(encoded: Encoded, region: Region) -> np.typing.NDArray[np.bool_]:
    names = [axis.column for axis in encoded.axes]
    return np.array([region.contains(dict(zip(names, row, strict=True)).get) for row in encoded.rows], np.bool_)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("columns", [("a",), ("colour",), ("a", "b"), ("a", "colour"), ("a", "b", "colour")], ids=len)
def test_a_client_among_many_is_labelled_as_it_would_be_alone(columns: tuple[str, ...], model: str) -> None:
    for table in range(3):
        changed, stored = draw_changes(table, columns)
        activity = Activity.of(columns, changed, stored, MODELS[model])
        for client in range(12):
            asked = draw_asked(100 * table + client, columns)
            plan = planned(activity, asked)
            alone = encode(columns, asked, changed, MODELS[model], stored)
            least = exact(alone.workload).cost
            assert plan.cost == pytest.approx(least)
            assert plan.at_least == pytest.approx(least)
            assert alone.workload.cost(inside(alone, plan.pushed)) <= least + 1e-9
            if model == "M2":  # prices are drawn from a continuum, so the best labels are one
                assert plan.pushed.equals(alone.pushed(exact(alone.workload)))
            plan.pushed._check()
            assert {column for box in plan.pushed for column in box.columns} <= set(plan.attributes)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("columns", [("a",), ("a", "colour")], ids=len)
def test_a_limit_counts_the_rows_that_the_pushed_region_holds(columns: tuple[str, ...], model: str) -> None:
    changed, stored = draw_changes(5, columns)
    activity = Activity.of(columns, changed, stored, MODELS[model])
    for client in range(12):
        asked = draw_asked(client, columns)
        free = planned(activity, asked)
        for limit in (0, free.rows // 2, free.rows):
            plan = planned(activity, asked, limit)
            rows = sum(held.rows for held in stored if plan.pushed.contains(held.place.get))
            assert rows == plan.rows <= limit
            assert free.cost - 1e-9 <= plan.at_least <= plan.cost + 1e-9
            alone = encode(columns, asked, changed, MODELS[model], stored)
            assert alone.workload.cost(inside(alone, plan.pushed)) <= plan.cost + 1e-9
        assert planned(activity, asked, free.rows).cost == pytest.approx(free.cost)


def test_a_count_stands_for_so_many_queries() -> None:
    changed, stored = draw_changes(1, ("a",))
    activity = Activity.of(("a",), changed, stored, Constants())
    region = Region((Box.of(Side("a", Interval(2, 4))),))
    counted = planned(activity, [Asked(region, 2.0, 3)])
    one_by_one = planned(activity, [Asked(region, 2.0)] * 3)
    assert (counted.cost, counted.pushed) == (one_by_one.cost, one_by_one.pushed)


def test_changes_and_rows_that_are_counted_are_so_many() -> None:
    changed, stored = draw_changes(2, ("a", "b"))
    single = [Changed(one.place, one.before, one.price, one.size) for one in changed for _ in range(one.times)]
    rows = [Stored(held.place, held.size / held.rows) for held in stored for _ in range(held.rows)]
    for pricing in MODELS.values():
        counted, each = (Activity.of(("a", "b"), *events, pricing) for events in ((changed, stored), (single, rows)))
        assert counted.push == pytest.approx(each.push)
        assert counted.moves.costs == pytest.approx(each.moves.costs)
        assert counted.sizes == pytest.approx(each.sizes)
        assert counted.rows.tolist() == each.rows.tolist()


def test_conditions_on_other_columns_are_dropped() -> None:
    changed, stored = draw_changes(1, ("a",))
    activity = Activity.of(("a",), changed, stored, Messages())
    narrow = Region((Box.of(Side("a", Interval(0, 9)), Side("door", Interval(1, 2))),))
    wide = Region((Box.of(Side("a", Interval(0, 9))),))
    assert planned(activity, [Asked(narrow, times=99)]).pushed == planned(activity, [Asked(wide, times=99)]).pushed


def test_a_table_where_nothing_happens_is_pushed_for_nothing() -> None:
    activity = Activity.of(("a", "b"), [], [], Messages())
    region = Region((Box.of(Side("a", Interval(0, 9))),))
    plan = planned(activity, [Asked(region)], limit=0)
    assert (plan.cost, plan.rows) == (0, 0)
    assert plan.pushed.equals(region)
    assert planned(activity, []).pushed.empty


def test_a_region_of_too_many_boxes_gives_up_what_is_asked_least() -> None:
    """Boxes on a lattice that share no side: each remains a box of its own."""
    columns, side = ("a", "b"), range(80)
    corners = [corner for corner in product(side, repeat=2) if sum(corner) % 2 == 0 and corner[0] < corner[1]]
    assert len(corners) > MOST_LABELLED
    asked = [
        Asked(
            Region((Box.of(*(Side(c, Interval(v, v + 0.5)) for c, v in zip(columns, corner, strict=True))),)), times=k
        )
        for k, corner in enumerate(corners, 1)
    ]
    activity = Activity.of(columns, [], [], Messages())
    plan = planned(activity, asked)
    assert 0 < len(plan.pushed.boxes) <= MOST_LABELLED
    assert plan.pushed.covers(asked[-1].region)
