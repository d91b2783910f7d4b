"""Labels survive their file, and cache texts say what they mean."""

import pytest

from slackwater.core.errors import AlgebraError, PlanningError
from slackwater.core.extent import Categories, Interval, Missing
from slackwater.core.labels import (
    MOST_LABELLED,
    MOST_REQUEST_BYTES,
    MOST_REQUESTED,
    MOST_WEIGHT,
    Labels,
    is_requestable,
    labels_line,
    labels_of,
    read_labels,
    requested_region,
)
from slackwater.core.region import NOTHING, Box, Region, Side
from slackwater.core.region_codec import plain_region
from slackwater.core.types import Position
from slackwater.kinds.cache.query import CacheText

REGIONS = (
    NOTHING,
    Region((Box(),)),
    Region((Box.of(Side("price", Interval(6, 10, True, True))), Box.of(Side("price", Missing())))),
    Region((Box.of(Side("price", Interval(None, 3.5)), Side("make", Categories(frozenset({"b", "a"}), True))),)),
    Region((Box.of(Side("make", Categories(frozenset({True, False})))),)),
)


@pytest.mark.parametrize("region", REGIONS, ids=str)
def test_labels_survive_their_file(region: Region) -> None:
    labels = Labels("desk-7", "cars", 3, Position(17), ("price", "make"), region)
    line = labels_line(labels)
    assert labels_of(line) == labels
    assert list(read_labels([line, "", line + "\n"])) == [labels, labels]


@pytest.mark.parametrize("line", ["", "{}", "[1]", '{"client":"a","table":"t","epoch":1,"position":0,"attributes":[]}'])
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(PlanningError, match="labels file"):
        labels_of(line)


def test_a_region_that_is_none_is_refused() -> None:
    line = labels_line(Labels("c", "t", 1, Position(0), (), NOTHING)).replace('"pushed":[]', '"pushed":[[["a","b"]]]')
    with pytest.raises(PlanningError, match="labels file"):
        labels_of(line)


def test_labels_name_their_attributes_and_have_an_epoch() -> None:
    with pytest.raises(PlanningError, match="constrain price"):
        Labels("c", "t", 1, Position(0), ("year",), REGIONS[2])
    with pytest.raises(PlanningError, match="epoch"):
        Labels("c", "t", 0, Position(0), (), NOTHING)


@pytest.mark.parametrize("table", ["cars", "my cars", 'a"b', "Größe"])
def test_cache_texts(table: str) -> None:
    text = CacheText("desk-7.x", table, 500)
    assert CacheText.read(str(text)) == text
    assert CacheText.read(f"  {text}  ") == text


@pytest.mark.parametrize(
    "text", ["CACHE a OF t", "CACHE a OF t LIMIT 0", "CACHE a b OF t LIMIT 5", "SELECT 1", "CACHE OF t LIMIT 1"]
)
def test_other_texts_are_none(text: str) -> None:
    assert CacheText.read(text) is None


def ranges(many: int) -> list[str]:
    return [f'[["price","interval",{nth},{nth}.5,false,false]]' for nth in range(many)]


@pytest.mark.parametrize(
    ("boxes", "why"),
    [
        (ranges(MOST_LABELLED + 1), "boxes"),
        ([*ranges(3), '[["price","interval",2.5,2.75,false,false]]'], "overlap"),
        ([f'[["make","categories",{[*range(MOST_WEIGHT)]},true]]'], "values"),
    ],
    ids=["boxes", "overlap", "values"],
)
def test_labels_have_few_boxes_that_do_not_overlap(boxes: list[str], why: str) -> None:
    line = labels_line(Labels("c", "t", 1, Position(0), ("price", "make"), NOTHING))
    assert len(labels_of(line.replace('"pushed":[]', f'"pushed":[{",".join(ranges(MOST_LABELLED))}]')).pushed.boxes)
    with pytest.raises(PlanningError, match=why):
        labels_of(line.replace('"pushed":[]', f'"pushed":[{",".join(boxes)}]'))


def test_nobody_makes_labels_that_nobody_would_take() -> None:
    wide = Region(tuple(Box.of(Side("price", Interval(nth, nth + 0.5))) for nth in range(MOST_LABELLED + 1)))
    with pytest.raises(PlanningError, match="push fewer"):
        Labels("c", "t", 1, Position(0), ("price",), wide)


def listed(many: int, length: int = 1) -> Region:
    """So many boxes of two values each, no two of which can be told apart by their ends."""
    pairs = [frozenset({"a" * length + str(nth), "z" * length + str(nth)}) for nth in range(many)]
    return Region(tuple(Box.of(Side("make", Categories(pair))) for pair in pairs))


@pytest.mark.parametrize(
    ("region", "taken"),
    [
        (NOTHING, True),
        (listed(100), True),
        (listed(300), False),
        (Region(tuple(Box.of(Side("price", Interval(nth, nth))) for nth in range(MOST_REQUESTED + 1))), False),
        (Region((Box.of(Side("price", Categories(frozenset(range(MOST_WEIGHT))))),)), False),
    ],
    ids=["nothing", "few", "pairs", "boxes", "values"],
)
def test_a_client_speaks_of_what_nodes_take(region: Region, taken: bool) -> None:
    assert is_requestable(region) == taken
    if taken:
        assert requested_region(plain_region(region)) == region
    else:
        with pytest.raises(AlgebraError):
            requested_region(plain_region(region))


def test_a_region_that_is_too_long_is_not_said() -> None:
    assert is_requestable(listed(100, 1_000))
    assert not is_requestable(listed(100, MOST_REQUEST_BYTES // 200))
