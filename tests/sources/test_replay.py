"""Replay on a clock that moves only when slept on: nothing early, nothing later than an interval, nothing lost."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import Column, DataType, ManualClock, SourceError, TableSchema
from slackwater.core.arrival import Arrival, Refusal
from slackwater.core.arrow import INSTANT
from slackwater.sources import FULL_SPEED, Market, Pace, Replay

SECOND = 1_000_000
TABLE = TableSchema(
    "t",
    (Column("k", DataType.BIGINT, nullable=False), Column("at", DataType.TIMESTAMP)),
    key=("k",),
    event_time="at",
)


@dataclass
class Listed:
    """A source of the given event times (seconds), in batches of the given size."""

    times: list[float | None]
    size: int = 1_000
    schema: TableSchema | None = TABLE

    def arrivals(self) -> Iterator[Arrival]:
        for first in range(0, len(self.times), self.size):
            part = self.times[first : first + self.size]
            micros = pa.array([None if t is None else round(t * SECOND) for t in part], pa.int64())
            numbers = pa.array(range(first + 1, first + 1 + len(part)), pa.int64())
            batch = pa.RecordBatch.from_arrays([numbers, micros.cast(INSTANT), numbers], ["k", "at", "$seq"])
            yield Arrival("t", "s", batch, "here", batch.column("k"))


Sent = list[tuple[float, list[int]]]


def run(source: Listed, pace: Pace, *, work: float = 0.0, **limits: float) -> Sent:
    clock = ManualClock()
    sent: Sent = []
    for arrival in Replay(source, clock, pace, **limits).arrivals():  # type: ignore[arg-type]
        rows = arrival.batch.column("k").to_pylist()
        assert arrival.rows is not None
        assert arrival.rows.to_pylist() == rows
        sent.append((clock.now() / SECOND, rows))
        clock.sleep(work)
    return sent


def due_one_by_one(times: list[float | None], pace: Pace) -> list[float]:
    due, at, latest = [], 0.0, None
    for time in times:
        if time is not None:
            if latest is not None and time > latest:
                at += min((time - latest) / pace.speed, pace.gap)
            latest = time if latest is None else max(latest, time)
        due.append(at)
    return due


@settings(max_examples=200, deadline=None)
@given(
    times=st.lists(st.none() | st.floats(0, 100).map(lambda t: round(t, 3)), min_size=1, max_size=40),
    size=st.integers(1, 40),
    speed=st.sampled_from([0.5, 1.0, 3.0, 100.0]),
    gap=st.sampled_from([None, 0.0, 2.0, math.inf]),
    interval=st.sampled_from([0.01, 0.1, 5.0]),
)
def test_never_early_late_by_an_interval_at_most_and_complete(
    times: list[float | None], size: int, speed: float, gap: float | None, interval: float
) -> None:
    pace = Pace(speed=speed, longest_gap=gap, interval=interval)
    sent = run(Listed(times, size), pace)
    due = due_one_by_one(times, pace)
    assert [row for _, rows in sent for row in rows] == list(range(1, len(times) + 1))
    for at, rows in sent:
        for row in rows:
            assert due[row - 1] - 1e-6 <= at <= due[row - 1] + interval + 1e-4


def test_original_and_faster() -> None:
    assert run(Listed([0, 1, 2, 2, 3]), Pace()) == [(0, [1]), (1, [2]), (2, [3, 4]), (3, [5])]
    assert run(Listed([0, 1, 2, 2, 3]), Pace(speed=4)) == [(0, [1]), (0.25, [2]), (0.5, [3, 4]), (0.75, [5])]


def test_full_speed_waits_for_nothing_and_cuts_nothing() -> None:
    assert run(Listed([0, 1e6, 2e6]), Pace(speed=FULL_SPEED)) == [(0, [1, 2, 3])]


def test_rows_due_together_travel_together() -> None:
    sent = run(Listed([n / 100 for n in range(100)]), Pace(interval=0.1))
    assert len(sent) == 10
    assert all(9 <= len(rows) <= 11 for _, rows in sent)


def test_gaps_are_cut_short() -> None:
    night = [0, 60, 60 + 17 * 3600, 120 + 17 * 3600]
    assert [at for at, _ in run(Listed(list(night)), Pace())] == [0, 60, 120, 180]
    assert [at for at, _ in run(Listed(list(night)), Pace(speed=60))] == [0, 1, 2, 3]
    assert [at for at, _ in run(Listed(list(night)), Pace(longest_gap=5))] == [0, 5, 10, 15]
    assert run(Listed(list(night)), Pace(longest_gap=math.inf))[-1][0] == night[-1]


def test_times_that_go_back_do_not_hold_anything_up() -> None:
    assert run(Listed([10, 12, 3, 13]), Pace()) == [(0, [1]), (2, [2, 3]), (3, [4])]


def test_a_rate_needs_no_times() -> None:
    sent = run(Listed([None] * 30, schema=None), Pace(rate=10, interval=0.5))
    assert sum(len(rows) for _, rows in sent) == 30
    assert sent[-1][0] == pytest.approx(2.9, abs=1e-5)
    assert len(sent) == 6


def test_without_times_everything_is_due_at_once() -> None:
    assert run(Listed([None] * 3), Pace()) == [(0, [1, 2, 3])]


def test_limits() -> None:
    times: list[float | None] = [0, 1, 2, 3, 4]
    assert run(Listed(times, 2), Pace(), rows=3) == [(0, [1]), (1, [2]), (2, [3])]
    assert run(Listed(times, 2), Pace(speed=FULL_SPEED), rows=3) == [(0, [1, 2]), (0, [3])]
    assert run(Listed(times), Pace(), rows=0) == []
    assert run(Listed(times), Pace(), seconds=2.5) == [(0, [1]), (1, [2]), (2, [3])]
    assert run(Listed(times), Pace(interval=4), seconds=2.5) == [(2, [1, 2, 3])]
    assert run(Listed(times), Pace(), seconds=0) == []


def test_the_time_is_up_when_it_is_up() -> None:
    clock = ManualClock()
    for _ in Replay(Listed([0, 100]), clock, Pace(longest_gap=math.inf), seconds=7).arrivals():
        pass
    assert clock.now() == 7 * SECOND
    clock = ManualClock()
    batches = 0
    for _ in Replay(Market(batch_rows=20), clock, Pace(speed=FULL_SPEED), seconds=1).arrivals():
        batches += 1
        clock.sleep(0.1)
    assert batches == 10


def test_a_slow_consumer_is_not_waited_for() -> None:
    sent = run(Listed([0, 1, 2, 3]), Pace(), work=2.0)
    assert [at for at, _ in sent] == [0, 2, 4, 6]


def test_refusals_come_once() -> None:
    refusal = Refusal("x", "not-json", "…", 9)

    @dataclass
    class Faulty(Listed):
        def arrivals(self) -> Iterator[Arrival]:
            for a in super().arrivals():
                yield Arrival(a.table, a.source, a.batch, a.place, a.rows, None, (refusal,))
            yield Arrival("t", "s", a.batch.slice(0, 0), "here", None, None, (refusal,))

    arrivals = list(Replay(Faulty([0, 1, 2]), ManualClock(), Pace()).arrivals())
    assert [len(arrival.refused) for arrival in arrivals] == [1, 0, 0, 1]


def test_text_times_with_a_zone_are_paced_by() -> None:
    @dataclass
    class Texts(Listed):
        def arrivals(self) -> Iterator[Arrival]:
            texts = ["2024-01-01 00:00:00", "2024-01-01T00:00:01.5", "bad", "2024-01-01T01:00:03+01:00"]
            batch = pa.RecordBatch.from_pydict({"k": [1, 2, 3, 4], "at": texts})
            yield Arrival("t", "s", batch, "here", None, "UTC")

    clock = ManualClock()
    at = [(clock.now(), arrival.batch.num_rows) for arrival in Replay(Texts([]), clock, Pace()).arrivals()]
    assert at == [(0, 1), (1_500_000, 2), (3_000_000, 1)]


@pytest.mark.parametrize(
    "options",
    [{"speed": 0}, {"speed": math.nan}, {"rate": -1}, {"longest_gap": -1}, {"interval": 0}, {"interval": math.inf}],
)
def test_paces_that_cannot_be(options: dict[str, float]) -> None:
    with pytest.raises(SourceError):
        Pace(**options)


def test_limits_that_cannot_be() -> None:
    with pytest.raises(SourceError):
        Replay(Listed([]), ManualClock(), seconds=-1)
    with pytest.raises(SourceError):
        Replay(Listed([]), ManualClock(), rows=-1)
