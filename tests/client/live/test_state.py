"""The state of a client, one event after the other."""

from typing import Any

import pytest

from slackwater.client.live.events import (
    AnswerChanged,
    Certainty,
    ChannelHeard,
    ClockTick,
    Connect,
    Described,
    Event,
    JoinChannel,
    Lost,
    MessageReceived,
    Opened,
    SendMessage,
    Shown,
    SubscriptionEnded,
    Unwanted,
    Wanted,
)
from slackwater.client.live.state import ANSWERED_A_RETRY, ClientState, Patience
from slackwater.core.lineage import Place
from slackwater.core.types import Position
from slackwater.dissemination.encoding import Encoding, encode_rows
from slackwater.dissemination.messages import (
    VERSION,
    Ack,
    CatchUp,
    Channel,
    Delete,
    Fact,
    Frame,
    FromNode,
    Goodbye,
    Open,
    Published,
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
    WireRow,
)

LEASE = 3_000_000
SQL = "SUBSCRIBE SELECT SUM(price) FROM items WITHIN 2"


def one_number(ref: int = 1, query: int = 5, epoch: int = 0, within: float = 2.0) -> Subscribed:
    return Subscribed(ref, query, epoch, (), (), (), within, 1.0)


def rows(ref: int = 1, query: int = 5, epoch: int = 0) -> Subscribed:
    return Subscribed(ref, query, epoch, ("id", "price"), ("BIGINT", "DOUBLE"), ("id",), 0.0, 1.0)


def snapshot(*pairs: tuple[WireRow, WireRow], query: int = 5, epoch: int = 0) -> Snapshot:
    data, digest = encode_rows(pairs, Encoding.MESSAGEPACK)
    return Snapshot(query, epoch, data, len(pairs), digest)


class Bench:
    """A client at a bench, and what it said."""

    def __init__(self) -> None:
        self.now = 10_000_000
        self.state = ClientState(lambda: 0.5)
        self.session = ""

    def do(self, event: Event) -> list[Any]:
        return self.state.handle(event, self.now)

    def receive(self, message: FromNode) -> list[Any]:
        return self.do(MessageReceived(message))

    def connect(
        self, session: str = "n/1/1", generation: int = 1, incarnation: int = 7, kept: int | None = None
    ) -> list[Any]:
        if self.state.phase.name == "IDLE":
            self.do(ClockTick())
        (send,) = self.do(Opened())
        self.session = session
        return self.receive(
            Welcome(
                session,
                "n",
                generation,
                LEASE,
                send.message.clock,
                incarnation=incarnation,
                kept=send.message.after if kept is None else kept,
            )
        )

    def frame(self, base: int, sequence: int, as_of: int, *facts: Fact, heard: int | None = None) -> list[Any]:
        return self.receive(Frame(self.session, base, sequence, as_of, heard or self.now, facts))

    def wait(self, microseconds: int) -> list[Any]:
        self.now += microseconds
        return self.do(ClockTick())


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.do(Wanted(1, SQL))
    return bench


def test_it_connects_opens_and_subscribes(bench: Bench) -> None:
    assert bench.do(ClockTick()) == [Connect(0)]
    assert bench.do(Opened()) == [SendMessage(Open(VERSION, 0, bench.now))]
    welcome = Welcome("s", "n", 1, LEASE, bench.now)
    assert bench.receive(welcome) == [SendMessage(Subscribe(1, SQL))]


def test_a_value_is_shown_with_its_guarantee_until_the_lease_ends(bench: Bench) -> None:
    bench.connect()
    assert not bench.state.shown(1, bench.now).certain
    out = bench.frame(0, 1, 40, one_number(), Value(5, 0, 12.5))
    assert [type(one) for one in out] == [Described, AnswerChanged, Certainty]
    shown = bench.state.shown(1, bench.now)
    assert (shown.value, shown.bound, shown.as_of, shown.certain, shown.why) == (12.5, 2.0, 40, True, "")
    assert bench.state.shown(1, bench.now + LEASE - 1).certain
    late = bench.state.shown(1, bench.now + LEASE)
    assert not late.certain
    assert late.why.startswith("the lease ended 0.0 s ago")
    assert (late.value, late.as_of) == (12.5, 40)


def test_certainty_ends_by_a_tick_and_comes_back_by_a_heartbeat(bench: Bench) -> None:
    bench.connect()
    bench.frame(0, 1, 40, one_number(), Value(5, 0, 12.5))
    out = bench.wait(LEASE)
    assert [one.certain for one in out if isinstance(one, Certainty)] == [False]
    assert bench.frame(1, 1, 45) == [Certainty(1, True, "")]
    assert bench.state.shown(1, bench.now).as_of == 45


def test_the_way_of_a_frame_is_not_added_to_the_lease(bench: Bench) -> None:
    bench.connect()
    bench.frame(0, 1, 40, one_number(), Value(5, 0, 12.5), heard=bench.now - LEASE)
    assert not bench.state.shown(1, bench.now).certain


def test_acknowledgements_go_out_three_times_a_lease(bench: Bench) -> None:
    bench.connect()
    bench.frame(0, 1, 40, one_number(), Value(5, 0, 12.5))
    assert bench.state.next_tick(bench.now) == bench.now + LEASE // 3
    assert bench.wait(LEASE // 3) == [SendMessage(Ack(1, bench.now))]


def test_a_gap_is_told_at_once_and_nothing_is_applied(bench: Bench) -> None:
    bench.connect()
    assert bench.frame(1, 2, 50, Value(5, 0, 1.0)) == [SendMessage(Ack(0, bench.now, missing=True))]
    assert bench.frame(1, 2, 50, Value(5, 0, 1.0)) == []
    assert bench.state.shown(1, bench.now).as_of is None
    bench.frame(0, 3, 51, one_number(), Value(5, 0, 2.0))
    assert bench.state.shown(1, bench.now).value == 2.0


def test_twice_is_once_and_late_is_never(bench: Bench) -> None:
    bench.connect()
    bench.frame(0, 1, 40, one_number(), Value(5, 0, 1.0))
    bench.frame(1, 2, 41, Value(5, 0, 9.0))
    assert bench.frame(0, 1, 40, one_number(), Value(5, 0, 1.0)) == []
    assert bench.frame(1, 2, 41, Value(5, 0, 9.0)) == []
    assert bench.state.shown(1, bench.now).value == 9.0


def test_frames_of_another_session_and_answers_to_another_open_are_ignored(bench: Bench) -> None:
    bench.connect()
    bench.do(Lost("away"))
    (send,) = bench.do(Opened())
    assert bench.receive(Welcome("old", "n", 1, LEASE, send.message.clock - 1)) == []
    bench.receive(Welcome("new", "n", 1, LEASE, send.message.clock))
    assert bench.receive(Frame("old", 0, 1, 40, bench.now, (one_number(), Value(5, 0, 1.0)))) == []


def test_an_old_process_of_a_node_is_left(bench: Bench) -> None:
    bench.connect(generation=4)
    bench.do(Lost("away"))
    out = bench.connect("n/3/9", generation=3)
    assert isinstance(out[0], Connect)
    assert "old process" in out[0].why


def test_another_node_is_told_how_far_the_client_has_seen(bench: Bench) -> None:
    bench.connect()
    bench.frame(0, 1, 40, one_number(), Value(5, 0, 1.0))
    bench.do(Lost("away"))
    assert bench.state.shown(1, bench.now).certain
    (send,) = bench.do(Opened())
    assert (send.message.incarnation, send.message.after) == (7, 40)
    bench.receive(Welcome("m/1/1", "m", 1, LEASE, send.message.clock, incarnation=7, kept=40))
    bench.session = "m/1/1"
    assert bench.frame(0, 1, 39, one_number(), Value(5, 0, 7.0)) == []
    shown = bench.state.shown(1, bench.now)
    assert (shown.value, shown.as_of) == (1.0, 40)
    bench.frame(0, 2, 41, one_number(), Value(5, 0, 7.0))
    assert bench.state.shown(1, bench.now).as_of == 41


def test_rows_come_as_a_snapshot_and_changes_and_are_told_as_differences(bench: Bench) -> None:
    bench.connect()
    out = bench.frame(0, 1, 40, rows(), snapshot(((1,), (1, 5.0)), ((2,), (2, 6.0))))
    assert AnswerChanged(1, 40, None, {(1,): (1, 5.0), (2,): (2, 6.0)}) in out
    facts = (Upsert(5, 0, (1,), (1, 5.5)), Delete(5, 0, (2,)), Delete(5, 0, (3,)))
    assert bench.frame(1, 2, 41, *facts) == [AnswerChanged(1, 41, None, {(1,): (1, 5.5)}, ((2,),))]
    assert bench.frame(2, 3, 42, snapshot(((1,), (1, 5.5)))) == []
    assert bench.state.shown(1, bench.now).rows == {(1,): (1, 5.5)}


def test_rows_that_are_held_are_resumed(bench: Bench) -> None:
    bench.connect()
    bench.frame(0, 1, 40, rows(), snapshot(((1,), (1, 5.0))))
    bench.do(Lost("away"))
    assert bench.connect("n/1/2") == [SendMessage(Subscribe(1, SQL, 40))]
    assert bench.frame(0, 1, 44, rows(), Upsert(5, 0, (2,), (2, 1.0))) == [AnswerChanged(1, 44, None, {(2,): (2, 1.0)})]
    assert bench.state.shown(1, bench.now).rows == {(1,): (1, 5.0), (2,): (2, 1.0)}


def test_facts_of_another_plan_are_passed_over(bench: Bench) -> None:
    bench.connect()
    bench.frame(0, 1, 40, one_number(), Value(5, 0, 1.0))
    bench.frame(1, 2, 41, Value(5, 1, 100.0))
    assert bench.state.shown(1, bench.now).value == 1.0
    bench.frame(2, 3, 42, one_number(epoch=1, within=9.0), Value(5, 1, 100.0))
    shown = bench.state.shown(1, bench.now)
    assert (shown.value, shown.bound, shown.epoch) == (100.0, 9.0, 1)


def test_a_suspended_subscription_stays_where_it_was_right(bench: Bench) -> None:
    bench.connect()
    bench.frame(0, 1, 40, one_number(), Value(5, 0, 1.0))
    assert bench.frame(1, 2, 50, Suspended(5, 0, "it rains")) == [Certainty(1, False, "it rains")]
    shown = bench.state.shown(1, bench.now)
    assert (shown.value, shown.as_of, shown.why) == (1.0, 40, "it rains")
    bench.frame(2, 3, 60, one_number(query=8), Value(8, 0, 2.0))
    assert bench.state.shown(1, bench.now).certain


def test_granted_and_suspended_in_one_frame_shows_nothing_of_it(bench: Bench) -> None:
    bench.connect()
    bench.frame(0, 1, 40, one_number(), Value(5, 0, 1.0))
    bench.frame(1, 2, 50, one_number(query=8), Suspended(8, 0, "gone"))
    shown = bench.state.shown(1, bench.now)
    assert (shown.value, shown.as_of, shown.query, shown.certain) == (1.0, 40, 5, False)


def test_a_spoiled_snapshot_changes_nothing_and_ends_the_session(bench: Bench) -> None:
    bench.connect()
    bench.frame(0, 1, 40, rows(), snapshot(((1,), (1, 5.0))))
    good = snapshot(((2,), (2, 1.0)))
    out = bench.frame(1, 2, 41, Delete(5, 0, (1,)), Snapshot(5, 0, good.rows, 1, "00"))
    assert isinstance(out[0], Connect)
    shown = bench.state.shown(1, bench.now)
    assert (shown.rows, shown.as_of) == ({(1,): (1, 5.0)}, 40)


def test_refused_is_the_end_and_unwanted_is_said_until_it_is_known(bench: Bench) -> None:
    bench.do(Wanted(2, "nonsense"))
    bench.connect()
    assert SubscriptionEnded(2, "no") in bench.frame(0, 1, 40, one_number(), Value(5, 0, 1.0), Refused(2, "no"))
    assert bench.state.shown(2, bench.now).why == "no"
    assert bench.do(Unwanted(1)) == [SendMessage(Unsubscribe(1))]
    assert SendMessage(Unsubscribe(1)) in bench.wait(Patience().retry)
    bench.frame(1, 2, 41, Refused(1, "ended"))
    assert SendMessage(Unsubscribe(1)) not in bench.wait(Patience().retry)
    assert SendMessage(Unsubscribe(1)) in bench.frame(2, 3, 42, one_number())


def test_what_is_not_answered_is_asked_again(bench: Bench) -> None:
    bench.do(ClockTick())
    (send,) = bench.do(Opened())
    assert bench.wait(Patience().retry) == [send]
    bench.receive(Welcome("s", "n", 1, LEASE, send.message.clock))
    assert SendMessage(Subscribe(1, SQL)) in bench.wait(Patience().retry)


def test_many_that_are_not_answered_are_asked_again_later_and_the_oldest_is_due_first(bench: Bench) -> None:
    bench.connect()
    for ref in range(2, 2 + ANSWERED_A_RETRY):
        bench.do(Wanted(ref, SQL))
    bench.frame(0, 1, 40, one_number(), Value(5, 0, 1.0))
    begun, retry = bench.now, Patience().retry
    assert not bench.state.unanswered.keys() & {1}
    bench.do(Wanted(1 + ANSWERED_A_RETRY, SQL))
    assert next(iter(bench.state.unanswered)) == 2
    sent = [one.message for one in bench.wait(retry) if isinstance(one, SendMessage)]
    assert not [one for one in sent if isinstance(one, Subscribe)], "a node needs longer for so many"
    bench.frame(1, 2, 41, *(one_number(ref, ref) for ref in range(2, 1 + ANSWERED_A_RETRY)))
    last = 1 + ANSWERED_A_RETRY
    assert list(bench.state.unanswered) == [last]
    assert SendMessage(Subscribe(last, SQL)) in bench.do(ClockTick()), f"it was asked for at {begun}"
    assert bench.state.unanswered == {last: bench.now}


def test_silence_ends_a_connection_and_failures_back_off(bench: Bench) -> None:
    bench.connect()
    (connect,) = [one for one in bench.wait(2 * LEASE) if isinstance(one, Connect)]
    delays = [connect.after] + [bench.do(Lost("no"))[0].after for _ in range(10)]
    assert delays == sorted(delays)
    assert delays[0] == 75_000
    assert delays[-1] == 7_500_000


def test_a_farewell_for_good_ends_everything(bench: Bench) -> None:
    bench.connect()
    assert bench.receive(Goodbye("too old", again=False)) == [SubscriptionEnded(1, "too old")]
    assert bench.do(Lost("closed")) == [], "there is no point in coming back"
    assert bench.state.next_tick(bench.now) is None


def test_a_suspended_subscription_goes_on_when_it_is_resumed(bench: Bench) -> None:
    bench.connect()
    bench.frame(0, 1, 40, one_number(), Value(5, 0, 1.0))
    bench.frame(1, 2, 50, Suspended(5, 0, "it rains"))
    bench.frame(2, 3, 55, Value(5, 0, 7.0))
    assert bench.state.shown(1, bench.now).value == 1.0, "as of 40 it was 1"
    out = bench.frame(3, 4, 60, Resumed(5, 0), Value(5, 0, 8.0))
    assert out == [AnswerChanged(1, 60, 8.0), Certainty(1, True, "")]


def test_granted_while_suspended_is_shown_when_it_is_resumed(bench: Bench) -> None:
    bench.connect()
    assert bench.frame(0, 1, 40, one_number(), Suspended(5, 0, "it rains")) == []
    shown = bench.state.shown(1, bench.now)
    assert (shown.as_of, shown.certain, shown.why) == (None, False, "it rains")
    bench.frame(1, 2, 45, Suspended(5, 0, "it pours"))
    assert bench.state.shown(1, bench.now).why == "it pours"
    out = bench.frame(2, 3, 60, Resumed(5, 0), Value(5, 0, None))
    assert [type(one) for one in out] == [Described, AnswerChanged, Certainty], "also where there is nothing to show"
    assert bench.state.shown(1, bench.now).as_of == 60


def test_a_new_plan_while_suspended_is_shown_when_it_is_resumed(bench: Bench) -> None:
    bench.connect()
    bench.frame(0, 1, 40, one_number(), Value(5, 0, 1.0))
    bench.frame(1, 2, 50, Suspended(5, 0, "it rains"))
    bench.frame(2, 3, 52, one_number(epoch=1, within=9.0), Suspended(5, 1, "it rains"))
    shown = bench.state.shown(1, bench.now)
    assert (shown.bound, shown.epoch, shown.as_of) == (2.0, 0, 40)
    bench.frame(3, 4, 60, Resumed(5, 1), Value(5, 1, 3.0))
    shown = bench.state.shown(1, bench.now)
    assert (shown.bound, shown.epoch, shown.value, shown.certain) == (9.0, 1, 3.0, True)


def test_what_was_promised_ends_with_the_session(bench: Bench) -> None:
    bench.connect()
    bench.frame(0, 1, 40, one_number(), Suspended(5, 0, "it rains"))
    bench.do(Lost("away"))
    bench.connect("n/1/2")
    bench.frame(0, 1, 44, Resumed(5, 0), Value(5, 0, 3.0))
    assert bench.state.shown(1, bench.now).as_of is None, "it was not granted in this session"
    bench.frame(1, 2, 45, one_number(), Value(5, 0, 3.0))
    assert bench.state.shown(1, bench.now).value == 3.0


def test_a_position_of_an_earlier_life_is_not_gone_back_behind() -> None:
    bench = Bench()
    bench.state = ClientState(lambda: 0.5, after=Place(9, Position(70)))
    bench.do(Wanted(1, SQL))
    bench.do(ClockTick())
    assert bench.do(Opened()) == [SendMessage(Open(VERSION, 70, bench.now, 9))]


# Histories: the log of a node was restored from a copy.


def test_what_another_history_had_is_dropped_at_once_and_said(bench: Bench) -> None:
    bench.connect(incarnation=7)
    bench.frame(0, 1, 90, one_number(), Value(5, 0, 1.0))
    bench.do(Lost("restored"))
    assert bench.state.shown(1, bench.now).certain, "it was true in the history it names, and the lease lasts"
    out = bench.connect("n/1/2", incarnation=8, kept=80)
    assert [one for one in out if isinstance(one, Certainty)] == [
        Certainty(1, False, bench.state.shown(1, bench.now).why)
    ]
    shown = bench.state.shown(1, bench.now)
    assert (shown.as_of, shown.value) == (None, None)
    assert "replaced, as by a restore from a copy" in shown.why
    assert [one.message.held for one in out if isinstance(one, SendMessage) and isinstance(one.message, Subscribe)] == [
        None
    ]
    out = bench.frame(0, 1, 82, one_number(), Value(5, 0, 2.0))
    assert out[1:] == [AnswerChanged(1, 82, 2.0), Certainty(1, True, "")]
    shown = bench.state.shown(1, bench.now)
    assert (shown.incarnation, shown.as_of, shown.value, shown.why) == (8, 82, 2.0, "")


def test_what_a_restored_log_still_has_is_kept_and_resumed(bench: Bench) -> None:
    bench.state = ClientState(lambda: 0.5)
    bench.do(Wanted(1, SQL))
    bench.connect(incarnation=7)
    bench.frame(0, 1, 70, rows(), snapshot(((1,), (1, 2.0))))
    bench.do(Lost("restored"))
    out = bench.connect("n/1/2", incarnation=8, kept=70)
    assert [one.message.held for one in out if isinstance(one, SendMessage) and isinstance(one.message, Subscribe)] == [
        70
    ]
    shown = bench.state.shown(1, bench.now)
    assert (shown.incarnation, shown.as_of, shown.certain) == (8, 70, True)


def test_rows_of_another_history_leave_by_the_first_answer(bench: Bench) -> None:
    bench.connect(incarnation=7)
    bench.frame(0, 1, 90, rows(), snapshot(((1,), (1, 2.0)), ((2,), (2, 3.0))))
    bench.do(Lost("restored"))
    bench.connect("n/1/2", incarnation=8, kept=0)
    out = bench.frame(0, 1, 10, rows(), snapshot(((2,), (2, 4.0))))
    (changed,) = [one for one in out if isinstance(one, AnswerChanged)]
    assert (dict(changed.upserts), changed.deletes) == ({(2,): (2, 4.0)}, ((1,),))


def test_nothing_before_what_is_kept_is_taken(bench: Bench) -> None:
    bench.connect(incarnation=7)
    bench.frame(0, 1, 90, one_number(), Value(5, 0, 1.0))
    bench.do(Lost("restored"))
    bench.connect("n/1/2", incarnation=8, kept=80)
    assert bench.frame(0, 1, 79, one_number(), Value(5, 0, 2.0)) == []
    assert bench.frame(0, 1, 80, one_number(), Value(5, 0, 2.0)) != []


def test_a_node_restored_without_its_store_is_not_taken_for_an_old_process(bench: Bench) -> None:
    bench.connect(generation=9, incarnation=7)
    bench.do(Lost("restored"))
    assert not [one for one in bench.connect("n/1/1", generation=1, incarnation=8) if isinstance(one, Connect)]
    bench.do(Lost("again"))
    (left,) = [one for one in bench.connect("n/9/1", generation=0, incarnation=7) if isinstance(one, Connect)]
    assert "old process" in left.why


@pytest.fixture
def member() -> Bench:
    """A client whose subscription a channel delivers, as of 40."""
    bench = Bench()
    bench.do(Wanted(1, SQL, "channel"))
    bench.connect()
    bench.frame(0, 1, 40, one_number(), Value(5, 0, 12.5), Channel(5, 0, "memory", "c-1", 0, 40))
    return bench


def test_the_state_of_another_channel_from_before_what_the_former_brought_is_not_shown(member: Bench) -> None:
    member.do(ChannelHeard("c-1", Published(5, 0, 0, 60, (Value(5, 0, 20.0),))))
    # The rights have changed at 50; the session was slower than the channel.
    member.frame(1, 2, 50, one_number(query=6), Value(6, 0, 3.0), Channel(6, 0, "memory", "c-2", 0, 50))
    shown = member.state.shown(1, member.now)
    assert (shown.value, shown.as_of) == (20.0, 60)
    assert SendMessage(CatchUp(1, "channel")) in member.do(ChannelHeard("c-2", Published(6, 0, 1, 70)))
    member.frame(2, 3, 70, one_number(query=6), Value(6, 0, 4.0), Channel(6, 0, "memory", "c-2", 1, 70))
    shown = member.state.shown(1, member.now)
    assert (shown.value, shown.as_of, shown.certain) == (4.0, 70, True)


def test_a_member_that_stands_still_does_not_gather_leases(member: Bench) -> None:
    member.frame(1, 2, 40, Suspended(5, 0, "lost"))
    for nth in range(100):
        member.now += LEASE // 3
        member.frame(2 + nth, 3 + nth, 41 + nth)
    assert len(member.state.channels._vouched) <= 5
    assert not member.state.shown(1, member.now).certain


def test_a_session_behind_the_channel_takes_over_once_it_has_come_that_far(member: Bench) -> None:
    member.do(ChannelHeard("c-1", Published(5, 0, 0, 60, (Value(5, 0, 20.0),))))
    out = member.frame(1, 2, 50, one_number(), Value(5, 0, 12.5))
    assert SendMessage(Ack(1, member.now, missing=True)) in out
    shown = member.state.shown(1, member.now)
    assert (shown.value, shown.as_of) == (20.0, 60)
    member.frame(1, 3, 60, one_number(), Value(5, 0, 20.0))
    member.frame(3, 4, 70, Value(5, 0, 30.0))
    shown = member.state.shown(1, member.now)
    assert (shown.value, shown.as_of, shown.certain) == (30.0, 70, True)


class Looking(ClientState):
    """Notes which subscriptions are looked at."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.5)
        self.looked: list[int] = []

    def shown(self, ref: int, now: int) -> Shown:
        self.looked.append(ref)
        return super().shown(ref, now)


def test_a_channel_message_costs_no_more_with_many_channels_and_every_lease_still_ends() -> None:
    bench, refs = Bench(), range(1, 31)
    bench.state = looking = Looking()
    for ref in refs:
        bench.do(Wanted(ref, SQL, "channel"))
    bench.connect()
    states = [
        fact
        for ref in refs
        for fact in (
            one_number(ref, query=ref),
            Value(ref, 0, 1.0),
            Channel(ref, 0, "memory", f"c-{ref}", 0, 40),
        )
    ]
    bench.frame(0, 1, 40, *states)
    ends = bench.now + LEASE
    looking.looked.clear()
    for ref in refs:
        bench.now += 10_000
        assert bench.do(ChannelHeard(f"c-{ref}", Published(ref, 0, 0, 50, (Value(ref, 0, 2.0),))))
    assert looking.looked == [*refs], "each message concerns the one subscription of its channel"
    bench.do(Unwanted(1))
    told: list[Any] = []
    while bench.now < ends:
        due = bench.state.next_tick(bench.now)
        assert due is not None
        assert bench.now < due <= ends, "no tick comes again and again, and none too late"
        told = bench.wait(due - bench.now)
    assert [one.ref for one in told if isinstance(one, Certainty) and not one.certain] == [*refs][1:]
    silent = bench.wait(0)
    while not silent:
        due = bench.state.next_tick(bench.now)
        assert due is not None
        silent = [one for one in bench.wait(due - bench.now) if isinstance(one, JoinChannel)]
    assert bench.now == ends - LEASE + 20_000 + LEASE, "the channel that was silent the longest is joined again first"
    assert [one.name for one in silent] == ["c-2"]


def test_the_lease_of_a_member_that_stands_still_ends_on_time_while_others_go_on() -> None:
    bench = Bench()
    for ref in (1, 2):
        bench.do(Wanted(ref, SQL, "channel"))
    bench.connect()
    bench.now += 100_000  # so that no acknowledgement is due as its lease ends
    for base, ref in enumerate((1, 2)):
        place = Channel(ref, 0, "memory", f"c-{ref}", 0, 40)
        bench.frame(base, base + 1, 40, one_number(ref, query=ref), Value(ref, 0, 1.0), place)
    ends = bench.now + LEASE
    bench.wait(LEASE // 2)
    for ref, position in ((1, 45), (2, 70)):
        bench.do(ChannelHeard(f"c-{ref}", Published(ref, 0, 0, position)))
    bench.frame(2, 3, 70)
    bench.do(ChannelHeard("c-2", Published(2, 0, 0, 71)))
    told: list[Any] = []
    while not told:
        due = bench.state.next_tick(bench.now)
        assert due is not None
        assert bench.now < due <= ends
        told = [one for one in bench.wait(due - bench.now) if isinstance(one, Certainty)]
    assert bench.now == ends
    assert [(one.ref, one.certain) for one in told] == [(1, False)]
    assert bench.state.shown(2, bench.now).certain


def test_another_writer_of_the_log_changes_the_name_of_the_history_and_nothing_else(bench: Bench) -> None:
    bench.connect(incarnation=7)
    bench.frame(0, 1, 40, one_number(), Value(5, 0, 1.0))
    out = bench.receive(Frame(bench.session, 1, 1, 45, bench.now, incarnation=8))
    assert not [one for one in out if isinstance(one, Certainty)]
    shown = bench.state.shown(1, bench.now)
    assert (shown.incarnation, shown.as_of, shown.certain) == (8, 45, True)
    assert bench.state.kept == 45
    bench.do(Lost("away"))
    (send,) = bench.do(Opened())
    assert (send.message.incarnation, send.message.after) == (8, 45)
