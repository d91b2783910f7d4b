"""Places against an oracle that keeps whole histories: a place is held if its records are those of the log."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.lineage import FORMER, MOST_INCARNATIONS, Lineage, Place
from slackwater.core.types import Position


@dataclass
class PlainLog:
    """A log as the list of its records, each one of a kind."""

    records: list[int] = field(default_factory=list)
    lineage: Lineage = field(default_factory=Lineage)

    def copy(self) -> "PlainLog":
        return PlainLog(list(self.records), self.lineage)

    @property
    def end(self) -> Position:
        return Position(len(self.records))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 5)),
        st.tuples(st.just("open"), st.just(0)),
        st.tuples(st.just("copy"), st.just(0)),
        st.tuples(st.just("cut"), st.integers(0, 5)),
        st.tuples(st.just("restore"), st.integers(0, 9)),
    ),
    max_size=40,
)


@given(steps=STEPS, former=st.integers(0, 4))
def test_a_place_is_held_only_where_its_records_are(steps: list[tuple[str, int]], former: int) -> None:
    log = PlainLog(list(range(-former, 0)))
    copies: list[PlainLog] = [log.copy()]
    states: list[tuple[Place, list[int]]] = []
    number = record = 0
    log.lineage = log.lineage.begin(number := number + 1, log.end)
    for step, amount in steps:
        match step:
            case "append":
                for _ in range(amount):
                    log.records.append(record := record + 1)
                    states.append((log.lineage.place(log.end), list(log.records)))
            case "copy":
                copies.append(log.copy())
            case "restore" | "open" | "cut":
                if step == "restore":
                    log = copies[amount % len(copies)].copy()
                elif step == "cut":
                    # A copy of a log that was being written: it may lack the last records, not those of earlier ones.
                    least = log.lineage.incarnations[-1].start
                    log = PlainLog(log.records[: max(least, log.end - amount)], log.lineage)
                log.lineage = log.lineage.begin(number := number + 1, log.end)
        for place, records in states:
            same = log.records[: len(records)] == records
            assert log.lineage.holds(place, log.end) <= same, "a state of another history is never held"
    assert Lineage.read(log.lineage.plain()) == log.lineage
    assert log.lineage.holds(log.lineage.place(log.end), log.end)


@given(steps=st.lists(st.integers(0, 3), max_size=30))
def test_a_log_that_only_goes_on_holds_all_its_places(steps: list[int]) -> None:
    log, places = PlainLog(), [Place(FORMER, Position(0))]
    for number, amount in enumerate(steps, start=1):
        log.lineage = log.lineage.begin(number, log.end)
        for record in range(amount):
            log.records.append(record)
            places.append(log.lineage.place(log.end))
    assert all(log.lineage.holds(place, log.end) for place in places[1:])


def test_openings_that_append_nothing_are_places_too() -> None:
    lineage = Lineage().begin(7, Position(0)).begin(8, Position(100)).begin(9, Position(100))
    assert lineage.holds(Place(8, Position(100)))
    assert lineage.kept(Place(8, Position(100))) == 100, "two restarts in a row are no restore"
    assert Lineage().begin(7, Position(0)).begin(8, Position(100)).went_on(lineage, Position(100), Position(100))


def test_of_many_openings_those_go_first_that_append_nothing() -> None:
    lineage = Lineage().begin(1, Position(0)).begin(2, Position(10))
    for number in range(3, MOST_INCARNATIONS + 500):
        lineage = lineage.begin(number, Position(20))
    assert len(lineage.incarnations) == MOST_INCARNATIONS
    assert [one.number for one in lineage.incarnations[:2]] == [1, 2]
    assert lineage.kept(Place(2, Position(20))) == 20


def test_what_was_written_before_incarnations_were_listed_is_one_history() -> None:
    lineage = Lineage().begin(5, Position(10))
    assert lineage.holds(Place(FORMER, Position(10)))
    assert not lineage.holds(Place(FORMER, Position(11)))
    assert Lineage().holds(Place(FORMER, Position(3)), Position(3))
    assert not Lineage().holds(Place(FORMER, Position(4)), Position(3))


def test_the_list_is_bounded() -> None:
    lineage = Lineage()
    for number in range(1, MOST_INCARNATIONS + 100):
        lineage = lineage.begin(number, Position(number))
    assert len(lineage.incarnations) == MOST_INCARNATIONS
    assert not lineage.holds(Place(3, Position(3)))
    assert lineage.holds(Place(1_000, Position(1_001)))


@pytest.mark.parametrize("plain", [[(3, 5), (4, 2)], [(-1, 0)], [(2**63, 0)]])
def test_what_cannot_be_a_lineage_is_refused(plain: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="incarnations"):
        Lineage.read(plain)
