"""One upstream, event by event: what is written, when, and when it can be relied on."""

from typing import Any

import pytest

from slackwater.aggregator.base import Item
from slackwater.aggregator.upstream.state import ROOM, UpstreamState, Write
from slackwater.client.live.events import (
    AnswerChanged,
    Certainty,
    ClockTick,
    Described,
    Lost,
    MessageReceived,
    Opened,
    SubscriptionEnded,
    Wanted,
)
from slackwater.client.live.state import ClientState
from slackwater.core.lineage import Place
from slackwater.core.types import Position
from slackwater.dissemination.messages import Fact, Frame, Refused, Resumed, Subscribed, Suspended, Value, Welcome

LEASE = 1_000_000
A, B = Item("x", "t", "v", ("a",), 0.5), Item("x", "t", "v", ("b",), 0.5)


class Bench:
    """A client of an upstream, and the state that listens to it."""

    def __init__(self, **options: Any) -> None:
        self.now = 5_000_000
        self.state = UpstreamState("x", (A, B), patience=LEASE, **options)
        self.client = ClientState(lambda: 0.5, after=self.state.after)
        self.sequence = 0
        self.lives = 0
        for ref, item in enumerate((A, B), start=1):
            self.state.wanted(ref, item)
            self.do(Wanted(ref, f"item {ref}"))
        self.do(ClockTick())

    def do(self, event: Any) -> list[Any]:
        out = self.client.handle(event, self.now)
        told = [one for one in out if isinstance(one, AnswerChanged | Described | SubscriptionEnded | Certainty)]
        self.state.heard(self.client, told)
        return [*out]

    def connect(self, incarnation: int = 7, kept: int | None = None) -> None:
        self.lives += 1
        (send,) = self.do(Opened())
        kept = send.message.after if kept is None else kept
        session = (f"n/1/{self.lives}", "n", 1, LEASE, send.message.clock)
        self.do(MessageReceived(Welcome(*session, incarnation=incarnation, kept=kept)))
        self.sequence = 0

    def frame(self, as_of: int, *facts: Fact) -> None:
        base, self.sequence = self.sequence, self.sequence + bool(facts)
        self.do(MessageReceived(Frame(f"n/1/{self.lives}", base, self.sequence, as_of, self.now, facts)))

    def granted(self, *refs: int) -> list[Fact]:
        return [Subscribed(ref, ref + 10, 0, (), (), (), 0.5, 1.0) for ref in refs]

    def said(self, a: float | None, b: float | None) -> list[Fact]:
        return [*self.granted(1, 2), Value(11, 0, a), Value(12, 0, b)]

    def write(self, time: int = 100) -> Write | None:
        return self.state.next_write(self.now, time)

    def doubt(self) -> str | None:
        return self.state.doubt

    def written(self) -> dict[str, float | None]:
        write = self.write()
        assert write is not None
        self.state.wrote(write)
        return {str(row.key[0]): row.values["v"] for row in write.rows}


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.connect()
    return made


def test_nothing_is_relied_on_before_all_items_are_written(bench: Bench) -> None:
    assert bench.doubt() == "upstream x: it has not answered yet"
    bench.frame(40, *bench.granted(1), Value(11, 0, 1.0))
    assert bench.write() is None, "a part of a state is right at no position"
    bench.frame(42, *bench.granted(2), Value(12, 0, None))
    write = bench.write()
    assert write is not None
    assert (write.position, write.first, [row.there for row in write.rows]) == (42, 42 * ROOM, [True, False])
    assert bench.doubt() == "upstream x: what it says is being taken in"
    bench.state.wrote(write)
    assert bench.doubt() is None
    assert bench.state.stands == 42


def test_only_what_changed_is_written_and_only_one_write_is_under_way(bench: Bench) -> None:
    bench.frame(40, *bench.said(1.0, 2.0))
    assert bench.written() == {"a": 1.0, "b": 2.0}
    bench.frame(44)
    assert bench.write() is None
    assert bench.state.stands == 44, "a heartbeat says that all is still right"
    bench.frame(50, Value(11, 0, 5.0))
    first = bench.write()
    assert first is not None
    assert [row.key for row in first.rows] == [("a",)]
    assert bench.state.stands == 44
    bench.frame(51, Value(12, 0, 6.0))
    bench.frame(52, Value(12, 0, 7.0))
    assert bench.write() is None
    bench.state.wrote(first)
    assert bench.state.stands == 50
    assert bench.written() == {"b": 7.0}
    assert bench.state.stands == 52
    assert bench.doubt() is None


def test_numbers_rise_also_at_one_position_and_after_a_restart(bench: Bench) -> None:
    bench.frame(40, *bench.said(1.0, 2.0))
    write = bench.write(time=100)
    assert write is not None
    bench.state.wrote(write)
    again = Bench(last=(write.time, write.first + 1))
    assert again.state.after == Place(0, Position(40))
    again.connect()
    again.frame(40, *again.said(1.5, 2.5))
    later = again.write(time=7)
    assert later is not None
    assert later.first > write.first + 1
    assert later.time > write.time, "a clock that was set back does not lose an update"


def test_an_upstream_restored_from_a_copy_is_doubted_and_written_anew_under_rising_numbers(bench: Bench) -> None:
    bench.frame(90, *bench.said(1.0, 2.0))
    before = bench.write()
    assert before is not None
    bench.state.wrote(before)
    bench.do(Lost("restored"))
    for _ in range(2):
        bench.connect(incarnation=8, kept=30)
        assert bench.doubt() is not None
        assert bench.write() is None
        bench.frame(31, *bench.said(1.0, 5.0))
        later = bench.write()
        assert later is not None
        assert later.first > before.first + 1, "rows of the log here are never older than those before them"
        assert bench.state.after == Place(8, Position(31))
        bench.state.wrote(later)
        assert bench.state.stands == 31
        again = Bench(last=(later.time, later.first + 1), history=bench.state.history)
        assert again.state.after == Place(8, Position(31)), "what a next life asks for can be had"
        before, bench = later, again


def test_a_lost_upstream_is_doubted_when_its_lease_ends_and_trusted_when_all_is_written(bench: Bench) -> None:
    bench.frame(40, *bench.said(1.0, 2.0))
    bench.written()
    bench.do(Lost("gone"))
    assert bench.doubt() is None, "it is right as of 40 still"
    bench.now += LEASE
    bench.do(ClockTick())
    assert (bench.doubt() or "").startswith("upstream x: the lease ended")
    bench.connect()
    bench.frame(60, *bench.granted(1), Value(11, 0, 9.0))
    assert bench.write() is None
    bench.frame(61, *bench.granted(2), Value(12, 0, 2.0))
    assert bench.doubt() is not None
    write = bench.write()
    assert write is not None
    assert write.position == 61
    bench.state.wrote(write)
    assert bench.doubt() is None


def test_what_comes_back_before_the_lease_ends_is_written_when_all_of_it_is_back(bench: Bench) -> None:
    bench.frame(40, *bench.said(1.0, 2.0))
    bench.written()
    bench.do(Lost("gone"))
    bench.connect()
    bench.frame(60, *bench.granted(1), Value(11, 0, 9.0))
    assert bench.doubt() is None
    assert bench.write() is None, "one item is of 60 and the other of 40"
    assert bench.state.stands == 40
    bench.frame(61, *bench.granted(2), Value(12, 0, 2.0))
    assert bench.written() == {"a": 9.0}


def test_a_write_that_was_begun_before_a_doubt_does_not_end_it(bench: Bench) -> None:
    bench.frame(40, *bench.said(1.0, 2.0))
    write = bench.write()
    assert write is not None
    bench.frame(45, Suspended(12, 0, "its upstream is lost"))
    bench.frame(50, Resumed(12, 0), Value(12, 0, 8.0))
    bench.state.wrote(write)
    assert bench.doubt() == "upstream x: what it says is being taken in"
    assert bench.written() == {"b": 8.0}
    assert bench.doubt() is None


def test_a_suspended_item_is_a_doubt_with_its_reason(bench: Bench) -> None:
    bench.frame(40, *bench.said(1.0, 2.0))
    bench.written()
    bench.frame(45, Suspended(12, 0, "its upstream is lost"))
    assert bench.doubt() == "upstream x: its upstream is lost"
    bench.frame(50, Resumed(12, 0), Value(12, 0, 2.0))
    assert bench.write() is None
    assert bench.doubt() is None, "nothing is another than before"


def test_a_refused_item_is_a_doubt_until_it_is_granted(bench: Bench) -> None:
    bench.frame(40, *bench.granted(1), Value(11, 0, 1.0), Refused(2, "the tightest bound is 3"))
    assert bench.doubt() == "upstream x: the tightest bound is 3"
    assert bench.state.refused == {2: "the tightest bound is 3"}
    assert bench.state.unwanted(2) == B
    bench.state.wanted(3, B)
    bench.do(Wanted(3, "item 2"))
    bench.frame(44, *bench.granted(3), Value(13, 0, 2.0))
    assert bench.written() == {"a": 1.0, "b": 2.0}
    assert bench.doubt() is None


def test_a_write_that_takes_too_long_is_a_doubt(bench: Bench) -> None:
    bench.frame(40, *bench.said(1.0, 2.0))
    bench.written()
    bench.frame(50, Value(11, 0, 5.0))
    write = bench.write()
    assert write is not None
    bench.now += LEASE
    bench.state.tick(bench.now)
    assert bench.doubt() is None
    bench.state.tick(bench.now + 1)
    assert "fast enough" in (bench.doubt() or "")
    bench.frame(60, Value(11, 0, 6.0))
    bench.state.wrote(write)
    assert bench.doubt() is not None, "what came meanwhile is not written yet"
    bench.written()
    assert bench.doubt() is None


def test_a_write_that_fails_is_written_again(bench: Bench) -> None:
    bench.frame(40, *bench.said(1.0, 2.0))
    write = bench.write()
    assert write is not None
    bench.frame(41, Value(11, 0, 3.0))
    bench.state.failed(write)
    again = bench.write()
    assert again is not None
    assert {row.key: row.values["v"] for row in again.rows} == {("a",): 3.0, ("b",): 2.0}
    assert again.first > write.first


def test_rows_that_are_held_no_longer_are_taken_away(bench: Bench) -> None:
    bench = Bench(stale=[("t", ("old",))])
    bench.connect()
    bench.frame(40, *bench.said(1.0, 2.0))
    write = bench.write()
    assert write is not None
    assert [(row.key, row.there) for row in write.rows] == [(("a",), True), (("b",), True), (("old",), False)]
    bench.state.failed(write)
    again = bench.write()
    assert again is not None
    assert len(again.rows) == 3


def test_an_item_that_is_kept_less_closely_than_asked_is_a_doubt(bench: Bench) -> None:
    bench.frame(40, *bench.said(1.0, 2.0))
    bench.written()
    loose = Subscribed(2, 12, 1, (), (), (), 0.75, 1.0)
    bench.frame(45, loose, Value(12, 1, 2.5))
    assert bench.doubt() == "upstream x: it keeps an item within 0.75 for 100% of the time, not as closely as asked"
    assert bench.write() is None
    bench.frame(50, Subscribed(2, 12, 2, (), (), (), 0.5, 1.0), Value(12, 2, 2.75))
    assert bench.doubt() == "upstream x: what it says is being taken in"
    assert bench.written() == {"b": 2.75}
    assert bench.doubt() is None


def test_when_nobody_will_have_the_client_another_one_begins_where_it_left_off(bench: Bench) -> None:
    bench.frame(40, *bench.said(1.0, 2.0))
    bench.written()
    bench.frame(45)
    assert bench.state.lost("the token was revoked") == [A, B]
    assert bench.doubt() == "upstream x: the token was revoked"
    assert bench.state.after == Place(7, Position(45))
    bench.client = ClientState(lambda: 0.5, after=bench.state.after)
    for ref, item in enumerate((A, B), start=1):
        bench.state.wanted(ref, item)
        bench.do(Wanted(ref, "again"))
    bench.do(ClockTick())
    assert bench.doubt() == "upstream x: it has not answered yet"
    bench.connect()
    bench.frame(50, *bench.said(1.0, 3.0))
    assert bench.written() == {"a": 1.0, "b": 3.0}
    assert bench.doubt() is None


def test_writes_that_fail_one_after_the_other_are_a_doubt(bench: Bench) -> None:
    """A full disk answers at once: no single write takes long, and still nothing is written."""
    bench.frame(40, *bench.said(1.0, 2.0))
    bench.written()
    bench.frame(50, Value(11, 0, 5.0))
    for _ in range(5):
        write = bench.write()
        assert write is not None
        bench.state.failed(write)
        bench.now += LEASE // 4
        bench.state.tick(bench.now)
    assert "fast enough" in (bench.doubt() or "")
    bench.written()
    assert bench.doubt() is None
