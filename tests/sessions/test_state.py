"""The state of a serving node, one event after the other, with a real engine."""

from dataclasses import replace

import pytest

from slackwater.core.extent import Interval
from slackwater.core.hosts import HostKind
from slackwater.core.lineage import Lineage
from slackwater.core.region import Box, Region, Side
from slackwater.core.rights import EVERY_ROW, Rights
from slackwater.core.types import Position
from slackwater.dissemination.delivery.base import ChannelPlace
from slackwater.dissemination.encoding import Encoding, decode_rows
from slackwater.dissemination.messages import (
    VERSION,
    Ack,
    Channel,
    Delete,
    Frame,
    Goodbye,
    Open,
    Refused,
    Resumed,
    Snapshot,
    Subscribe,
    Subscribed,
    Suspended,
    Unsubscribe,
    Upsert,
    Value,
    Welcome,
)
from slackwater.log import Registered, Unregistered
from slackwater.sessions.events import (
    Blocked,
    Connected,
    Disconnected,
    IncarnationBegun,
    Principal,
    QueriesResumed,
    QueriesSuspended,
    RightsChanged,
    Tick,
    Writable,
)
from slackwater.sessions.limits import ServerLimits
from slackwater.sessions.router import Elsewhere
from slackwater.sessions.state import ServerState
from tests.support.state_bench import LIMITS, RULES, Bench

SUM = "SUBSCRIBE SELECT SUM(price) FROM items WITHIN 2"
ROWS = "SUBSCRIBE SELECT id, price FROM items"
NAMED = "SUBSCRIBE total AS SELECT SUM(price) FROM items WITHIN 2"


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_session_begins_with_a_welcome_and_a_repeated_open_gets_the_same(bench: Bench) -> None:
    bench.open()
    bench.say(Open(VERSION, 0, 100))
    assert bench.take() == [Welcome("n/3/1", "n", 3, RULES.lease, 100)] * 2


def test_another_version_is_told_and_not_to_come_back(bench: Bench) -> None:
    bench.do(Connected(1, Principal("p")))
    bench.say(Open(VERSION + 1, 0, 100))
    (goodbye,) = bench.take()
    assert isinstance(goodbye, Goodbye)
    assert not goodbye.again
    assert 1 in bench.closed


def test_a_text_is_registered_once_for_all_who_ask(bench: Bench) -> None:
    bench.open(1)
    bench.open(2)
    bench.say(Subscribe(7, SUM), 1)
    bench.say(Subscribe(8, SUM), 2)
    assert [type(record) for record in bench.asked] == [Registered]
    bench.grant()
    first, second = bench.facts(1), bench.facts(2)
    assert isinstance(first[0], Subscribed)
    assert isinstance(second[0], Subscribed)
    assert (first[0].ref, second[0].ref) == (7, 8)
    assert first[0].query == second[0].query
    assert first[1] == second[1] == Value(first[0].query, 0, None)


def test_a_repeated_subscription_changes_nothing(bench: Bench) -> None:
    bench.open()
    bench.subscribed(SUM)
    bench.say(Subscribe(1, SUM))
    assert bench.take() == []
    assert bench.asked == []


def test_only_what_leaves_the_bound_is_sent_and_heartbeats_go_on(bench: Bench) -> None:
    bench.open()
    bench.subscribed(SUM)
    bench.change((1, 10.0))
    assert bench.facts() == [Value(1, 0, 10.0)]
    bench.change((1, 11.5))
    assert bench.take() == []
    bench.wait(RULES.heartbeat)
    (heartbeat,) = bench.take()
    assert heartbeat == Frame("n/3/1", 2, 2, bench.end, 100, ())


def test_readings_are_given_back_the_latest_one(bench: Bench) -> None:
    bench.open()
    bench.take()
    bench.say(Ack(0, 900))
    bench.say(Ack(0, 700))
    bench.wait(RULES.heartbeat)
    assert bench.take()[0].heard == 900


def test_while_blocked_nothing_is_sent_and_then_the_last_of_each(bench: Bench) -> None:
    bench.open()
    bench.subscribed(SUM, ref=1)
    bench.subscribed(ROWS, ref=2)
    bench.do(Blocked(1))
    bench.change((1, 10.0), (2, 20.0))
    bench.change((1, 50.0))
    bench.change((2, None))
    bench.say(Ack(0, 900))
    bench.wait(RULES.heartbeat)
    assert bench.take() == []
    bench.do(Writable(1))
    (frame,) = bench.take()
    assert (frame.as_of, frame.heard) == (bench.end, 900)
    assert list(frame.facts) == [Value(1, 0, 50.0), Upsert(2, 0, (1,), (1, 50.0)), Delete(2, 0, (2,))]


def test_over_the_limit_all_is_dropped_and_a_snapshot_sent(bench: Bench) -> None:
    bench.open()
    bench.subscribed(ROWS)
    bench.do(Blocked(1))
    bench.change(*((key, float(key)) for key in range(6)))
    bench.change((5, None))
    bench.do(Writable(1))
    (fact,) = bench.facts()
    assert isinstance(fact, Snapshot)
    assert decode_rows(fact.rows, fact.digest, Encoding.MESSAGEPACK) == [
        ((key,), (key, float(key))) for key in range(5)
    ]


def test_a_missing_frame_is_made_good_by_one_that_reaches_back(bench: Bench) -> None:
    bench.open()
    bench.subscribed(SUM)
    bench.say(Ack(1, 200))
    for price in (10.0, 20.0, 30.0):
        bench.change((1, price))
    bench.take()
    bench.say(Ack(1, 300, missing=True))
    (frame,) = bench.take()
    assert (frame.base, frame.sequence, frame.facts) == (1, 5, (Value(1, 0, 30.0),))
    bench.say(Ack(1, 301, missing=True))
    assert bench.take() == []
    bench.say(Ack(5, 302))
    bench.wait(RULES.retransmit_again)
    bench.say(Ack(5, 303, missing=True))
    assert bench.take() == []


def test_what_no_longer_fits_is_sent_again_as_a_whole(bench: Bench) -> None:
    bench.open()
    bench.subscribed(ROWS)
    for key in range(5):
        bench.change((key, 1.0))
    bench.take()
    bench.say(Ack(0, 300, missing=True))
    (frame,) = bench.take()
    assert frame.base == 0
    assert [type(fact) for fact in frame.facts] == [Subscribed, Snapshot]
    assert frame.facts[1].count == 5


def test_more_than_was_sent_cannot_be_acknowledged(bench: Bench) -> None:
    bench.open()
    bench.say(Ack(1, 0))
    assert "frame 1 was acknowledged" in bench.closed[1]


def test_a_node_that_is_behind_sends_nothing_until_it_has_caught_up(bench: Bench) -> None:
    bench.open(after=bench.end + 3)
    bench.say(Subscribe(1, SUM))
    assert bench.asked == []
    bench.change((1, 1.0))
    bench.wait(RULES.heartbeat)
    assert [type(message) for message in bench.take()] == [Welcome]
    bench.change((1, 2.0), (2, 2.0))
    bench.wait(RULES.heartbeat)
    assert bench.take()[-1].as_of == bench.end
    bench.grant()
    assert bench.facts()[1] == Value(4, 0, 4.0)


def test_rows_are_resumed_from_where_a_step_ended_and_from_nowhere_else(bench: Bench) -> None:
    bench.open(1)
    bench.subscribed(ROWS)
    bench.change((1, 1.0), (2, 1.0))
    seen = bench.end
    bench.change((1, 5.0))
    for connection, held, kinds in ((2, seen, [Subscribed, Upsert]), (3, seen - 1, [Subscribed, Snapshot])):
        bench.open(connection)
        bench.take(connection)
        bench.say(Subscribe(1, ROWS, held), connection)
        assert [type(fact) for fact in bench.facts(connection)][:2] == kinds


def test_snapshots_are_encoded_once_and_completed(bench: Bench) -> None:
    bench.open(1)
    first = bench.subscribed(ROWS)
    bench.change((1, 1.0))
    bench.open(2)
    bench.take(2)
    second = bench.subscribed(ROWS, 2)
    assert second[1] is first[1]
    assert second[2] == Upsert(1, 0, (1,), (1, 1.0))
    bench.open(3, encoding=Encoding.JSON)
    bench.take(3)
    third = bench.subscribed(ROWS, 3)[1]
    assert isinstance(third, Snapshot)
    assert bytes(third.rows) == b"[[[1],[1,1.0]]]"


def test_a_new_plan_is_told_with_its_answer_and_a_late_one_is_not(bench: Bench) -> None:
    bench.open()
    bench.subscribed(SUM)
    bench.change((1, 10.0))
    bench.change((1, 11.0))
    bench.take()
    wider = SUM.replace("WITHIN 2", "WITHIN 50")
    bench.append(Registered("items", wider, "p", None, 1, 4))
    described, value = bench.facts()
    assert isinstance(described, Subscribed)
    assert (described.epoch, described.within) == (4, 50.0)
    assert value == Value(1, 4, 11.0)
    bench.append(Registered("items", SUM, "p", None, 1, 4))
    assert bench.facts() == []


def test_who_wants_a_query_that_was_dropped_is_sent_where_it_would_be_kept_now(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bind(sql: str) -> None:
        raise Elsewhere(HostKind.NETWORK)

    bench.open()
    bench.subscribed(SUM)
    monkeypatch.setattr(bench.engine, "bind", bind)
    bench.append(Unregistered("items", 1))
    refused, suspended = bench.facts()
    assert isinstance(suspended, Suspended)
    assert refused == Refused(1, str(Elsewhere(HostKind.NETWORK)), "network")
    assert bench.asked == []


def test_a_query_goes_when_nobody_has_wanted_it_for_a_while(bench: Bench) -> None:
    bench.open()
    bench.subscribed(SUM)
    bench.say(Unsubscribe(1))
    assert bench.facts() == [Refused(1, "it was ended as asked")]
    bench.wait(RULES.grace - 1)
    assert bench.asked == []
    bench.wait(1)
    assert bench.asked == [Unregistered("items", 1)]


def test_a_query_with_a_name_stays_and_can_be_had_by_it(bench: Bench) -> None:
    bench.open()
    bench.subscribed(NAMED)
    bench.do(Disconnected(1))
    bench.wait(RULES.grace)
    assert bench.asked == []
    bench.open(2)
    bench.take(2)
    assert isinstance(bench.subscribed("Total", 2, 1)[0], Subscribed)
    other = bench.subscribed(NAMED.replace("SUM", "MIN"), 2, 2)
    assert other == [Refused(2, "there is already a subscription total; drop it first, or choose another name")]
    bench.append(Unregistered("items", 1))
    assert bench.facts(2) == [Refused(1, "the subscription total was dropped")]


def test_who_listens_to_a_dropped_query_is_told_and_gets_it_again(bench: Bench) -> None:
    bench.open()
    bench.subscribed(SUM)
    bench.append(Unregistered("items", 1))
    (suspended,) = bench.facts()
    assert isinstance(suspended, Suspended)
    bench.grant()
    described = bench.facts()[0]
    assert isinstance(described, Subscribed)
    assert (described.ref, described.query) == (1, 3)


def test_a_registration_that_is_lost_is_asked_for_again(bench: Bench) -> None:
    bench.open()
    bench.say(Subscribe(1, SUM))
    assert len(bench.asked) == 1
    bench.asked.clear()
    bench.wait(RULES.append_again)
    assert len(bench.asked) == 1
    bench.grant()
    bench.wait(RULES.append_again)
    assert bench.asked == []


def test_what_cannot_be_had_is_refused_with_a_sentence(bench: Bench) -> None:
    bench.open()
    for ref, sql in enumerate(("SUBSCRIBE SELECT SUM(prize) FROM items", "nonsense", "x" * 100_000)):
        (fact,) = bench.subscribed(sql, ref=ref)
        assert isinstance(fact, Refused)
        assert fact.why
    bench.change(*((key, 1.0) for key in range(6)))
    (refused,) = bench.subscribed(ROWS, ref=9)
    assert refused == Refused(9, "6 rows are more than the 5 allowed; ask for fewer with WHERE")


def test_subscriptions_are_counted_by_principal(bench: Bench) -> None:
    bench.open(1)
    bench.open(2)
    for ref in range(LIMITS.subscriptions_a_token):
        bench.subscribed(SUM, 1, ref)
    (refused,) = [fact for fact in bench.subscribed(SUM, 2, 1) if isinstance(fact, Refused)]
    assert "as many as are allowed" in refused.why
    bench.do(Disconnected(1))
    assert isinstance(bench.subscribed(SUM, 2, 2)[0], Subscribed)


def test_who_may_not_register_can_use_what_there_is(bench: Bench) -> None:
    bench.open(1)
    bench.subscribed(SUM)
    bench.do(Connected(2, Principal("reader", may_register=False)))
    bench.say(Open(VERSION, 0, 0), 2)
    bench.take(2)
    assert isinstance(bench.subscribed(SUM, 2, 1)[0], Subscribed)
    # What nobody keeps may turn up in the log; if it does not, the client is sent to where it can be registered.
    bench.say(Subscribe(2, ROWS), 2)
    assert 2 not in bench.closed
    bench.now += RULES.lease
    bench.do(Tick())
    assert 2 in bench.closed
    assert 1 not in bench.closed


def test_sessions_have_a_limit_and_the_silent_are_closed(bench: Bench) -> None:
    for connection in (1, 2, 3, 4):
        bench.open(connection)
    assert list(bench.closed) == [4]
    bench.now += RULES.silence
    bench.say(Ack(0, 5), 2)
    bench.do(Tick())
    assert sorted(bench.closed) == [1, 3, 4]


def test_what_comes_before_a_session_is_opened_keeps_no_connection(bench: Bench) -> None:
    bench.do(Connected(1, Principal("p")))
    for _ in range(3):
        bench.now += RULES.silence // 3
        bench.say(Ack(0, 5))
    bench.do(Tick())
    assert "nothing was heard" in bench.closed[1]


def test_more_rows_than_a_connection_can_carry_are_refused_and_the_others_go_on() -> None:
    bench = Bench(replace(LIMITS, snapshot_bytes=300, snapshot_rows=100, held_facts=100))
    bench.open()
    bench.change(*((key, 1.0) for key in range(20)))
    assert isinstance(bench.subscribed("SUBSCRIBE SELECT id, price FROM items WHERE id < 5", ref=1)[0], Subscribed)
    (refused,) = bench.subscribed("SUBSCRIBE SELECT id, price FROM items WHERE id > 1", ref=2)
    assert isinstance(refused, Refused)
    assert "more than it can carry" in refused.why
    bench.change((3, 2.0))
    assert [type(fact) for fact in bench.facts()] == [Upsert]
    bench.say(Unsubscribe(1))
    bench.take()
    assert isinstance(
        bench.subscribed("SUBSCRIBE SELECT id, price FROM items WHERE id > 1 AND id < 7", ref=3)[0], Subscribed
    )


def test_registrations_have_a_limit_also_where_nobody_listens_to_them() -> None:
    bench = Bench(replace(LIMITS, registrations_a_token=2))
    bench.open()
    for number in range(2):
        assert isinstance(
            bench.subscribed(f"SUBSCRIBE q{number} AS {SUM.removeprefix('SUBSCRIBE ')}", ref=number)[0], Subscribed
        )
        bench.say(Unsubscribe(number))
        bench.take()
    (refused,) = bench.subscribed(f"SUBSCRIBE q2 AS {SUM.removeprefix('SUBSCRIBE ')}", ref=9)
    assert isinstance(refused, Refused)
    assert "as many as are allowed" in refused.why


def test_a_name_that_two_asked_for_at_once_is_theirs_who_came_first(bench: Bench) -> None:
    bench.open(1)
    bench.open(2)
    bench.say(Subscribe(1, f"SUBSCRIBE both AS {SUM.removeprefix('SUBSCRIBE ')}"), 1)
    bench.say(Subscribe(1, f"SUBSCRIBE both AS {ROWS.removeprefix('SUBSCRIBE ')}"), 2)
    bench.grant()
    assert isinstance(bench.facts(1)[0], Subscribed)
    assert [type(fact) for fact in bench.facts(2)] == [Refused]
    assert len(bench.engine.registrations) == 1


def test_an_event_costs_what_it_concerns() -> None:
    """A step that concerns one of a thousand sessions makes one instruction."""
    bench = Bench(ServerLimits())
    for connection in range(1_000):
        bench.open(connection)
    bench.subscribed(SUM, 17)
    bench.sent.clear()
    bench.change((1, 10.0))
    assert list(bench.sent) == [17]


def test_a_suspended_query_is_told_to_all_who_listen_and_to_all_who_come(bench: Bench) -> None:
    bench.open()
    bench.subscribed(SUM)
    bench.do(QueriesSuspended((1,), "upstream is lost"))
    assert bench.facts() == [Suspended(1, 0, "upstream is lost")]
    bench.change((1, 50.0))
    assert bench.facts() == [], "what changes meanwhile is nobody's business"
    bench.open(2)
    bench.take(2)
    bench.say(Subscribe(7, SUM), 2)
    granted, suspended = bench.facts(2)
    assert isinstance(granted, Subscribed)
    assert suspended == Suspended(1, 0, "upstream is lost")
    bench.do(QueriesResumed((1,)))
    assert bench.facts() == bench.facts(2) == [Resumed(1, 0), Value(1, 0, 50.0)]
    bench.change((1, 90.0))
    assert bench.facts() == [Value(1, 0, 90.0)]


def test_another_reason_is_told_and_the_same_one_is_not(bench: Bench) -> None:
    bench.open()
    bench.subscribed(SUM)
    for why in ("lost", "lost", "refused"):
        bench.do(QueriesSuspended((1, 99), why))
    assert bench.facts() == [Suspended(1, 0, "lost"), Suspended(1, 0, "refused")]
    bench.do(QueriesResumed((99,)))
    assert bench.facts() == []


def test_a_suspension_is_kept_for_who_takes_no_more_and_gone_when_resumed(bench: Bench) -> None:
    bench.open()
    bench.subscribed(ROWS)
    bench.do(Blocked(1))
    bench.change((1, 5.0))
    bench.do(QueriesSuspended((1,), "lost"))
    bench.change((2, 6.0))
    bench.do(Writable(1))
    facts = bench.facts()
    assert facts[0] == Suspended(1, 0, "lost"), "before any row, so that none of them is taken"
    bench.do(Blocked(1))
    bench.do(QueriesResumed((1,)))
    bench.do(QueriesSuspended((1,), "again"))
    bench.do(QueriesResumed((1,)))
    bench.do(Writable(1))
    resumed, snapshot, *since = bench.facts()
    assert resumed == Resumed(1, 0)
    assert isinstance(snapshot, Snapshot)
    rows = dict(decode_rows(snapshot.rows, snapshot.digest, Encoding.MESSAGEPACK))
    rows |= {fact.key: fact.row for fact in since if isinstance(fact, Upsert)}
    assert rows == {(1,): (1, 5.0), (2,): (2, 6.0)}


def test_a_new_plan_of_a_suspended_query_is_suspended_too(bench: Bench) -> None:
    bench.open()
    bench.subscribed(SUM)
    bench.do(QueriesSuspended((1,), "lost"))
    bench.take()
    bench.append(Registered("items", SUM.replace("2", "8"), "p", None, 1, 1))
    granted, suspended = bench.facts()
    assert isinstance(granted, Subscribed)
    assert granted.epoch == 1
    assert suspended == Suspended(1, 1, "lost")
    bench.do(QueriesResumed((1,)))
    assert bench.facts() == [Resumed(1, 1), Value(1, 1, None)]


def test_a_registration_that_was_lost_is_asked_for_again_with_the_rights_of_those_who_wait(bench: Bench) -> None:
    low, high = (
        EVERY_ROW.granting("items", Region((Box.of(Side("price", one)),)))
        for one in (Interval(None, 4), Interval(5, None))
    )
    bench.engine.registrar.rights = Rights({"ann": low, "bob": low})
    for connection, name in enumerate(("ann", "bob"), 1):
        bench.do(Connected(connection, Principal(name)))
        bench.say(Open(VERSION, 0, 100), connection)
        bench.say(Subscribe(7, ROWS), connection)
    bench.asked.clear()
    bench.engine.registrar.rights = Rights({"ann": high, "bob": low})
    bench.do(RightsChanged("ann"))
    bench.grant()
    assert isinstance(bench.facts(1)[0], Subscribed)
    bench.wait(RULES.append_again)
    (record,) = bench.asked
    assert isinstance(record, Registered)
    assert (record.owner, record.rights) == ("bob", low.plain())
    bench.grant()
    assert [type(fact) for fact in bench.facts(2)] == [Subscribed, Snapshot]


def test_the_state_of_a_suspended_query_is_not_sent_to_a_member_that_may_have_missed_it(bench: Bench) -> None:
    bench.state = ServerState("n", 3, RULES, bench.engine, ChannelPlace("memory", iter(["c"])))
    bench.open()
    bench.say(Subscribe(1, SUM, None, "channel"))
    bench.grant()
    bench.subscribed(ROWS, ref=2)
    bench.do(Blocked(1))
    bench.do(QueriesSuspended((1,), "lost"))
    bench.change(*((key, 10.0 * key) for key in range(1, LIMITS.held_facts + 2)))
    bench.do(Writable(1))
    facts = bench.facts()
    assert any(isinstance(fact, Channel) for fact in facts), "all states are sent again"
    assert Suspended(1, 0, "lost") in facts
    assert not any(isinstance(fact, Value) for fact in facts)


def test_rows_of_a_query_that_was_dropped_do_not_count_against_the_connection(bench: Bench) -> None:
    bench.open()
    bench.change((1, 10.0))
    [former] = [fact.query for fact in bench.subscribed(ROWS) if isinstance(fact, Subscribed)]
    bench.append(Unregistered("items", former))
    bench.grant()
    [now] = [fact.query for fact in bench.facts() if isinstance(fact, Subscribed)]
    assert bench.state is not None
    assert set(bench.state.sessions[1].sizes) == {now} != {former}


# Histories of the log.


@pytest.mark.parametrize(
    ("incarnation", "after", "kept"),
    [(8, 50, 50), (8, 500, 500), (7, 30, 30), (7, 41, 40), (7, 500, 40), (5, 30, 0), (0, 0, 0)],
)
def test_a_client_is_told_how_much_of_what_it_holds_is_of_this_history(
    bench: Bench, incarnation: int, after: int, kept: int
) -> None:
    bench.engine.lineage = Lineage().begin(7, Position(0)).begin(8, Position(40))
    bench.do(Connected(1, Principal("p")))
    bench.say(Open(VERSION, after, 100, incarnation))
    assert bench.take() == [Welcome("n/3/1", "n", 3, RULES.lease, 100, incarnation=8, kept=kept)]


def test_frames_name_an_incarnation_that_was_begun_since_and_clients_that_saw_more_are_sent_away(bench: Bench) -> None:
    bench.engine.lineage = Lineage().begin(7, Position(0))
    for connection, after in ((1, 1), (2, 500)):
        bench.do(Connected(connection, Principal("p")))
        bench.say(Open(VERSION, after, 100, 7), connection)
    bench.say(Subscribe(1, SUM))
    bench.grant()
    assert [frame.incarnation for frame in bench.take() if isinstance(frame, Frame)] == [None]
    bench.engine.lineage = bench.engine.lineage.begin(8, Position(300))
    bench.do(IncarnationBegun())
    assert 2 in bench.closed, "it has seen what the log does not have"
    assert 1 not in bench.closed
    bench.change((1, 50.0))
    assert [frame.incarnation for frame in bench.take() if isinstance(frame, Frame)] == [8]


def test_heartbeats_of_many_sessions_come_with_few_ticks_and_never_late() -> None:
    bench = Bench(replace(LIMITS, connections=100))
    step, sessions, last = RULES.heartbeat // 500, range(1, 41), {0: 0}
    for number in sessions:
        bench.now += step
        bench.open(number)
        last[number] = bench.now
        bench.take(number)
    end, ticks, heartbeats = bench.now + 4 * RULES.heartbeat, 0, 0
    while bench.now < end:
        assert bench.state is not None
        due = bench.state.next_tick()
        assert due is not None
        bench.now = max(bench.now, due)
        bench.do(Tick())
        ticks += 1
        for number in sessions:
            bench.say(Ack(0, bench.now), number)
            if bench.take(number):
                assert bench.now - last[number] <= RULES.heartbeat
                last[number] = bench.now
                heartbeats += 1
    assert heartbeats >= 4 * len(sessions)
    # One tick for each session and heartbeat would be 160.
    assert ticks <= 4 * 33
