"""Who is next: fresh questions before long ones hold them up, and callers in turn."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from slackwater.server.oneshot.turns import Turns


def granted(turns: Turns[str]) -> list[str]:
    found = []
    while (ticket := turns.next()) is not None:
        found.append(ticket)
    return found


def test_callers_take_turns() -> None:
    turns = Turns[str](fresh=1, workers=1)
    for ticket in ("a1", "a2", "a3", "b1"):
        turns.enter(ticket[0], ticket)
    order = []
    for ticket in iter(turns.next, None):
        order.append(ticket)
        assert turns.next() is None
        turns.leave(ticket[0], ticket)
    assert order == ["a1", "b1", "a2", "a3"]


def test_long_questions_make_room_for_others() -> None:
    turns = Turns[str](fresh=2, workers=4)
    for number in range(6):
        turns.enter("a", f"a{number}")
    assert granted(turns) == ["a0", "a1"]
    turns.grow_long("a0")
    turns.grow_long("a1")
    # The last worker is for others.
    assert granted(turns) == ["a2"]
    turns.enter("b", "b0")
    assert granted(turns) == ["b0"]
    assert (turns.running, turns.waiting) == (4, 3)
    turns.leave("a", "a5")
    assert (turns.running, turns.waiting) == (4, 2)
    turns.leave("a", "a0")
    # One of two fresh ones has to go or grow long first.
    assert granted(turns) == []
    turns.leave("b", "b0")
    assert granted(turns) == ["a3"]


OPERATIONS = st.lists(st.tuples(st.sampled_from(["enter", "leave", "long"]), st.integers(0, 30)), max_size=60)


@given(OPERATIONS, st.integers(1, 3), st.integers(0, 3))
def test_never_too_many_and_nobody_waits_for_nothing(operations: list[tuple[str, int]], fresh: int, more: int) -> None:
    turns = Turns[int](fresh, fresh + more)
    running: dict[int, bool] = {}
    waiting: set[int] = set()
    for what, number in operations:
        caller = str(number % 3)
        if what == "enter" and number not in waiting and number not in running:
            waiting.add(number)
            turns.enter(caller, number)
        elif what == "leave":
            waiting.discard(number)
            running.pop(number, None)
            turns.leave(caller, number)
        elif number in running:
            running[number] = True
            turns.grow_long(number)
        while (ticket := turns.next()) is not None:
            waiting.remove(ticket)
            running[ticket] = False
        count, new = len(running), sum(1 for long in running.values() if not long)
        assert (turns.running, turns.waiting) == (count, len(waiting))
        assert count <= fresh + more
        assert new <= fresh
        callers = Counter(number % 3 for number in running)
        if waiting and count < fresh + more and new < fresh:
            # All that wait are of the caller who has everything but the last place.
            assert count == fresh + more - 1
            assert callers.keys() == {number % 3 for number in waiting}
