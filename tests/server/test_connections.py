"""Connection slots against a list that is searched, and the order in which connections make room."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from slackwater.server.connections import ConnectionPhase, ConnectionSlots, SlotLimits

LIMITS = SlotLimits(6, 4, head_seconds=1.0, body_seconds=3.0, idle_seconds=2.0, turns=0)
CROWDED = replace(LIMITS, most_strangers=3, stranger_seconds=0)
HERE, THERE = "192.0.2.1", "192.0.2.2"


@dataclass
class Plain:
    """One connection of the oracle; `order` says when it came to its rank."""

    number: int
    address: str
    phase: ConnectionPhase
    since: float
    order: int
    stranger: bool = True

    @property
    def rank(self) -> int | None:
        silent = self.phase in (ConnectionPhase.HEAD, ConnectionPhase.REST)
        if self.phase is ConnectionPhase.LIVE:
            return None
        if self.stranger:
            return 0 if silent else 1
        return 2 if silent or self.phase is ConnectionPhase.IDLE else None


class Oracle:
    """The slow version: a list."""

    def __init__(self, limits: SlotLimits) -> None:
        self.limits = limits
        self.list: list[Plain] = []

    @property
    def crowd(self) -> list[Plain] | None:
        """The connections one of which has to go for a new one; None if there is room for it."""
        strangers = [one for one in self.list if one.rank in (0, 1)]
        if len(strangers) >= self.limits.most_strangers:
            return strangers
        return self.list if len(self.list) >= self.limits.most else None

    def evicted(self, some: list[Plain]) -> Plain | None:
        ranked = [(one.rank, one.order, one) for one in some if one.rank is not None]
        return min(ranked, key=lambda found: found[:2])[2] if ranked else None

    def admit(self, address: str) -> tuple[bool, int | None]:
        own = [one for one in self.list if one.address == address]
        full = self.crowd
        if len(own) >= self.limits.most_an_address:
            full = [one for one in own if full in (None, self.list) or one.rank in (0, 1)]
        if full is None:
            return True, None
        victim = self.evicted(full)
        if victim is None:
            return False, None
        self.list.remove(victim)
        return True, victim.number

    def overdue(self, now: float) -> set[int]:
        return {one.number for one in self.list if one.since + self.limits.seconds(one.phase) <= now}


@pytest.mark.parametrize("limits", [LIMITS, CROWDED], ids=["few", "few strangers"])
@pytest.mark.parametrize("seed", range(20))
def test_like_a_list(seed: int, limits: SlotLimits) -> None:
    rng = random.Random(seed)
    slots, oracle = ConnectionSlots(limits), Oracle(limits)
    now = 0.0
    for order in range(400):
        now += rng.choice((0.0, 0.1, 0.7))
        slots.begin_turn(now)
        one = rng.choice(oracle.list) if oracle.list else None
        match rng.randrange(6):
            case 0 | 1:
                address = rng.choice((HERE, HERE, THERE))
                taken, evicted = oracle.admit(address)
                grant = slots.admit(address, now)
                assert (grant.number is not None, grant.evicted) == (taken, evicted)
                if grant.number is not None:
                    oracle.list.append(Plain(grant.number, address, ConnectionPhase.HEAD, now, order))
            case 2 | 3 if one is not None:
                # A stranger's WebSocket is not accepted.
                phase = rng.choice([some for some in ConnectionPhase if not (one.stranger and some.value == "live")])
                slots.enter(one.number, phase, now)
                if phase is not one.phase:
                    one.phase, one.since, one.order = phase, now, order
            case 4 if one is not None:
                slots.recognise(one.number)
                if one.stranger:
                    one.stranger, one.order = False, order
            case _ if one is not None:
                slots.leave(one.number)
                oracle.list.remove(one)
        assert {number for number, _ in slots.overdue(now)} == oracle.overdue(now)
        assert len(slots) == len(oracle.list)
        assert slots.has_room == (oracle.crowd is None or oracle.evicted(oracle.crowd) is not None)
        slots._check()


def numbers(slots: ConnectionSlots, address: str, count: int, now: float = 0.0) -> Iterator[int]:
    for _ in range(count):
        number = slots.admit(address, now).number
        assert number is not None
        yield number


def test_an_idle_connection_of_a_known_sender_outlives_strangers() -> None:
    slots = ConnectionSlots(LIMITS)
    honest, answered, silent = numbers(slots, HERE, 3)
    slots.enter(honest, ConnectionPhase.ANSWER, 0.0)
    slots.recognise(honest)
    slots.enter(honest, ConnectionPhase.IDLE, 0.0)
    slots.enter(answered, ConnectionPhase.ANSWER, 0.0)
    slots.enter(answered, ConnectionPhase.IDLE, 0.0)
    assert [slots.evict() for _ in range(4)] == [silent, answered, honest, None]


def test_an_address_takes_from_itself() -> None:
    slots = ConnectionSlots(LIMITS)
    (other,) = numbers(slots, THERE, 1)
    own = list(numbers(slots, HERE, LIMITS.most_an_address))
    assert [slots.admit(HERE, 0.0).evicted for _ in own] == own
    assert slots.admit(THERE, 0.0).evicted is None
    assert slots.admit(THERE, 0.0).evicted == other


def test_what_is_at_work_is_never_closed_for_a_new_one() -> None:
    slots = ConnectionSlots(LIMITS)
    working = [*numbers(slots, HERE, 3), *numbers(slots, THERE, 3)]
    for number in working:
        slots.enter(number, ConnectionPhase.LIVE, 0.0)
    assert not slots.has_room
    assert not slots.will_have_room
    assert slots.admit(HERE, 0.0).number is None
    assert list(slots.overdue(1e9)) == []
    slots.leave(working[0])
    assert slots.admit(HERE, 0.0).number is not None


def test_a_new_connection_has_its_turns() -> None:
    limits = SlotLimits(2, 2, head_seconds=1.0, body_seconds=1.0, idle_seconds=1.0, turns=3)
    slots = ConnectionSlots(limits)
    first, second = numbers(slots, HERE, 2)
    for _ in range(limits.turns):
        assert not slots.has_room
        assert slots.will_have_room
        slots.begin_turn(0.0)
    assert slots.admit(THERE, 0.0).evicted == first
    assert slots.admit(THERE, 0.0).evicted == second
    assert slots.admit(THERE, 0.0).number is None


def test_a_byte_now_and_then_does_not_prolong_a_head() -> None:
    slots = ConnectionSlots(LIMITS)
    (slow,) = numbers(slots, HERE, 1)
    for tenth in range(10):
        slots.enter(slow, ConnectionPhase.HEAD, tenth / 10)
        assert list(slots.overdue(tenth / 10)) == []
    assert list(slots.overdue(1.0)) == [(slow, ConnectionPhase.HEAD)]


def test_strangers_have_a_limit_of_their_own_and_replace_each_other() -> None:
    """However much room there is; what is recognised does not count, and an idle one is not closed for strangers."""
    slots = ConnectionSlots(CROWDED)
    (idle,) = numbers(slots, HERE, 1)
    slots.recognise(idle)
    slots.enter(idle, ConnectionPhase.IDLE, 0.0)
    first, second, third = [*numbers(slots, THERE, 2), *numbers(slots, HERE, 1)]
    assert [slots.admit(HERE, 0.0).evicted, slots.admit(HERE, 0.0).evicted] == [first, second]
    slots.recognise(third)
    assert slots.admit(THERE, 0.0).evicted is None
    assert len(slots) == CROWDED.most_strangers + 2


def test_many_that_come_at_once_are_not_replaced_before_they_had_their_time() -> None:
    """They wait for room among the strangers; one that speaks all the time is no younger for it."""
    slots = ConnectionSlots(replace(CROWDED, stranger_seconds=1.0))
    first, second, third = numbers(slots, HERE, 3)
    slots.begin_turn(0.9)
    for number in (first, second, third):
        slots.enter(number, ConnectionPhase.ANSWER, 0.9)
    assert [slots.has_room, slots.will_have_room] == [False, True]
    slots.recognise(second)
    assert slots.admit(HERE, 0.9).evicted is None
    slots.begin_turn(1.0)
    slots.enter(third + 1, ConnectionPhase.ANSWER, 1.0)
    assert slots.admit(THERE, 1.0).evicted == first
