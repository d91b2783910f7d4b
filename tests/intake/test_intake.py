"""The way in: nothing twice, nothing lost, whatever is repeated and wherever it stops."""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import Column, DataType, Instant, LogError, ManualClock, SchemaError, SlackwaterError, TableSchema
from slackwater.core.arrival import Arrival, RequestKey
from slackwater.core.lineage import Lineage, Place
from slackwater.core.types import Position
from slackwater.intake import MEMORY_FILE, Intake, IntakeReceipt, RowsRequest
from slackwater.intake.memory import encode
from slackwater.log import LocalLog, Log, Quarantined, Record, TableDropped, Updates
from slackwater.log.memory import MemoryLog, MemoryStore

TABLE = TableSchema(
    "items", (Column("item", DataType.TEXT, nullable=False), Column("value", DataType.DOUBLE)), key=("item",)
)
CLOCK = ManualClock(Instant(1_700_000_000_000_000))


def arrival(numbers: list[int], source: str = "s") -> Arrival:
    """Rows with these numbers; every third has a bad value."""
    columns = {
        "item": pa.array([f"i{number % 5}" for number in numbers], pa.string()),
        "value": pa.array(["bad" if number % 3 == 0 else str(number) for number in numbers], pa.string()),
        "$seq": pa.array(numbers, pa.int64()),
    }
    return Arrival("items", source, pa.RecordBatch.from_pydict(columns), "test")


def contents(log: Log) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """(source, number) of the rows accepted and of those refused, in the order of the log."""
    accepted: list[tuple[str, int]] = []
    refused: list[tuple[str, int]] = []
    for entry in log.read(log.start):
        if isinstance(entry.record, Updates | Quarantined):
            batch = entry.record.batch
            into = accepted if isinstance(entry.record, Updates) else refused
            into += list(zip(batch.column("$source").to_pylist(), batch.column("$seq").to_pylist(), strict=True))
    return accepted, refused


def test_accepted_and_refused_are_in_the_log_with_a_receipt() -> None:
    log = MemoryLog()
    intake = Intake(log, CLOCK)
    intake.define(TABLE)
    receipt = intake.take([arrival([1, 2, 3]), arrival([3, 4, 5])])
    assert (receipt.accepted, receipt.quarantined, receipt.repeats, receipt.rows) == (4, 1, 1, 6)
    assert receipt.position == log.end
    assert contents(log) == ([("s", 1), ("s", 2), ("s", 4), ("s", 5)], [("s", 3)])


def test_defining_again_does_nothing_and_a_wrong_change_is_refused() -> None:
    log = MemoryLog()
    intake = Intake(log, CLOCK)
    assert intake.define(TABLE) == intake.define(TABLE)
    with pytest.raises(SchemaError):
        intake.define(TableSchema("items", TABLE.columns[:1], key=("item",)))
    assert intake.tables.find("items") == TABLE


def test_an_unknown_table_takes_nothing() -> None:
    log = MemoryLog()
    with pytest.raises(SchemaError, match="there are: none"):
        Intake(log, CLOCK).take([arrival([1])])
    assert log.end == 0


steps = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.sampled_from("ab"), st.lists(st.integers(1, 30), min_size=1, max_size=8)),
        st.just(("reopen", "", [])),
        st.just(("save", "", [])),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_every_row_is_there_once_over_any_history(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, str, list[int]]]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    expected: dict[tuple[str, int], None] = {}
    log = LocalLog(folder)
    intake = Intake(log, CLOCK, memory=folder / MEMORY_FILE)
    intake.define(TABLE)
    for step, source, numbers in history:
        if step == "take":
            receipt = intake.take([arrival(numbers, source)])
            assert receipt.rows == len(numbers)
            expected |= dict.fromkeys((source, number) for number in numbers)
        elif step == "save":
            intake.save()
        else:  # as after a crash: nothing is saved on the way out
            log.close()
            log = LocalLog(folder)
            intake = Intake(log, CLOCK, memory=folder / MEMORY_FILE)
    accepted, refused = contents(log)
    assert len(accepted) + len(refused) == len(expected)
    assert {*accepted, *refused} == {*expected}
    assert all(number % 3 == 0 for _, number in refused)
    log.close()


class FailingLog(MemoryLog):
    """A log whose disk is full for a while."""

    broken = False

    def append(self, records: Sequence[Record]) -> Position:
        if self.broken:
            raise LogError("no space left")
        return super().append(records)


def test_what_could_not_be_stored_is_not_remembered_as_taken() -> None:
    log = FailingLog()
    intake = Intake(log, CLOCK)
    intake.define(TABLE)
    log.broken = True
    with pytest.raises(LogError):
        intake.take([arrival([1, 2])])
    log.broken = False
    assert intake.take([arrival([1, 2])]).accepted == 2


def test_repeats_are_known_after_the_log_dropped_the_rows(tmp_path: Path) -> None:
    with LocalLog(tmp_path, segment_bytes=4096) as log, Intake(log, CLOCK, memory=tmp_path / MEMORY_FILE) as intake:
        intake.define(TABLE)
        for start in range(1, 2000, 100):
            intake.take([arrival(list(range(start, start + 100)))])
        assert intake.drop_before(log.end) > 0
    with LocalLog(tmp_path) as log:
        intake = Intake(log, CLOCK, memory=tmp_path / MEMORY_FILE)
        assert intake.take([arrival(list(range(1, 2001)))]).repeats == 2000
        assert intake.blind_before == 0
        (tmp_path / MEMORY_FILE).write_bytes(b"rubbish")
    with LocalLog(tmp_path) as log:
        assert Intake(log, CLOCK, memory=tmp_path / MEMORY_FILE).blind_before == log.start > 0


def test_a_memory_of_another_history_is_put_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = tmp_path / "memory"
    with LocalLog(tmp_path / "a") as log, Intake(log, CLOCK, memory=memory) as intake:
        intake.define(TABLE)
        intake.take([arrival([1, 2, 4])])
    with LocalLog(tmp_path / "b") as log:
        other = Intake(log, CLOCK)
        other.define(TABLE)
        other.take([arrival([1, 5, 7, 8])])
        assert not caplog.messages
        intake = Intake(log, CLOCK, memory=memory)
        assert len(caplog.messages) == 1
        assert "another history" in caplog.messages[0]
        assert (memory.exists(), memory.with_name("memory.aside").exists()) == (False, True)
        receipt = intake.take([arrival([1, 2, 4])])
        assert (receipt.accepted, receipt.repeats) == (2, 1), "what the other history took is no repeat"


def test_a_memory_survives_a_restart_on_its_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(1, 4):
        with LocalLog(tmp_path) as log, Intake(log, CLOCK, memory=tmp_path / MEMORY_FILE) as intake:
            intake.define(TABLE)
            assert intake.take([arrival([1])]).repeats == (number > 1)
    with LocalLog(tmp_path / "empty") as log:
        Intake(log, CLOCK, memory=tmp_path / "empty" / MEMORY_FILE).save()
    with LocalLog(tmp_path / "empty") as log:
        Intake(log, CLOCK, memory=tmp_path / "empty" / MEMORY_FILE)
    assert not caplog.messages


def test_tables_and_files_of_one_name_do_not_share_their_numbers(tmp_path: Path) -> None:
    other = TableSchema("other", TABLE.columns, key=("item",))
    with LocalLog(tmp_path) as log, Intake(log, CLOCK, memory=tmp_path / MEMORY_FILE) as intake:
        intake.define(TABLE)
        intake.define(other)
        assert intake.take([arrival([1, 2])]).accepted == 2
        assert intake.take([replace(arrival([1, 2]), table="other")]).accepted == 2
        log.append([TableDropped("items")])
        intake.define(TABLE)
        assert intake.take([arrival([1, 2])]).accepted == 2, "the new table has taken nothing yet"
    with LocalLog(tmp_path) as log:
        assert Intake(log, CLOCK, memory=tmp_path / MEMORY_FILE).take([arrival([1, 2])]).repeats == 2


class InterruptedLog(MemoryLog):
    """A log during whose append Ctrl-C is pressed, just after the rows became durable."""

    pressed = False

    def append(self, records: Sequence[Record]) -> Position:
        position = super().append(records)
        if self.pressed:
            raise KeyboardInterrupt
        return position


def test_an_interrupt_after_the_append_repeats_nothing(tmp_path: Path) -> None:
    log = InterruptedLog()
    intake = Intake(log, CLOCK, memory=tmp_path / "memory")
    intake.define(TABLE)
    log.pressed = True
    with pytest.raises(KeyboardInterrupt):
        intake.take([arrival([1, 2])])
    log.pressed = False
    intake.save()
    assert intake.take([arrival([1, 2])]).repeats == 2
    assert Intake(log, CLOCK, memory=tmp_path / "memory").take([arrival([1, 2])]).repeats == 2


def test_a_damaged_memory_is_as_good_as_none(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    with LocalLog(tmp_path / "log") as log:
        with Intake(log, CLOCK, memory=memory) as intake:
            intake.define(TABLE)
            intake.take([arrival(list(range(1, 101)))])
        whole = memory.read_bytes()
        for place in range(len(whole)):
            memory.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
            again = Intake(log, CLOCK, memory=memory)
            assert again.take([arrival([1, 100])]).repeats == 2
        memory.write_bytes(whole[:-1] + bytes([whole[-1] ^ 0x10]))
        assert Intake(log, CLOCK, memory=memory).take([arrival([101, 103])]).accepted == 2


def former_memory(position: int, ranges: list[tuple[int, int]], recent: list[int]) -> bytes:
    """The file of a version that knew neither place nor log clock nor floor."""
    source = {"table": "items", "source": "s", "ranges": ranges, "recent": recent}
    content = msgspec.msgpack.encode({"format": 2, "position": position, "sources": [source]})
    return zlib.crc32(content).to_bytes(4, "little") + content


def test_a_memory_of_a_former_version_is_of_use_where_the_log_has_not_all(tmp_path: Path) -> None:
    store, memory = MemoryStore(), tmp_path / "memory"
    with MemoryLog(store) as log, Intake(log, CLOCK) as intake:
        intake.define(TABLE)
        intake.take([arrival([1, 2, 4])])
        intake.take([arrival([5])])
    store.lineage = Lineage()  # as a former version left it
    # Numbers 7 to 9 were given up in silence by that version: the log knows that they never came.
    memory.write_bytes(former_memory(4, [(1, 9)], []))
    with MemoryLog(store) as log:
        assert Intake(log, CLOCK, memory=memory).take([arrival([1, 7])]).accepted == 1
        log.drop_before(Position(4))
        start = log.start
    store.lineage = Lineage()
    memory.write_bytes(former_memory(4, [(1, 2), (4, 4)], []))
    with MemoryLog(store) as log:
        intake = Intake(log, CLOCK, memory=memory)
        receipt = intake.take([arrival([1, 2, 4, 5, 7, 8])])
        assert start > 0
        assert (intake.blind_before, receipt.repeats, receipt.accepted) == (0, 5, 1)


def test_a_row_outside_the_window_is_not_remembered_as_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after a restart either: its refusal in the log is no trace of its having been taken."""
    monkeypatch.setattr("slackwater.admission.deduplication.MOST_RANGES", 2)
    log = MemoryLog()
    intake = Intake(log, CLOCK)
    intake.define(TABLE)
    intake.take([arrival([1, 11, 22, 31])])
    refused = intake.take([arrival([5])])
    assert (refused.quarantined, refused.promised.outside_window, refused.promised.known_from) == (1, 1, 22)
    monkeypatch.setattr("slackwater.admission.deduplication.MOST_RANGES", 9)
    again = Intake(log, CLOCK).take([arrival([5, 31])])
    assert (again.accepted, again.repeats) == (1, 1)


def test_the_floor_is_kept_in_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.admission.deduplication.MOST_RANGES", 2)
    with LocalLog(tmp_path) as log, Intake(log, CLOCK, memory=tmp_path / MEMORY_FILE) as intake:
        intake.define(TABLE)
        assert intake.take([arrival([1, 11, 22, 31])]).given_up == 19
    with LocalLog(tmp_path) as log:
        receipt = Intake(log, CLOCK, memory=tmp_path / MEMORY_FILE).take([arrival([1, 5, 22])])
        assert (receipt.repeats, receipt.promised.outside_window) == (1, 2)


def requests_at_random(random: Random) -> list[RowsRequest]:
    """Requests that wait together: of few sources and layouts, some under keys, some with faults and repeats."""
    made = []
    for nth in range(random.randint(1, 7)):
        first, rows = random.choice([100 * nth, 100 * nth, 5]), random.randint(1, 3)
        columns: dict[str, pa.Array] = {
            "item": pa.array([f"i{random.randrange(3)}" for _ in range(rows)]),
            "value": pa.array([1.5] * rows),
        }
        if random.random() < 0.7:
            columns["$seq"] = pa.array(range(first, first + rows), pa.int64())
        if random.random() < 0.1:
            columns["value"] = pa.array(["bad"] * rows)
        batch = pa.RecordBatch.from_pydict(columns)
        name = random.choice(["items", "items", "items", "others"] + ["missing"] * (random.random() < 0.1))
        one = Arrival(name, random.choice("ab"), batch, "test")
        arrivals = [one, replace(one, batch=batch.slice(0, 1))] if "$seq" not in columns else [one]
        key = RequestKey(random.choice("kl"), b"content") if random.random() < 0.15 else None
        made.append(RowsRequest([] if random.random() < 0.05 else arrivals, key))
    return made


def rows_of(log: Log) -> list[tuple[str, str, dict[str, object]]]:
    """All rows, as records of one row each."""
    return [
        (type(entry.record).__name__, entry.record.table, row)
        for entry in log.read(log.start)
        if isinstance(entry.record, Updates | Quarantined)
        for row in entry.record.batch.to_pylist()
    ]


def test_requests_taken_together_are_what_they_are_one_after_the_other() -> None:
    shared = 0
    for seed in range(300):
        together, alone = MemoryLog(), MemoryLog()
        intakes = Intake(together, CLOCK), Intake(alone, CLOCK)
        for intake in intakes:
            intake.define(TABLE)
            intake.define(replace(TABLE, name="others"))
        random = Random(seed)
        for _ in range(2):
            requests = requests_at_random(random)
            outcomes = intakes[0].take_all(requests)
            expected: list[IntakeReceipt | Exception] = []
            for request in requests:
                try:
                    expected.append(intakes[1].take(request.arrivals, request.key))
                except SlackwaterError as error:
                    expected.append(error)
            assert [str(one) for one in outcomes] == [str(one) for one in expected], seed
            assert rows_of(together) == rows_of(alone), seed
        shared += len(list(together.read(Position(0)))) < len(list(alone.read(Position(0))))
        memories = [memory_of(intake) for intake in intakes]
        assert memories[0] == memories[1]
        # A crash forgets nothing: the memory that the log gives is that of the intake.
        assert memory_of(Intake(together, CLOCK)) == memories[0]
    assert shared > 100


def test_requests_that_nothing_can_take_leave_their_neighbours_alone() -> None:
    dated = TableSchema(
        "dated", (Column("id", DataType.BIGINT, nullable=False), Column("at", DataType.TIMESTAMP)), ("id",), "at"
    )

    def request(key: int, **more: pa.Array) -> RowsRequest:
        columns = {"id": pa.array([key], pa.int64()), "at": pa.array(["2023-03-01T12:00:00Z"]), **more}
        return RowsRequest([Arrival("dated", "s", pa.RecordBatch.from_pydict(columns), "test")])

    log = MemoryLog()
    intake = Intake(log, CLOCK)
    intake.define(dated)
    nowhere = pa.array([1], pa.timestamp("us", tz="Nowhere/Nothing"))
    outcomes = intake.take_all([request(1), request(2), request(3, x=nowhere), request(4, x=nowhere)])
    kinds = [isinstance(one, IntakeReceipt) for one in outcomes]
    assert kinds == [True, True, False, False]
    entries = [entry.record for entry in log.read(Position(0)) if isinstance(entry.record, Updates)]
    assert [key for record in entries for key in record.batch.column("id").to_pylist()] == [1, 2]


def memory_of(intake: Intake) -> bytes:
    memory = intake._memory
    memory.place = Place(1, Position(0))
    return encode(
        replace(memory, seen=dict(sorted(memory.seen.items())), requests=dict(sorted(memory.requests.items())))
    )
