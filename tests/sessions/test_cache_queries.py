"""Questions, labels and fills of a node, one event after the other."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulation.workload import TABLE
from slackwater.core.extent import Categories, Interval
from slackwater.core.labels import MOST_LABELLED, MOST_REQUESTED, MOST_WEIGHT
from slackwater.core.query import Selection
from slackwater.core.region import EVERYTHING, Box, Region, Side
from slackwater.core.region_codec import plain_region
from slackwater.dissemination.encoding import Encoding, decode_rows
from slackwater.dissemination.messages import (
    Ack,
    Ask,
    Counted,
    Delete,
    Frame,
    GiveUp,
    Reply,
    Report,
    Snapshot,
    Subscribed,
    Unanswered,
    Upsert,
)
from slackwater.kinds.registry import query_of
from slackwater.kinds.selection.kind import as_selection
from slackwater.log import Registered
from slackwater.server.node import Node, NodeSettings
from slackwater.sessions.cache_queries import MOST_CHARACTERS, MOST_REPORTED, CacheQueries
from slackwater.sessions.events import Blocked, Tick, Writable
from slackwater.sessions.limits import ServerLimits
from slackwater.sessions.session import MOST_ASKED
from tests.support.cache_bench import WIDE, CacheBench, between
from tests.support.state_bench import LIMITS, RULES


def keys(reply: Reply) -> list[Any]:
    return sorted(key[0] for key, _ in decode_rows(reply.rows, reply.digest, Encoding.MESSAGEPACK))


def test_a_label_change_fills_in_what_is_new_and_no_more() -> None:
    bench = CacheBench()
    bench.label(between(2, 4), 1)
    (frame,) = bench.frames()
    told, *fill = frame.facts
    assert isinstance(told, Subscribed)
    assert (told.epoch, told.was, told.region) == (1, 0, plain_region(between(2, 4)))
    assert {fact.key for fact in fill if isinstance(fact, Upsert)} == {(2,), (3,), (4,)}
    bench.acknowledge()
    bench.label(between(3, 6), 2)
    (frame,) = bench.frames()
    told, *fill = frame.facts
    assert isinstance(told, Subscribed)
    assert (told.epoch, told.was) == (2, 1)
    assert {fact.key for fact in fill if isinstance(fact, Upsert)} == {(5,), (6,)}


def test_what_is_under_way_is_told_again_under_the_new_labels() -> None:
    bench = CacheBench()
    bench.label(between(2, 4), 1)
    bench.acknowledge()
    bench.change((3, 3.5), (4, 40.0))
    bench.take()
    bench.label(between(3, 6), 2)
    (frame,) = bench.frames()
    facts = {fact.key: fact for fact in frame.facts if isinstance(fact, Upsert | Delete)}
    assert isinstance(facts[3,], Upsert)
    assert isinstance(facts[4,], Delete)
    assert set(facts) == {(3,), (4,), (5,), (6,)}


def test_who_may_not_have_heard_of_the_last_labels_is_sent_all_rows() -> None:
    bench = CacheBench()
    bench.label(between(2, 4), 1)
    bench.label(between(3, 6), 2)
    frame = bench.frames()[-1]
    assert isinstance(frame.facts[0], Subscribed)
    assert frame.facts[0].was is None
    assert [fact.count for fact in frame.facts if isinstance(fact, Snapshot)] == [4]


def test_a_question_is_answered_without_what_is_pushed() -> None:
    bench = CacheBench()
    bench.label(between(2, 4), 1)
    bench.take()
    frame = bench.ask(between(1, 5), label=bench.number)
    (reply,) = frame.facts
    assert isinstance(reply, Reply)
    assert (reply.epoch, keys(reply), frame.as_of) == (1, [1, 5], bench.end)
    (reply,) = bench.ask(between(1, 5)).facts
    assert isinstance(reply, Reply)
    assert (reply.epoch, keys(reply)) == (None, [1, 2, 3, 4, 5])
    (reply,) = bench.ask(between(1, 5), label=999).facts
    assert isinstance(reply, Reply)
    assert reply.epoch is None


def test_a_question_waits_for_the_connection_and_for_its_position_and_is_answered_as_of_then() -> None:
    bench = CacheBench()
    bench.label(between(2, 4), 1)
    bench.take()
    bench.do(Blocked(1))
    bench.say(Ask(1, "items", plain_region(between(1, 5)), label=bench.number))
    bench.change((3, 3.5), (1, 4.5), (8, 1.5))
    assert bench.frames() == []
    bench.do(Writable(1))
    (frame,) = bench.frames()
    *pushed, reply = frame.facts
    assert [fact.key for fact in pushed if isinstance(fact, Upsert)] == [(3,)]
    assert isinstance(reply, Reply)
    assert (keys(reply), frame.as_of) == ([1, 5, 8], bench.end)
    bench.say(Ask(2, "items", plain_region(EVERYTHING), after=bench.end + 1))
    assert bench.frames() == []
    bench.change((7, 70.0))
    (frame,) = bench.frames()
    assert isinstance(frame.facts[-1], Reply)


def test_lost_answers_are_given_anew_as_of_the_frame_that_makes_good() -> None:
    bench = CacheBench()
    assert bench.state is not None
    before = bench.state.sessions[1].sequence
    bench.ask(between(1, 3))
    bench.change((2, 50.0))
    bench.take()
    bench.say(Ack(before, 300, missing=True))
    (frame,) = bench.frames()
    (reply,) = [fact for fact in frame.facts if isinstance(fact, Reply)]
    assert (frame.base, keys(reply), frame.as_of) == (before, [1, 3], bench.end)
    bench.say(Ack(frame.sequence, 300))
    bench.say(Ack(frame.sequence, 300, missing=True))
    assert bench.frames() == []


def test_a_cache_without_room_gets_labels_that_fit() -> None:
    bench = CacheBench()
    bench.label(between(2, 6), 1)
    bench.take()
    bench.say(GiveUp(bench.number, 0, plain_region(between(2, 3))))
    bench.say(GiveUp(bench.number, 1, plain_region(between(2, 6))))
    assert bench.asked == [], "under other labels, or without anything given up, nothing changes"
    bench.say(GiveUp(bench.number, 1, plain_region(between(1, 3))))
    (record,) = bench.asked
    assert isinstance(record, Registered)
    assert (record.number, record.epoch) == (bench.number, 2)
    query = query_of(record.query or [])
    assert isinstance(query, Selection)
    assert query.region.equals(between(2, 3)), "giving up never pushes more"


def test_what_was_asked_is_remembered() -> None:
    bench = CacheBench()
    bench.ask(between(1, 5))
    bench.say(
        Report(
            (
                Counted("items", plain_region(between(2, 3)), 7),
                Counted("other", [], 3),
                Counted("items", [[["price"]]], 1),
            )
        )
    )
    assert bench.state is not None
    asked = bench.state.questions.asked[bench.number]
    assert list(asked.recent) == [(between(1, 5), 1), (between(2, 3), 7)]
    assert (asked.since, asked.home, asked.pulled) == (8, 7, 1)


NONSENSE: tuple[Any, ...] = (
    [[["price"]]],
    [[["price", "interval", 2, 1, False]]],
    [[["price", "interval", "a", 1, False, False]]],
    [[["nothing", "missing"]]],
    [[["grade", "interval", 1, 2, False, False]]],
    [[["price", "circle", 1]]],
    [[["price", "categories", [[1]], False]]],
    [[["price", "categories", [], False]]],
    [[["price", "missing"], ["price", "missing"]]],
    [[[5, "missing"]]],
    [[["price", "categories", [None], False]]],
    [[["price", "categories", [None, 1.0], False]]],
    [[["price", "categories", [b"1"], False]]],
    [[["price", "categories", [math.nan], False]]],
    [[["price", "categories", [math.inf, 1.0], True]]],
    [[["price", "categories", [1.0], 1]]],
    [[["price", "categories", [1.0], None]]],
    [[["price", "categories", "12", False]]],
    [[["price", "interval", b"1", None, False, False]]],
    [[["price", "interval", -math.inf, 1.0, False, False]]],
    [[["price", "interval", 1.0, math.nan, False, False]]],
    [[["price", "interval", 1.0, 2.0, 0, "no"]]],
    [[["price", "interval", 1.0, 2.0, None, False]]],
    [[["price", "interval", 1.0, 3.0, False, False]], [["price", "interval", 3.0, 4.0, False, False]]],
    [[["price", "interval", 1.0, 3.0, False, False]], [["grade", "categories", ["a"], False]]],
    [[["price", "missing"]], [["grade", "missing"]]],
    [[], []],
    [[["grade", "categories", [f"{nth}" for nth in range(MOST_WEIGHT)], True]]],
)


@pytest.mark.parametrize("region", NONSENSE, ids=lambda region: str(region)[:80])
def test_strange_regions_are_refused_and_nothing_else_happens(region: Any) -> None:
    bench = CacheBench()
    bench.say(Ask(1, "items", region))
    (frame,) = bench.frames()
    (fact,) = frame.facts
    assert isinstance(fact, Unanswered)
    bench.say(Ask(2, "items", region, after=bench.end + 1))
    assert bench.frames() == [], "it waits for its position, and is looked at while the log is followed"
    bench.change((1, 10.0))
    (frame,) = bench.frames()
    assert isinstance(frame.facts[-1], Unanswered)
    bench.say(GiveUp(bench.number, 0, region))
    bench.say(Report((Counted("items", region, 1),)))
    assert bench.asked == []
    assert bench.state is not None
    assert not bench.state.questions.asked, "nothing of it is planned for"
    bench.do(Tick())


def test_a_question_that_cannot_be_worked_out_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = CacheBench()

    def broken(*_: object) -> None:
        raise TypeError("nobody thought of this")

    monkeypatch.setattr(CacheQueries, "_note", broken)
    bench.say(Ask(1, "items", plain_region(between(1, 2)), after=bench.end + 1))
    bench.change((1, 10.0))
    (frame,) = bench.frames()
    assert isinstance(frame.facts[-1], Unanswered)


def test_strangers_have_limits() -> None:
    most = LIMITS.queries + LIMITS.queries_waiting
    bench = CacheBench(LIMITS, rows=9)
    (fact,) = bench.ask(EVERYTHING).facts
    assert isinstance(fact, Unanswered), "more rows than an answer may have"
    (fact,) = [*bench.ask(between(0, 2), ref=2).facts]
    assert isinstance(fact, Reply)
    bench.say(Ask(3, "nowhere", []))
    (frame,) = bench.frames()
    assert isinstance(frame.facts[0], Unanswered)
    bench.do(Blocked(1))
    for ref in range(most + 10):
        bench.say(Ask(ref, "items", plain_region(between(0, 2))))
    assert bench.state is not None
    assert len(bench.state.sessions[1].questions) == most
    (fact,) = CacheBench(replace(WIDE, query_rows=8)).ask(EVERYTHING).facts
    assert isinstance(fact, Unanswered), "a question has a limit of its own"


def carried(frame: Frame) -> int:
    return sum(len(bytes(fact.rows)) for fact in frame.facts if isinstance(fact, Reply | Snapshot))


@pytest.mark.parametrize("lost", [False, True])
def test_answers_that_are_too_much_for_one_frame_come_with_the_next_ones(lost: bool) -> None:
    one = carried(CacheBench().ask(EVERYTHING))
    bench = CacheBench(replace(WIDE, snapshot_bytes=3 * one))
    assert bench.state is not None
    before = bench.state.sessions[1].sequence
    bench.do(Blocked(1))
    for ref in range(10):
        bench.say(Ask(ref, "items", plain_region(EVERYTHING)))
    bench.do(Writable(1))
    frames = bench.frames()
    assert len(frames) == 1, "others have their turn"
    while bench.state.next_tick() == bench.now:
        bench.do(Tick())
        frames += bench.frames()
    assert [fact.ref for frame in frames for fact in frame.facts if isinstance(fact, Reply)] == [*range(10)]
    if lost:
        bench.say(Ack(before, 300, missing=True))
        frames = bench.frames()
        while bench.state.next_tick() == bench.now:
            bench.do(Tick())
            frames += bench.frames()
        assert {fact.ref for frame in frames for fact in frame.facts if isinstance(fact, Reply)} == {*range(10)}
    assert max(carried(frame) for frame in frames) <= 3 * one
    assert not bench.state.sessions[1].questions


def test_an_answer_does_not_go_with_a_snapshot_that_fills_the_frame() -> None:
    alone = carried(CacheBench().ask(between(0, 7)))
    bench = CacheBench(replace(WIDE, snapshot_bytes=2 * alone + 10))
    bench.do(Blocked(1))
    bench.say(Ask(1, "items", plain_region(between(0, 7))))
    bench.label(between(0, 100), 1)
    bench.label(between(0, 101), 2)
    bench.do(Writable(1))
    bench.do(Tick())
    first, second = bench.frames()
    assert [type(fact) for fact in first.facts] == [Subscribed, Snapshot]
    assert [type(fact) for fact in second.facts] == [Reply]


def test_questions_that_wait_for_ever_take_little_room_and_hold_nobody_up() -> None:
    bench = CacheBench()
    assert bench.state is not None
    session = bench.state.sessions[1]
    long = [[["grade", "categories", [f"{nth:01000}" for nth in range(100)], False]]]
    for ref in range(50):
        bench.say(Ask(ref, "items", long, after=2**62))
    waiting = len(session.questions)
    assert 0 < waiting <= MOST_ASKED // 100_000
    bench.say(Ask(0, "items", long, after=2**62))
    assert len(session.questions) == waiting, "said again it is one question still"
    bench.say(Ask(99, "items", plain_region(EVERYTHING), after=bench.end + 1))
    bench.change((1, 10.0))
    (frame,) = bench.frames()
    assert isinstance(frame.facts[-1], Reply), "the others wait, and this one need not"


def many(boxes: int) -> Region:
    return Region(tuple(Box.of(Side("price", Interval(nth, nth + 0.5))) for nth in range(boxes)))


def test_regions_of_many_boxes_are_not_compared_box_by_box() -> None:
    bench = CacheBench()
    (fact,) = bench.ask(many(MOST_REQUESTED + 1)).facts
    assert isinstance(fact, Unanswered)
    bench.label(many(200), 1)
    bench.take()
    (fact,) = bench.ask(many(100), label=bench.number).facts
    assert isinstance(fact, Reply)
    assert (fact.epoch, keys(fact)) == (1, [])
    (fact,) = bench.ask(many(101), label=bench.number).facts
    assert isinstance(fact, Reply)
    assert (fact.epoch, keys(fact)) == (None, [*range(9)]), "all rows where the rest is too much work"
    bench.say(GiveUp(bench.number, 1, plain_region(many(101))))
    (record,) = bench.asked
    assert isinstance(record, Registered)
    query = query_of(record.query or [])
    assert isinstance(query, Selection)
    assert query.region.empty


def test_a_plan_is_given_up_once_however_often_that_is_said() -> None:
    bench = CacheBench()
    bench.label(between(2, 6), 1)
    bench.take()
    halves = Region((*between(2, 4), Box.of(Side("price", Interval(4, 6, low_open=True)))))
    bench.say(GiveUp(bench.number, 1, plain_region(halves)))
    assert bench.asked == [], "the same rows in other boxes"
    for high in (5, 4, 3):
        bench.say(GiveUp(bench.number, 1, plain_region(between(2, high))))
    assert len(bench.asked) == 1
    bench.wait(RULES.append_again)
    bench.open(2)
    bench.say(GiveUp(bench.number, 1, plain_region(between(2, 3))))
    assert len(bench.asked) == 2, "the log may have lost it"


def test_what_is_remembered_has_a_budget_of_characters() -> None:
    bench = CacheBench()
    assert bench.state is not None
    long = plain_region(Region(tuple(Box.of(Side("price", Interval(n, n + 0.5))) for n in range(100))))
    for _ in range(200):
        bench.say(Report((Counted("items", long, 1),)))
    asked = bench.state.questions.asked[bench.number]
    assert 0 < sum(len(str(region)) for region, _ in asked.recent) <= MOST_CHARACTERS
    assert asked.since == 200


def test_boxes_that_overlap_are_given_up_by_nobody() -> None:
    bench = CacheBench()
    bench.label(between(2, 6), 1)
    bench.take()
    bench.say(GiveUp(bench.number, 1, [*plain_region(between(2, 4)), *plain_region(between(3, 5))]))
    assert bench.asked == [], "rows between 3 and 4 would be pushed twice"
    bench.say(GiveUp(bench.number, 1, [*plain_region(between(2, 3)), *plain_region(between(4, 5))]))
    (record,) = bench.asked
    assert isinstance(record, Registered)
    selection = as_selection(query_of(record.query or []))
    assert selection is not None
    selection.region._check()


def test_what_a_client_keeps_never_falls_apart_into_more_than_labels_may_be() -> None:
    bench = CacheBench()
    everything_but = Categories(frozenset(str(nth) for nth in range(MOST_LABELLED + 1)), complement=True)
    text = Region((Box.of(Side("grade", Interval("0", "z"))),))
    bench.label(text, 1)
    bench.take()
    bench.say(GiveUp(bench.number, 1, plain_region(Region((Box.of(Side("grade", everything_but)),)))))
    (record,) = bench.asked
    assert isinstance(record, Registered)
    query = query_of(record.query or [])
    assert isinstance(query, Selection)
    assert query.region.empty, f"more than {MOST_LABELLED} ranges between {MOST_LABELLED + 1} values"


def test_a_report_of_very_many_regions_is_not_looked_through() -> None:
    bench = CacheBench()
    assert bench.state is not None
    bench.say(Report(tuple(Counted("items", plain_region(between(nth, nth + 1)), 1) for nth in range(500))))
    assert len(bench.state.questions.asked[bench.number].recent) == MOST_REPORTED


def test_a_question_that_is_too_long_to_be_remembered_is_answered_and_counted() -> None:
    bench = CacheBench()
    assert bench.state is not None
    long = Region((Box.of(Side("price", Categories(frozenset(float(nth) for nth in range(3, 2_000))))),))
    (fact,) = bench.ask(long).facts
    assert isinstance(fact, Reply)
    assert keys(fact) == [3, 4, 5, 6, 7, 8]
    asked = bench.state.questions.asked[bench.number]
    assert (asked.pulled, asked.home, len(asked.recent)) == (1, 0, 0)
    again = CacheBench()
    assert again.state is not None
    again.say(Report((Counted("items", plain_region(long), 5),)))
    assert again.state.questions.asked[again.number].home == 5


def test_the_regions_of_a_report_take_no_longer_to_look_at_than_one_of_a_question() -> None:
    listed = Box.of(Side("price", Categories(frozenset(float(nth) for nth in range(400)))))
    beside = (Box.of(Side("price", Interval(nth + 0.5, nth + 0.6))) for nth in range(60))
    counted = Counted("items", plain_region(Region((listed, *beside))), 1)
    for many, remembered in ((1, 1), (10, 10), (MOST_REPORTED, 0)):
        bench = CacheBench()
        assert bench.state is not None
        bench.say(Report((counted,) * many))
        asked = bench.state.questions.asked.get(bench.number)
        assert (0 if asked is None else asked.home) == remembered


def test_questions_of_one_session_take_turns_and_few_wait() -> None:
    bench = CacheBench(replace(WIDE, queries=3, queries_waiting=4))
    assert bench.state is not None
    bench.do(Blocked(1))
    for ref in range(10):
        bench.say(Ask(ref, "items", plain_region(between(0, 2))))
    bench.do(Writable(1))
    frames = bench.frames()
    while bench.state.next_tick() == bench.now:
        bench.do(Tick())
        frames += bench.frames()
    replies = [[fact.ref for fact in frame.facts if isinstance(fact, Reply)] for frame in frames]
    assert replies == [[0, 1, 2], [3, 4, 5], [6]]


def test_an_answer_has_a_limit_of_bytes() -> None:
    (fact,) = CacheBench(replace(WIDE, query_bytes=100)).ask(EVERYTHING).facts
    assert isinstance(fact, Unanswered)


def test_a_reply_says_of_which_columns_its_rows_are() -> None:
    (fact,) = CacheBench().ask(EVERYTHING).facts
    assert isinstance(fact, Reply)
    assert fact.shape == TABLE.shape


def test_the_limits_of_one_shot_queries_are_those_of_questions(tmp_path: Path) -> None:
    limits = ServerLimits(queries=5, queries_waiting=6, query_rows=70, query_bytes=800)
    node = Node(NodeSettings(tmp_path / "node", limits=limits))
    try:
        assert all(lane.sessions.state.limits is limits for lane in node.lanes.values())
    finally:
        node.close()
