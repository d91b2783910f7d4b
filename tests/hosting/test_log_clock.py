"""The log clock under any wall clock and any periods: what ticks are appended, and when the next is due."""

from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.types import Instant
from slackwater.hosting.log_clock import LogClock

WALLS = st.lists(st.integers(0, 200).map(Instant), min_size=1, max_size=40)
PERIODS = st.frozensets(st.integers(1, 25), max_size=3)


def ticks(clock: LogClock, walls: list[Instant], periods: frozenset[int]) -> list[tuple[Instant, Instant]]:
    """What a writer appends that reads these times off the wall, with the reading."""
    made = []
    for wall in walls:
        tick = clock.due(wall, periods)
        if tick is not None:
            clock = clock.after(tick)
            made.append((wall, tick))
    return made


@given(st.integers(0, 100).map(Instant), WALLS, PERIODS)
def test_ticks_rise_at_multiples_and_are_never_of_the_future(
    last: Instant, walls: list[Instant], periods: frozenset[int]
) -> None:
    made = ticks(LogClock(last), walls, periods)
    times = [last, *(tick for _, tick in made)]
    assert times == sorted(set(times))
    for wall, tick in made:
        assert tick <= wall
        assert any(tick % period == 0 for period in periods)
        # The latest multiple, however long nothing was read: one tick and no flood.
        assert all(tick + period > wall or (wall - wall % period) <= tick for period in periods)


@given(WALLS, PERIODS, st.integers(0, 40))
def test_a_restart_anywhere_changes_nothing(walls: list[Instant], periods: frozenset[int], cut: int) -> None:
    whole = ticks(LogClock(), walls, periods)
    before = ticks(LogClock(), walls[:cut], periods)
    last = before[-1][1] if before else Instant(0)
    assert before + ticks(LogClock(last), walls[cut:], periods) == whole


@given(st.integers(1, 25), PERIODS)
def test_every_multiple_of_a_period_is_found_whatever_the_other_periods_are(
    period: int, others: frozenset[int]
) -> None:
    found = [tick for _, tick in ticks(LogClock(), [Instant(wall) for wall in range(101)], others | {period})]
    assert {*range(period, 101, period)} <= {*found}


@given(st.integers(0, 100).map(Instant), st.integers(0, 200).map(Instant), PERIODS)
def test_the_next_tick_is_due_then_and_not_before(last: Instant, wall: Instant, periods: frozenset[int]) -> None:
    clock = LogClock(last)
    due = clock.next_due(wall, periods)
    if not periods:
        assert due is None
        assert clock.due(wall, periods) is None
        return
    assert due is not None
    assert due >= wall
    assert clock.due(due, periods) is not None
    assert all(clock.due(Instant(time), periods) is None for time in range(wall, due))


@given(st.integers(0, 100).map(Instant), WALLS)
def test_it_never_shows_less_than_the_log(last: Instant, walls: list[Instant]) -> None:
    clock = LogClock(last)
    for wall in walls:
        assert clock.now(wall) == max(last, wall)
        assert clock.after(wall).last >= clock.last


@given(st.lists(st.tuples(st.integers(0, 200).map(Instant), st.booleans()), max_size=40), PERIODS, st.integers(0, 40))
def test_stamps_rise_and_are_not_before_the_ticks(
    history: list[tuple[Instant, bool]], periods: frozenset[int], restart: int
) -> None:
    """Whatever the wall clock shows, also if the clock is found again from what is in the log."""
    clock, stamps, written = LogClock(), [Instant(0)], [Instant(0)]
    for nth, (wall, rows) in enumerate(history):
        if nth == restart:
            clock = LogClock().after(written[-1]).stamped(stamps[-1])
        assert clock.now(wall) >= max(wall, stamps[-1], written[-1])
        tick = clock.due(wall, periods)
        if tick is not None:
            assert written[-1] < tick <= max(wall, stamps[-1])
            clock = clock.after(tick)
            written.append(tick)
        if rows:
            stamp = clock.stamp(wall)
            assert stamp > stamps[-1]
            assert stamp >= max(wall, written[-1])
            clock = clock.stamped(stamp)
            stamps.append(stamp)
