"""Labels for one client: the exact ones where they fit, fewer where they do not, and no change that does not pay."""

from pathlib import Path
from random import Random

import pytest

from slackwater.core.extent import Categories, Interval
from slackwater.core.labels import MOST_LABELLED
from slackwater.core.region import EVERYTHING, NOTHING, Box, Region, Side
from slackwater.planning.push_pull.encoding import Asked, Changed
from slackwater.planning.push_pull.label_one import Window, attributes, label, worthwhile
from slackwater.planning.push_pull.region_map import RegionMap


def between(low: float, high: float) -> Region:
    return Region((Box.of(Side("price", Interval(low, high))),))


def window(seed: int) -> Window:
    random = Random(seed)
    lows = [random.randrange(90) for _ in range(8)]
    asked = tuple(Asked(between(low, low + random.randrange(1, 15)), times=random.randrange(1, 9)) for low in lows)
    changed = tuple(
        Changed({"price": float(random.randrange(100))}, {"price": float(random.randrange(100))}) for _ in range(40)
    )
    return Window(asked, changed)


PRICES = [float(number % 100) for number in range(300)]


def rows_in(region: Region) -> int:
    return sum(region.contains({"price": price}.get) for price in PRICES)


@pytest.mark.parametrize("seed", range(30))
def test_with_room_no_choice_of_queries_is_cheaper(seed: int) -> None:
    some = window(seed)
    best = some.messages(label(some, rows_in, 10**6))
    for chosen in range(2 ** len(some.asked)):
        pushed = Region.of(box for nth, one in enumerate(some.asked) if chosen >> nth & 1 for box in one.region)
        assert best <= some.messages(pushed)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("limit", [1, 20, 60])
def test_labels_fit_the_room(seed: int, limit: int) -> None:
    some = window(seed)
    pushed = label(some, rows_in, limit)
    assert rows_in(pushed) <= limit
    assert some.messages(pushed) <= some.messages(NOTHING)


def test_attributes_are_those_that_are_asked_most() -> None:
    make = Region((Box.of(Side("make", Categories(frozenset({"a"}))), Side("price", Interval(1, 2))),))
    assert attributes([Asked(make), Asked(between(1, 2), times=3)]) == ("price", "make")
    assert attributes([Asked(EVERYTHING)]) == ()
    assert label(Window((Asked(EVERYTHING, times=5),), ()), rows_in, 10**6) == EVERYTHING
    assert label(Window((Asked(EVERYTHING, times=5),), ()), rows_in, 10).empty
    assert label(Window((), ()), rows_in, 10).empty


def test_a_change_has_to_pay_for_its_fill() -> None:
    some = Window((Asked(between(1, 2), times=10),), (Changed({"price": 1.5}),))
    assert worthwhile(some, NOTHING, between(1, 2), fill=30, lasting=4.0)
    assert not worthwhile(some, NOTHING, between(1, 2), fill=40, lasting=4.0)
    assert not worthwhile(some, between(1, 2), between(1, 2), fill=0, lasting=4.0)


def test_the_picture_of_the_documentation_is_the_one_that_is_drawn() -> None:
    def prices(low: int, high: int) -> Region:
        return Region((Box.of(Side("price", Interval(low, high, True, True))),))

    asked = [((2, 6), 1), ((2, 14), 1), ((6, 10), 2), ((6, 18), 1), ((14, 18), 1)]
    shown = tuple((prices(*ends), times) for ends, times in asked)
    drawn = RegionMap("desk-7", "cars", 1, 140, ("price",), prices(6, 10), asked=shown).svg()
    assert (Path(__file__).parents[3] / "docs" / "client-cache" / "strip.svg").read_text() == drawn + "\n"


def test_maps_are_drawn_of_every_kind_of_region() -> None:
    from xml.etree import ElementTree

    from slackwater.core.extent import Missing

    two = Region.of(
        [
            Box.of(Side("price", Interval(None, 5, high_open=True)), Side("make", Categories(frozenset({"<a>", "b"})))),
            Box.of(Side("price", Missing()), Side("make", Categories(frozenset({"b"}), complement=True))),
            Box.of(Side("make", Missing())),
            Box.of(Side("name", Interval("m", "z")), Side("price", Interval(9, None))),
        ]
    )
    for attributes_shown in ((), ("price",), ("price", "make"), ("make", "name"), ("name", "price", "make")):
        drawn = RegionMap(
            "c<1>", "cars", 2, 9, attributes_shown, two, between(6, 7), 3, ((between(1, 20), 4), (two, 1))
        )
        tree = ElementTree.fromstring(drawn.svg())
        shapes = [one for one in tree.iter() if one.tag.endswith("rect")]
        for shape in shapes:
            assert float(shape.get("width", "0")) > 0
            assert -1 <= float(shape.get("x", "0")) <= 800
        assert len(shapes) > 6
        assert drawn.plain()["attributes"] == list(attributes_shown)


def test_labels_have_no_more_boxes_than_anybody_takes() -> None:
    asked = tuple(Asked(between(nth, nth + 0.5), times=1 + nth) for nth in range(MOST_LABELLED + 50))
    pushed = label(Window(asked, ()), lambda region: len(region.boxes), 10**6)
    assert MOST_LABELLED // 4 < len(pushed.boxes) <= MOST_LABELLED
    assert pushed.covers(asked[-1].region), "what is asked most is pushed first"
