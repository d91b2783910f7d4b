"""Parts added up: one plan at a time, complete before it is taken up, certain only as a whole."""

import pytest

from slackwater.client.live.events import Shown
from slackwater.client.planned.partial_sum import PartialSum, SubscribePart, SumPart, UnsubscribePart, part_of
from slackwater.core.errors import ProtocolError
from slackwater.dissemination.messages import WireRow


def part(aggregator: str, sql: str = "", within: float = 1.0) -> SumPart:
    return SumPart(aggregator, (f"http://{aggregator}",), sql or aggregator, within)


class Parts:
    """What is shown of parts, as sessions would."""

    def __init__(self) -> None:
        self.shown: dict[int, Shown] = {}

    def __call__(self, place: int) -> Shown:
        return self.shown.get(place, Shown(None, None, 0.0, 1.0, None, False, "it is awaited"))

    def put(self, place: int, value: float | None, as_of: int, why: str = "") -> None:
        self.shown[place] = Shown(value, None, 1.0, 1.0, as_of, not why, why)


def taken_up() -> tuple[PartialSum, Parts]:
    adding, parts = PartialSum(), Parts()
    assert adding.plan((7, 0), 10, 5.0, [part("a"), part("b")]) == [
        SubscribePart(1, part("a")),
        SubscribePart(2, part("b")),
    ]
    parts.put(1, 1.5, 3)
    assert adding.look(parts) == []
    assert adding.plans == 0
    parts.put(2, 2.0, 99)
    assert adding.look(parts) == []
    return adding, parts


def test_nothing_is_shown_before_all_parts_are_in() -> None:
    adding, parts = PartialSum(), Parts()
    assert adding.shown(parts, "its plan is awaited").why == "its plan is awaited"
    adding.plan((7, 0), 10, 5.0, [part("a"), part("b")])
    parts.put(1, 1.5, 3)
    adding.look(parts)
    shown = adding.shown(parts, "")
    assert (shown.value, shown.positions, shown.certain) == (None, None, False)
    assert "the part at b is not certain: it is awaited" in shown.why


def test_parts_are_added_up_with_their_positions() -> None:
    adding, parts = taken_up()
    shown = adding.shown(parts, "")
    assert (shown.value, shown.bound, shown.certain, shown.epoch) == (3.5, 5.0, True, 0)
    assert shown.positions == (("a", 3), ("b", 99))
    assert shown.as_of is None
    parts.put(2, None, 100)
    assert adding.shown(parts, "").value == 1.5
    parts.put(1, None, 4)
    assert adding.shown(parts, "").value is None, "a sum over no rows is nothing"


def test_one_part_that_is_not_certain_makes_the_sum_uncertain() -> None:
    adding, parts = taken_up()
    parts.put(2, 2.0, 99, "the lease ended")
    shown = adding.shown(parts, "")
    assert not shown.certain
    assert shown.value == 3.5
    assert shown.why == "the part at b is not certain: the lease ended"


def test_the_old_plan_serves_until_the_new_one_is_complete_and_parts_of_both_are_kept() -> None:
    adding, parts = taken_up()
    assert adding.plan((7, 1), 20, 5.0, [part("a"), part("c")]) == [SubscribePart(3, part("c"))]
    parts.put(3, 40.0, 1, "not yet")
    assert adding.look(parts) == []
    assert adding.shown(parts, "").value == 3.5
    parts.put(3, 40.0, 1)
    assert adding.look(parts) == [UnsubscribePart(2)]
    shown = adding.shown(parts, "")
    assert (shown.value, shown.epoch, shown.positions) == (41.5, 1, (("a", 3), ("c", 1)))


def test_the_same_part_within_another_bound_is_another_part() -> None:
    adding, parts = taken_up()
    closer = part("a", "closer", 0.5)
    assert adding.plan((7, 1), 20, 5.0, [closer, part("b")]) == [SubscribePart(3, closer)]
    parts.put(3, 1.4, 5)
    assert adding.look(parts) == [UnsubscribePart(1)]


def test_a_plan_that_is_overtaken_is_never_taken_up() -> None:
    adding, parts = taken_up()
    assert adding.plan((7, 1), 20, 5.0, [part("c")]) == [SubscribePart(3, part("c"))]
    assert adding.plan((7, 2), 30, 5.0, [part("d")]) == [SubscribePart(4, part("d")), UnsubscribePart(3)]
    parts.put(3, 1.0, 1)
    assert adding.look(parts) == []
    parts.put(4, 9.0, 1)
    assert adding.look(parts) == [UnsubscribePart(1), UnsubscribePart(2)]
    assert adding.shown(parts, "").value == 9.0


def test_a_plan_of_a_restored_node_counts_from_an_earlier_position_on() -> None:
    adding, parts = taken_up()
    assert adding.plan((7, 0), 4, 5.0, [part("a"), part("c")], incarnation=9) == [SubscribePart(3, part("c"))]
    parts.put(3, 4.0, 1)
    assert adding.look(parts) == [UnsubscribePart(2)]
    assert adding.shown(parts, "").value == 5.5
    assert adding.plan((7, 0), 5, 5.0, [part("a"), part("c")], incarnation=11) == [], "it only was opened again"
    assert adding.plan((7, 1), 3, 5.0, [part("z")], incarnation=11) == [], "late in the same history"


def test_a_plan_that_is_late_or_told_again_changes_nothing() -> None:
    adding, parts = taken_up()
    assert adding.plan((7, 0), 12, 5.0, [part("a"), part("b")]) == []
    assert adding.plan((6, 9), 11, 5.0, [part("z")]) == []
    assert adding.look(parts) == []
    assert adding.which == (7, 0)


def test_what_is_left_when_a_part_is_taken_away_is_not_shown_as_the_sum() -> None:
    adding, parts = taken_up()
    before = adding.shown(parts, "")
    del parts.shown[2]
    shown = adding.shown(parts, "")
    assert (shown.value, shown.positions, shown.certain) == (before.value, before.positions, False)


def test_a_part_is_read_from_its_row_and_nonsense_is_refused() -> None:
    row = (0, "near", "http://a:1 http://b:2", "SUBSCRIBE …", 2, 0.5, None)
    assert part_of(row) == SumPart("near", ("http://a:1", "http://b:2"), "SUBSCRIBE …", 2.0)
    assert part_of((1, "", "", "SUBSCRIBE …", 0.5)).nodes == ()
    wrong: tuple[WireRow, ...] = ((), (0, "near"), (0, None, "", "SUBSCRIBE …", 1.0), (0, "near", "", "x", "1.0"))
    for row_ in wrong:
        with pytest.raises(ProtocolError, match="cannot be read"):
            part_of(row_)
