"""The rows of a cache in columns: what Arrow finds is what looking at each row finds, after every change."""

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.client.cache.copy import Copy, in_columns, layout
from slackwater.client.cache.masks import NotByColumns, chosen
from slackwater.client.cache.table import CachedTable
from slackwater.core.errors import ProtocolError
from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.labels import MOST_LABELLED
from slackwater.core.region import EVERYTHING, NOTHING, Box, Region, Side
from slackwater.core.region_codec import plain_region
from slackwater.core.types import Scalar
from slackwater.dissemination.messages import Delete, Subscribed, Upsert, WireRow
from slackwater.kinds.cache.query import CacheText

COLUMNS = ("id", "name", "price", "seen", "good")
TYPES = ("BIGINT", "TEXT", "DOUBLE", "TIMESTAMP", "BOOLEAN")
SCHEMA = layout(COLUMNS, TYPES)

VALUES: dict[str, st.SearchStrategy[Scalar]] = {
    "id": st.integers(-5, 5) | st.sampled_from([2**62, -(2**63), 2**53 + 1]),
    "name": st.sampled_from(["", "a", "b", "Ä", "z", "aa"]),
    "price": st.sampled_from([-1.5, 0.0, 0.5, 2.0, 1e300]),
    "seen": st.integers(-3, 3),
    "good": st.booleans(),
}
ROWS = st.lists(
    st.tuples(*(VALUES[name] if name == "id" else st.none() | VALUES[name] for name in COLUMNS)), max_size=12
)


def sides(name: str) -> st.SearchStrategy[Side]:
    values = VALUES[name]
    sets = st.builds(Categories, st.frozensets(values, min_size=1, max_size=3), st.booleans())
    kinds: st.SearchStrategy[Extent] = sets | st.just(Missing())
    if name != "good":
        # Also ends that the column's type does not have: half an integer, an integer for a price.
        ends = st.none() | values
        if name in ("id", "seen", "price"):
            ends = ends | st.sampled_from([0.5, 2, 2**53 + 1, -0.25])
        kinds = kinds | st.builds(Interval, ends, ends, st.booleans(), st.booleans()).filter(lambda one: not one.empty)
    return kinds.map(lambda extent: Side(name, extent))


BOXES = st.sets(st.sampled_from(COLUMNS), max_size=3).flatmap(
    lambda names: st.tuples(*(sides(name) for name in sorted(names))).map(lambda some: Box.of(*some))
)
REGIONS = st.lists(BOXES, max_size=3).map(Region.of)


def plain(region: Region, rows: list[WireRow]) -> list[WireRow]:
    return [row for row in rows if region.contains(dict(zip(COLUMNS, row, strict=True)).get)]


def wire(table: pa.Table) -> list[WireRow]:
    cells = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in table.columns
    ]
    return list(zip(*cells, strict=True))


@settings(deadline=None)
@given(ROWS, REGIONS)
def test_masks_choose_the_rows_that_lie_in_a_region(rows: list[WireRow], region: Region) -> None:
    table = in_columns(SCHEMA, rows)
    try:
        mask = chosen(region, table)
    except NotByColumns:
        ends = [side.extent for box in region for side in box.sides if side.column in ("id", "seen", "price")]
        assert any(isinstance(extent, Interval) for extent in ends)
        return
    assert wire(table.filter(mask)) == plain(region, rows)


def described(region: Region, epoch: int) -> Subscribed:
    return Subscribed(1, 7, epoch, COLUMNS, TYPES, ("id",), 0.0, 1.0, plain_region(region), 5)


def make(region: Region) -> CachedTable:
    text = CacheText.read("CACHE c OF t LIMIT 1000")
    assert text is not None
    own = CachedTable(1, str(text), text)
    own.describe(described(region, 1))
    return own


@pytest.mark.parametrize("seed", range(5))
def test_a_copy_follows_every_change(seed: int) -> None:
    random = Random(seed)
    own = make(EVERYTHING)
    copy = Copy(own)
    for step in range(300):
        key = random.randrange(150)
        row = (key, random.choice(("a", "b", None)), random.uniform(0, 9), step, random.random() < 0.5)
        kind = random.random()
        if kind < 0.7:
            own.apply_row(Upsert(7, 1, (key,), row))
        elif kind < 0.98:
            own.apply_row(Delete(7, 1, (key,)))
        else:
            own.apply_all([((n,), (n, "b", float(n), n, True)) for n in range(random.randrange(100))])
        if random.random() < 0.3:
            low = random.uniform(0, 9)
            region = random.choice(
                (EVERYTHING, NOTHING, Region((Box.of(Side("price", Interval(low, low + 2, high_open=True))),)))
            )
            assert own.rows is not None
            expected = plain(region, list(own.rows.values()))
            assert sorted(wire(copy.select(region)), key=repr) == sorted(expected, key=repr)


def test_ends_that_the_column_does_not_have_are_looked_at_row_by_row() -> None:
    own = make(EVERYTHING)
    for number in (2**53, 2**53 + 1):
        own.apply_row(Upsert(7, 1, (number,), (number, None, 1.0, 0, None)))
    half = Region((Box.of(Side("id", Interval(0.5, None))),))
    assert len(wire(Copy(own).select(half))) == 2


def test_labels_change_and_rows_that_are_not_pushed_go() -> None:
    def prices(low: float, high: float) -> Region:
        return Region((Box.of(Side("price", Interval(low, high))),))

    own = make(prices(0, 10))
    for number in range(10):
        own.apply_row(Upsert(7, 1, (number,), (number, None, float(number), 0, None)))
    assert own.fits(Subscribed(1, 7, 2, COLUMNS, TYPES, ("id",), 0.0, 1.0, [], 9, was=1))
    assert not own.fits(Subscribed(1, 7, 3, COLUMNS, TYPES, ("id",), 0.0, 1.0, [], 9, was=2))
    assert not own.fits(Subscribed(1, 8, 2, COLUMNS, TYPES, ("id",), 0.0, 1.0, [], 9, was=1))
    own.describe(described(prices(5, 20), 2))
    assert sorted(own.rows or ()) == [(5,), (6,), (7,), (8,), (9,)]
    own.used(prices(8, 9))
    assert own.covers(prices(8, 9))
    assert own.shrink(2)
    assert own.region.empty, "one box of five rows does not fit into room for two"
    own.apply_row(Upsert(7, 2, (6,), (6, None, 6.5, 0, None)))
    assert own.rows == {}
    own.describe(described(Region.of([*prices(5, 7), *prices(30, 40)]), 3))
    assert str(own.region) == str(prices(30, 40)), "what was given up is not relied on, what is new is"


def test_rows_are_not_held_against_every_box_when_labels_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program waits meanwhile, and there may be a thousand boxes and a hundred thousand rows."""

    def prices(boxes: int) -> Region:
        return Region(tuple(Box.of(Side("price", Interval(2 * nth, 2 * nth + 1))) for nth in range(boxes)))

    looked, usual = 0, Box.contains

    def contains(box: Box, value_of: Any) -> bool:
        nonlocal looked
        looked += 1
        return usual(box, value_of)

    own = make(prices(200))
    own.apply_all([((n,), (n, None, float(2 * (n % 200)), 0, None)) for n in range(400)])
    monkeypatch.setattr(Box, "contains", contains)
    own.describe(described(prices(100), 2))
    assert len(own.rows or ()) == 200
    assert looked <= 400
    looked = 0
    assert own.shrink(50)
    assert len(own.rows or ()) == 50
    assert looked <= 2 * 200


@pytest.mark.parametrize(
    "boxes",
    [
        [[["price", "interval", 1, 3, False, False]], [["price", "interval", 2, 4, False, False]]],
        [[["price", "interval", nth, nth + 0.5, False, False]] for nth in range(MOST_LABELLED + 1)],
        [[["price", "circle", 1]]],
        [[["price"]]],
        [7],
    ],
    ids=["overlap", "many", "unknown", "nothing", "number"],
)
def test_labels_that_are_no_region_or_too_many_are_not_taken(boxes: Any) -> None:
    own = make(NOTHING)
    fact = Subscribed(1, 7, 2, COLUMNS, TYPES, ("id",), 0.0, 1.0, boxes, 5)
    with pytest.raises(ProtocolError, match="labels that cannot be used"):
        own.describe(fact)
    assert (own.epoch, own.label) == (1, NOTHING)
