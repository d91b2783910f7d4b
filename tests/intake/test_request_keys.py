"""Idempotency keys: a request is taken once within the window, and refused by name where that cannot be promised."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.core import Column, DataType, Instant, LogError, ManualClock, TableSchema
from slackwater.core.arrival import Arrival, RequestKey
from slackwater.core.types import Position
from slackwater.intake import MEMORY_FILE, Intake, RequestKeyReused, TooManyRequestKeys
from slackwater.intake.memory import load
from slackwater.log import Entry, LocalLog, Log, MemoryLog, MemoryStore, Quarantined, Record, TableDropped, Updates

TABLE = TableSchema("t", (Column("k", DataType.TEXT, nullable=False), Column("v", DataType.BIGINT)), key=("k",))
NOW = 1_700_000_000_000_000
HOUR = 3_600_000_000


def rows(*values: object, source: str = "s") -> Arrival:
    texts = pa.array([str(value) for value in values])
    columns = {"k": pa.array(["a"] * len(values)), "v": texts}
    return Arrival("t", source, pa.RecordBatch.from_pydict(columns), "test")


def key(name: str, content: bytes = b"content") -> RequestKey:
    return RequestKey(name, content)


def opened(log: Log, clock: ManualClock | None = None, memory: Path | None = None) -> Intake:
    intake = Intake(log, clock or ManualClock(Instant(NOW)), memory=memory)
    intake.define(TABLE)
    return intake


def taken(log: Log) -> list[int]:
    found: list[int] = []
    for entry in log.read(log.start):
        if isinstance(entry.record, Updates):
            found += entry.record.batch.column("v").to_pylist()
    return found


@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_a_request_is_taken_once_over_restarts(tmp_path: Path, memory: str) -> None:
    with LocalLog(tmp_path) as log:
        intake = opened(log, memory=tmp_path / MEMORY_FILE)
        first = intake.take([rows(1, "bad"), rows(2)], key("a"))
        assert (first.accepted, first.quarantined, first.promised.by_request, first.request_repeated) == (
            2,
            1,
            2,
            False,
        )
        intake.take([rows(3)])
        if memory == "kept":
            intake.save()
    with LocalLog(tmp_path) as log:
        intake, end = opened(log, memory=tmp_path / MEMORY_FILE), log.end
        again = intake.take([rows(1, "bad"), rows(2)], key("a"))
        assert (again.accepted, again.quarantined, again.repeats, again.request_repeated) == (0, 0, 3, True)
        assert log.end == end
        with pytest.raises(RequestKeyReused, match="'a' was used for another request"):
            intake.take([rows(9)], key("a", b"other"))
        assert intake.take([rows(1, source="z")], key("a", b"other")).accepted == 1, "a key is of one source"
        assert taken(log) == [1, 2, 3, 1]


class TornLog(MemoryLog):
    """A log whose process dies when some records of an append are kept."""

    keeps = 0

    def append(self, records: Sequence[Record]) -> Position:
        if not self.keeps:
            return super().append(records)
        super().append(records[: self.keeps])
        raise KeyboardInterrupt


def test_a_torn_request_is_taken_once() -> None:
    store = MemoryStore()
    with TornLog(store) as log:
        intake = opened(log)
        log.keeps = 1
        with pytest.raises(KeyboardInterrupt):
            intake.take([rows(1, "bad"), rows(2)], key("a"))
    with MemoryLog(store) as log:
        intake = opened(log)
        assert intake.take([rows(1, "bad"), rows(2)], key("a")).accepted == 2
        assert intake.take([rows(1, "bad"), rows(2)], key("a")).repeats == 3
        assert taken(log) == [1, 2]


def test_a_request_of_refused_rows_alone_is_taken_once() -> None:
    store = MemoryStore()
    for repeated in (False, True):
        with MemoryLog(store) as log:
            assert opened(log).take([rows("bad")], key("a")).request_repeated == repeated
            assert sum(isinstance(entry.record, Quarantined) for entry in log.read(log.start)) == 1


def test_a_key_is_forgotten_after_a_day_of_the_log_clock() -> None:
    log, clock = MemoryLog(), ManualClock(Instant(NOW))
    intake = opened(log, clock)
    intake.take([rows(1)], key("a"))
    clock.sleep(24 * 3600)
    assert intake.take([rows(2)], key("b")).accepted == 1
    assert intake.take([rows(1)], key("a")).request_repeated, "still within the window"
    clock.sleep(1)
    intake.take([rows(3)], key("c"))
    assert intake.take([rows(1)], key("a")).accepted == 1, "out of the window"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_key_is_of_no_request_after_its_window(restarted: bool) -> None:
    """Also if its source used no other key in between, as a daily job under one key does."""
    store, clock = MemoryStore(), ManualClock(Instant(NOW))
    log = MemoryLog(store)
    intake = opened(log, clock)
    for day in range(3):
        receipt = intake.take([rows(day)], key("daily", b"day %d" % day))
        assert (receipt.accepted, receipt.request_repeated) == (1, False), "another content"
        assert intake.take([rows(day)], key("daily", b"day %d" % day)).request_repeated
        clock.sleep(24 * 3600 + 1)
        if restarted:
            log.close()
            log = MemoryLog(store)
            intake = opened(log, clock)
    assert intake.take([rows(2)], key("daily", b"day 2")).accepted == 1, "the same content, after the window"
    assert taken(log) == [0, 1, 2, 2]


def test_a_key_used_again_is_the_youngest() -> None:
    store, clock = MemoryStore(), ManualClock(Instant(NOW))
    with MemoryLog(store) as log:
        intake = opened(log, clock)
        intake.take([rows(1)], key("a"))
        clock.sleep(3600)
        intake.take([rows(2)], key("b"))
        clock.sleep(24 * 3600)
        intake.take([rows(3)], key("a"))
    clock.sleep(3600)
    with MemoryLog(store) as log:
        intake = opened(log, clock)
        assert intake.take([rows(3)], key("a")).request_repeated
        assert intake.take([rows(2)], key("b")).accepted == 1, "it is not kept by the younger key"


def test_no_young_key_is_forgotten_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.intake.request_keys.MOST_KEYS", 2)
    log, clock = MemoryLog(), ManualClock(Instant(NOW))
    intake = opened(log, clock)
    intake.take([rows(1)], key("a"))
    clock.sleep(12 * 3600)
    intake.take([rows(2)], key("b"))
    with pytest.raises(TooManyRequestKeys, match="within 24 hours"):
        intake.take([rows(3)], key("c"))
    assert intake.take([rows(1)], key("a")).request_repeated
    assert intake.take([rows(3)]).accepted == 1, "without a key"
    clock.sleep(12 * 3600 + 1)
    assert intake.take([rows(3)], key("c")).accepted == 1


def remembered(intake: Intake) -> set[str]:
    """Sources of which keys are remembered."""
    return {source for _, source in intake._memory.requests}


def test_keys_of_a_source_that_sends_no_more_are_forgotten(tmp_path: Path) -> None:
    """In memory, in the file, and when they are read back from the log."""
    memory, clock = tmp_path / MEMORY_FILE, ManualClock(Instant(NOW))
    with LocalLog(tmp_path) as log:
        intake = opened(log, clock, memory)
        for nth in range(50):
            intake.take([rows(nth, source=f"phone {nth}")], key("a"))
            assert len(remembered(intake)) <= 26, "those of a day, and of the hour until they are looked at"
            clock.sleep(3600)
        intake.save()
        assert remembered(intake) == {source for _, source in load(memory).requests}
        assert len(remembered(intake)) == 25, "those of a day before the last request"
        clock.sleep(25 * 3600)
        intake.save()
        assert len(remembered(intake)) == 25, "the wall clock alone forgets nothing: it may be wrong"
        intake.take([rows(99, source="desk")])
        intake.save()
        assert remembered(intake) == {source for _, source in load(memory).requests} == set()
    memory.unlink()
    with LocalLog(tmp_path) as log:
        assert remembered(opened(log, clock, memory)) == set()


def test_old_keys_take_no_memory_while_the_log_is_read() -> None:
    store, clock = MemoryStore(), ManualClock(Instant(NOW))
    with MemoryLog(store) as log:
        intake = opened(log, clock)
        for nth in range(60):
            intake.take([rows(nth, source=f"phone {nth}")], key("a"))
            clock.sleep(3600)
    most = 0

    class Watched(Intake):
        def _recall(self, entry: Entry) -> None:
            nonlocal most
            super()._recall(entry)
            most = max(most, len(remembered(self)))

    with MemoryLog(store) as log:
        Watched(log, clock)
    assert 24 <= most <= 26


def test_a_request_that_fails_leaves_no_source_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    intake = opened(log)

    def full(records: Sequence[Record]) -> Position:
        raise LogError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(log, "append", full)
        for nth in range(9):
            with pytest.raises(LogError):
                intake.take([rows(nth, source=f"phone {nth}")], key("a"))
    assert remembered(intake) == set()
    assert intake.take([rows(1, source="phone 1")], key("a")).accepted == 1


def test_a_table_made_anew_has_taken_nothing() -> None:
    store = MemoryStore()
    with MemoryLog(store) as log:
        intake = opened(log)
        intake.take([rows(1)], key("a"))
        log.append([TableDropped("t")])
        intake.define(TABLE)
        assert intake.take([rows(1)], key("a")).accepted == 1


def test_a_request_is_of_one_source_and_table() -> None:
    with pytest.raises(ValueError, match="one source for one table"):
        opened(MemoryLog()).take([rows(1), rows(2, source="z")], key("a"))


def test_a_wall_clock_that_was_ahead_for_a_moment_forgets_no_key(tmp_path: Path) -> None:
    """What was not written under its time counts as if it had not been."""
    memory, right = tmp_path / MEMORY_FILE, ManualClock(Instant(NOW))
    ahead = ManualClock(Instant(NOW + 48 * 3600 * 1_000_000))
    with LocalLog(tmp_path) as log:
        opened(log, right, memory).take([rows(1)], key("a"))
        opened(log, ahead, memory).save()
        assert opened(log, right, memory).take([rows(1)], key("a")).request_repeated
