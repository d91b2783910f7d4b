"""The promises of `slackwater.log.base`, one by one, for every log there is.

A new implementation joins by a world of its own in `WORLDS`, or in `STREAM_WORLDS` where it needs a server.
"""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import nats
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from nats.js.errors import NotFoundError

from slackwater.core import (
    Column,
    DataType,
    Instant,
    LogCorrupt,
    LogError,
    LogLocked,
    Origin,
    Position,
    PositionGone,
    SchemaError,
    TableSchema,
    Update,
)
from slackwater.core.arrival import RequestKey
from slackwater.core.arrow import QUARANTINE, from_batch, to_batch
from slackwater.core.lineage import Place
from slackwater.log import (
    Entry,
    LocalLog,
    Log,
    Quarantined,
    Record,
    Registered,
    TableDefined,
    TableDropped,
    TimePassed,
    Unregistered,
    Updates,
)
from slackwater.log.jetstream import JetStreamLog
from slackwater.log.memory import MemoryLog, MemoryStore

QUOTES = TableSchema(
    "quotes",
    (Column("symbol", DataType.TEXT, nullable=False), Column("price", DataType.DOUBLE)),
    key=("symbol",),
)
WIDER = QUOTES.with_column(Column("volume", DataType.BIGINT))


def updates(first: int, rows: int) -> Updates:
    """Updates whose sequences say which they are."""
    return Updates(
        "quotes",
        to_batch(
            QUOTES,
            [
                Update("quotes", (f"S{n % 7}", n / 2), Instant(1_000_000 + n), Origin("test", n))
                for n in range(first, first + rows)
            ],
        ),
    )


def quarantined(rows: int) -> Quarantined:
    row = {"row": "{}", "reason": "null_key", "detail": "…", "place": "line 3", "at": 5, "$source": "t", "$seq": None}
    return Quarantined("quotes", pa.RecordBatch.from_pylist([row] * rows, schema=QUARANTINE))


def sequences(log: Log, start: int | None = None, end: int | None = None) -> list[int]:
    """What the updates in the log say which they are."""
    entries = log.read(log.start if start is None else Position(start), None if end is None else Position(end))
    return [
        update.origin.sequence
        for entry in entries
        if isinstance(entry.record, Updates)
        for update in from_batch(QUOTES, entry.record.batch)
    ]


class World(Protocol):
    """A place where one log lives."""

    def open(self, *, read_only: bool = False) -> Log: ...

    def damage(self, position: int) -> None:
        """Change stored bytes of the record at a position, in a log that is not open."""
        ...

    def copy(self) -> Callable[[], None]:
        """Copy a log that is not open; what comes back puts the copy in its place."""
        ...


class MemoryWorld:
    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore()

    def open(self, *, read_only: bool = False) -> Log:
        return MemoryLog(self.store, read_only=read_only)

    def damage(self, position: int) -> None:
        for kept in self.store.kept:
            if kept.stored.first <= position < kept.end:
                body = bytearray(kept.stored.body)
                body[-20] ^= 1  # a value, not the description of the columns
                object.__setattr__(kept.stored, "body", bytes(body))

    def copy(self) -> Callable[[], None]:
        store = self.store
        there = (list(store.kept), store.start, store.end, store.dropped, store.catalog, store.lineage)

        def restore() -> None:
            kept, store.start, store.end, store.dropped, store.catalog, store.lineage = there
            store.kept[:] = kept

        return restore


class LocalWorld:
    def __init__(self, folder: Path, segment_bytes: int = 4096) -> None:
        self.folder = folder
        self.segment_bytes = segment_bytes

    def open(self, *, read_only: bool = False) -> Log:
        return LocalLog(self.folder, read_only=read_only, segment_bytes=self.segment_bytes)

    def damage(self, position: int) -> None:
        file = max(file for file in self.folder.glob("*.segment") if int(file.name[:20]) <= position)
        content = bytearray(file.read_bytes())
        for at in _occurrences(content, b"SWfr"):
            first = int.from_bytes(content[at + 16 : at + 24], "little")
            rows = int.from_bytes(content[at + 48 : at + 52], "little")
            if first <= position < first + rows:
                content[at + 64 + int.from_bytes(content[at + 8 : at + 12], "little") - 20] ^= 1
        file.write_bytes(content)

    def copy(self) -> Callable[[], None]:
        copied = {path.name: path.read_bytes() for path in self.folder.iterdir()}

        def restore() -> None:
            for path in self.folder.iterdir():
                path.unlink()
            for name, content in copied.items():
                (self.folder / name).write_bytes(content)

        return restore


class JetStreamWorld:
    """A stream of its own on the server of the test run."""

    numbers = itertools.count(1)

    def __init__(self, url: str, piece_bytes: int | None = None) -> None:
        self.name = f"world-{next(self.numbers)}"
        self.url = url
        self.piece_bytes = piece_bytes

    def open(self, *, read_only: bool = False) -> Log:
        return JetStreamLog(f"{self.url}/{self.name}", read_only=read_only, piece_bytes=self.piece_bytes)

    def damage(self, position: int) -> None:
        """Write all messages anew, one of them changed: a stream keeps no way to change what it holds."""

        async def rewrite() -> None:
            client = await nats.connect(self.url)
            stream = client.jetstream()
            last = (await stream.stream_info(self.name)).state.last_seq
            held = [await stream.get_msg(self.name, seq) for seq in range(1, last + 1)]
            await stream.purge_stream(self.name)
            for message in held:
                payload, subject = bytearray(message.data or b""), message.subject or ""
                if payload.startswith(b"SWjs"):
                    first, rows = (int.from_bytes(payload[at : at + size], "little") for at, size in ((8, 8), (24, 4)))
                    number = int.from_bytes(payload[28:32], "little")
                    if first <= position < first + rows and number == 0:
                        payload[-20] ^= 1
                await stream.publish(subject, bytes(payload))
            await client.close()

        asyncio.run(rewrite())

    def copy(self) -> Callable[[], None]:
        held: list[tuple[str, bytes]] = []

        async def read() -> None:
            client = await nats.connect(self.url)
            stream = client.jetstream()
            state = (await stream.stream_info(self.name)).state
            for number in range(state.first_seq, state.last_seq + 1):
                with suppress(NotFoundError):
                    message = await stream.get_msg(self.name, number)
                    held.append((message.subject or "", message.data or b""))
            await client.close()

        async def write() -> None:
            client = await nats.connect(self.url)
            stream = client.jetstream()
            configuration = (await stream.stream_info(self.name)).config
            await stream.delete_stream(self.name)
            await stream.delete_stream(f"{self.name}-mark")
            await stream.add_stream(configuration)
            for subject, payload in held:
                await stream.publish(subject, payload)
            await client.close()

        asyncio.run(read())
        return lambda: asyncio.run(write())


def _occurrences(content: bytearray, what: bytes) -> Iterator[int]:
    at = content.find(what)
    while at >= 0:
        yield at
        at = content.find(what, at + 1)


WORLDS: dict[str, Callable[[Path], World]] = {
    "memory": MemoryWorld,
    "local": LocalWorld,
    "local, a record to a segment": lambda folder: LocalWorld(folder, segment_bytes=1),
}
STREAM_WORLDS: dict[str, Callable[[str], World]] = {
    "jetstream": JetStreamWorld,
    "jetstream, a record in many pieces": lambda url: JetStreamWorld(url, piece_bytes=250),
}


@pytest.fixture(params=[*WORLDS, *STREAM_WORLDS])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    if request.param in STREAM_WORLDS:
        return STREAM_WORLDS[request.param](request.getfixturevalue("nats_server").url)
    return WORLDS[request.param](tmp_path / "log")


# 1. Positions


def test_an_empty_log_starts_and_ends_at_zero(world: World) -> None:
    with world.open() as log:
        assert (log.start, log.end) == (0, 0)
        assert list(log.read(Position(0))) == []


def test_a_batch_occupies_a_position_for_each_row_and_anything_else_one(world: World) -> None:
    with world.open() as log:
        assert log.append([TableDefined(QUOTES), updates(0, 5), quarantined(3), TableDropped("quotes")]) == 10
        entries = list(log.read(Position(0)))
        assert [(entry.first, entry.end) for entry in entries] == [(0, 1), (1, 6), (6, 9), (9, 10)]
        kinds = [TableDefined, Updates, Quarantined, TableDropped]
        assert [type(entry.record) for entry in entries] == kinds


def test_queries_and_time_come_back_as_they_were(world: World) -> None:
    records: list[Record] = [
        Registered("quotes", "SELECT SUM(price) FROM quotes WITHIN 5", "ann", "total"),
        Registered("quotes", "SELECT SUM(price) FROM quotes WITHIN 4", "ann", "total", number=0, epoch=1),
        TimePassed(Instant(17)),
        Unregistered("quotes", 0),
    ]
    with world.open() as log:
        assert log.append(records) == 4
        assert [entry.record for entry in log.read(Position(0))] == records


def test_positions_have_no_holes_over_many_appends_and_openings(world: World) -> None:
    for n in range(12):
        with world.open() as log:
            log.append([updates(n * 10, 10)])
    with world.open() as log:
        entries = list(log.read(Position(0)))
    assert [entry.first for entry in entries] == list(range(0, 120, 10))


def test_an_empty_append_changes_nothing_and_an_empty_batch_is_refused(world: World) -> None:
    with world.open() as log:
        log.append([updates(0, 3)])
        assert log.append([]) == 3
        with pytest.raises(LogError, match="empty batch"):
            log.append([updates(3, 1), updates(4, 0)])
        assert log.end == 3


# 2. Durable before acknowledged


def test_what_was_acknowledged_is_there_after_opening_again(world: World) -> None:
    with world.open() as log:
        end = log.append([TableDefined(QUOTES), updates(0, 100), quarantined(2)])
        before = [repr(entry.record) for entry in log.read(Position(0))]
    with world.open() as log:
        assert log.end == end
        assert [repr(entry.record) for entry in log.read(Position(0))] == before
        assert sequences(log) == list(range(100))


def test_a_reader_sees_what_was_acknowledged_at_once(world: World) -> None:
    with world.open() as log, world.open(read_only=True) as reader:
        for n in range(20):
            end = log.append([updates(n, 1)])
            assert reader.end == end
            assert sequences(reader, n) == [n]


def test_records_come_back_as_they_went_in(world: World) -> None:
    records: list[Record] = [TableDefined(QUOTES), updates(0, 9), quarantined(2), TableDropped("quotes")]
    with world.open() as log:
        log.append(records)
        for entry, record in zip(log.read(Position(0)), records, strict=True):
            match entry.record, record:
                case (Updates(table, batch), Updates(was_table, was)) | (
                    Quarantined(table, batch),
                    Quarantined(was_table, was),
                ):
                    assert (table, batch.schema) == (was_table, was.schema)
                    assert batch.equals(was)
                case got, expected:
                    assert got == expected


def test_batches_keep_their_moment_of_admission_and_key_also_where_they_are_cut(world: World) -> None:
    request = RequestKey("order 7", b"digest")
    with world.open() as log:
        log.append([TableDefined(QUOTES), updates(0, 3)])
        log.append([replace(quarantined(2), admitted=Instant(7)), replace(updates(3, 4), admitted=Instant(8))])
        log.append([replace(updates(7, 2), admitted=Instant(9), request=request)])
    with world.open(read_only=True) as log:
        for start in (Position(1), Position(2)):
            batches = [one.record for one in log.read(start) if isinstance(one.record, Updates | Quarantined)]
            assert [one.admitted for one in batches] == [None, 7, 8, 9]
            assert [one.request for one in batches] == [None, None, None, request]


# 3. Atomic in order


def test_the_records_of_one_append_are_contiguous_also_among_threads(world: World) -> None:
    def appender(log: Log, thread: int) -> None:
        for n in range(15):
            number = thread * 1000 + n * 10
            log.append([updates(number, 2), updates(number + 2, 3)])

    with world.open() as log:
        threads = [threading.Thread(target=appender, args=(log, thread)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert log.end == 4 * 15 * 5
        seen = sequences(log)
    appends = [seen[at : at + 5] for at in range(0, len(seen), 5)]
    assert all(one == list(range(one[0], one[0] + 5)) for one in appends)
    for thread_number in range(4):
        numbers = [one[0] for one in appends if one[0] // 1000 == thread_number]
        assert numbers == [thread_number * 1000 + n * 10 for n in range(15)]


# 4. Reading


def test_reading_cuts_batches_at_both_ends(world: World) -> None:
    with world.open() as log:
        for n in range(0, 40, 8):
            log.append([updates(n, 8)])
        for start, end in itertools.combinations_with_replacement(range(41), 2):
            assert sequences(log, start, end) == list(range(start, end))
        entry = next(log.read(Position(11)))
        assert (entry.first, entry.end) == (11, 16)


def test_a_log_may_grow_while_it_is_read(world: World) -> None:
    with world.open() as log:
        for n in range(0, 100, 10):
            log.append([updates(n, 10)])
        reading = log.read(Position(0))
        first = next(reading)
        for n in range(100, 200, 10):
            log.append([updates(n, 10)])
        rest = list(reading)
        assert first.first == 0
        assert rest[-1].end == 100
        assert sequences(log) == list(range(200))


def test_reading_outside_is_refused_at_once(world: World) -> None:
    with world.open() as log:
        log.append([updates(0, 5)])
        with pytest.raises(PositionGone, match="not written yet"):
            log.read(Position(6))
        with pytest.raises(PositionGone, match="not written yet"):
            log.read(Position(0), Position(6))
        with pytest.raises(PositionGone):
            log.read(Position(-1))
        with pytest.raises(LogError, match="back to"):
            log.read(Position(3), Position(2))
        assert list(log.read(Position(5))) == []


# 5. Retention


def test_dropping_forgets_only_what_lies_wholly_before(world: World) -> None:
    with world.open() as log:
        for n in range(0, 200, 10):
            log.append([updates(n, 10)])
        start = log.drop_before(Position(105))
        assert 0 < start <= 105
        assert log.start == start
        assert sequences(log) == list(range(start, 200))
        with pytest.raises(PositionGone, match="no longer"):
            log.read(Position(start - 1))
        assert log.drop_before(Position(0)) == start
        with pytest.raises(PositionGone):
            log.drop_before(Position(201))


def test_the_end_never_moves_back_when_everything_is_dropped(world: World) -> None:
    with world.open() as log:
        log.append([updates(0, 30)])
        assert log.drop_before(Position(30)) == 30
        assert (log.start, log.end) == (30, 30)
    with world.open() as log:
        assert (log.start, log.end) == (30, 30)
        assert log.drop_before(Position(30)) == 30
        assert log.append([updates(30, 2)]) == 32
        assert sequences(log) == [30, 31]


# 6. Damage


def test_damage_is_never_read_as_data(world: World) -> None:
    with world.open() as log:
        for n in range(0, 60, 10):
            log.append([updates(n, 10)])
    world.damage(25)

    def read_on() -> None:
        with world.open(read_only=True) as log:
            found.extend(n for start in range(0, 60, 10) for n in sequences(log, start, start + 10))

    found: list[int] = []
    with pytest.raises(LogCorrupt):
        read_on()
    assert found == [n for n in found if n < 20]


# 7. One writer


def test_a_second_writer_is_refused_while_the_first_lives(world: World) -> None:
    with world.open() as log:
        log.append([updates(0, 1)])
        with pytest.raises(LogLocked):
            world.open()
        log.append([updates(1, 1)])
    with world.open() as log:
        assert sequences(log) == [0, 1]


def test_readers_are_never_refused_and_cannot_write(world: World) -> None:
    with world.open() as log:
        log.append([updates(0, 3)])
        with world.open(read_only=True) as one, world.open(read_only=True) as other:
            assert sequences(one) == sequences(other) == [0, 1, 2]
            with pytest.raises(LogError, match="read_only"):
                one.append([updates(3, 1)])
            with pytest.raises(LogError, match="read_only"):
                one.drop_before(Position(1))
        log.append([updates(3, 1)])


# 9. Lineage


def test_each_opening_for_writing_begins_an_incarnation_where_the_log_ends(world: World) -> None:
    with world.open() as log:
        first = log.lineage.current
        log.append([TableDefined(QUOTES), updates(0, 9)])
        with world.open(read_only=True) as reader:
            assert reader.lineage == log.lineage
    with world.open() as log, world.open(read_only=True) as reader:
        second = log.lineage.current
        log.append([updates(9, 5)])
        assert [(one.number, one.start) for one in log.lineage.incarnations] == [(first, 0), (second, 10)]
        assert reader.lineage == log.lineage
        assert log.drop_before(Position(15)) == 15
        assert reader.lineage == log.lineage
    with world.open() as log:
        assert [one.number for one in log.lineage.incarnations[:2]] == [first, second]
        assert log.lineage.place(Position(12)) == Place(second, Position(12))


def test_openings_without_records_are_listed_and_places_name_the_one_with_records(world: World) -> None:
    for _ in range(3):
        with world.open() as log:
            pass
    with world.open() as log:
        writer = log.lineage.current
        log.append([updates(0, 3)])
    for opened in range(1, 4):
        with world.open() as log, world.open(read_only=True) as reader:
            assert len(log.lineage.incarnations) == 4 + opened
            assert reader.lineage == log.lineage
            assert log.lineage.place(log.end) == Place(writer, Position(3))
            present = Place(log.lineage.current, Position(3))
    with world.open() as log:
        assert log.lineage.kept(present) == 3, "what was served in an opening that wrote nothing is of this history"


@pytest.mark.parametrize("appended", [0, 3, 10, 20])
def test_a_log_restored_from_a_copy_is_another_history_from_there_on(world: World, appended: int) -> None:
    with world.open() as log:
        log.append([updates(0, 10)])
    restore = world.copy()
    with world.open(read_only=True) as reader:
        with world.open() as log:
            log.append([updates(10, 10)])
            lost = [log.lineage.place(Position(position)) for position in range(11, 21)]
            shared = [log.lineage.place(Position(position)) for position in range(11)]
            assert all(log.lineage.holds(place, log.end) for place in (*shared, *lost))
        assert reader.end == 20
        restore()
        with world.open() as log:
            if appended:
                log.append([updates(1_000, appended)])
            for seen in (log, reader):
                assert seen.end == 10 + appended
                assert all(seen.lineage.holds(place, seen.end) for place in shared)
                assert not any(seen.lineage.holds(place, seen.end) for place in lost)
                assert sequences(seen) == [*range(10), *range(1_000, 1_000 + appended)]


def test_a_closed_log_refuses_everything(world: World) -> None:
    log = world.open()
    log.close()
    log.close()
    for use in (lambda: log.append([updates(0, 1)]), lambda: log.read(Position(0)), lambda: log.end):
        with pytest.raises(LogError, match="closed"):
            use()


# 8. Catalog


def test_the_catalog_is_known_at_every_position(world: World) -> None:
    with world.open() as log:
        log.append([updates(0, 4)])
        log.append([TableDefined(QUOTES), updates(4, 3)])
        log.append([TableDefined(WIDER)])
        log.append([updates(7, 30)])
        log.append([TableDropped("quotes")])
        at = [log.catalog(Position(n)).tables for n in range(log.end + 1)]
        assert at == [()] * 5 + [(QUOTES,)] * 4 + [(WIDER,)] * 31 + [()]
        assert log.catalog().tables == ()
        with pytest.raises(PositionGone):
            log.catalog(Position(log.end + 1))


def test_the_catalog_outlives_the_records_that_made_it(world: World) -> None:
    other = TableSchema("other", QUOTES.columns, key=("symbol",))
    with world.open() as log:
        log.append([TableDefined(QUOTES), TableDefined(other), TableDropped("other"), TableDefined(WIDER)])
        for n in range(0, 300, 20):
            log.append([updates(n, 20)])
        log.drop_before(log.end)
        assert log.catalog().tables == (WIDER,)
    for read_only in (False, True):
        with world.open(read_only=read_only) as log:
            assert log.catalog().tables == (WIDER,)
            assert log.catalog(log.start).tables == (WIDER,)


def test_a_change_of_schema_that_is_not_allowed_is_refused_whole(world: World) -> None:
    narrower = TableSchema("quotes", QUOTES.columns[:1], key=("symbol",))
    with world.open() as log:
        log.append([TableDefined(QUOTES)])
        with pytest.raises(SchemaError, match="added at the end"):
            log.append([updates(0, 5), TableDefined(narrower)])
        with pytest.raises(SchemaError, match="no table bonds"):
            log.append([TableDropped("bonds")])
        assert log.end == 1
        assert log.append([TableDropped("quotes"), TableDefined(narrower)]) == 3
        assert log.catalog().tables == (narrower,)


# All of it together, against a list


class LogMachine(RuleBasedStateMachine):
    """A local log with tiny segments and a list of numbered positions must never differ."""

    @initialize(segment_bytes=st.sampled_from([1, 3000, 20_000]))
    def begin(self, segment_bytes: int) -> None:
        self.folder = Path(self.new_folder())
        self.segment_bytes = segment_bytes
        self.model: list[str] = []
        self.start = 0
        self.tables: list[tuple[TableSchema, ...]] = [()]
        self.log = LocalLog(self.folder, segment_bytes=segment_bytes)
        self.reader = LocalLog(self.folder, read_only=True)

    new_folder: Callable[[], str]

    def _appended(self, record: Record) -> None:
        match record:
            case Updates(_, batch):
                numbers = batch.column("$seq").to_pylist()
                self.model += [f"update {number}" for number in numbers]
                self.tables += [self.tables[-1]] * len(numbers)
            case Quarantined(_, batch):
                self.model += ["quarantined"] * batch.num_rows
                self.tables += [self.tables[-1]] * batch.num_rows
            case TableDefined(schema):
                self.model.append(f"table {len(schema.columns)}")
                self.tables.append((schema,))
            case TableDropped():
                self.model.append("dropped")
                self.tables.append(())

    def _found(self, entry: Entry) -> list[str]:
        match entry.record:
            case Updates(_, batch):
                return [f"update {number}" for number in batch.column("$seq").to_pylist()]
            case Quarantined(_, batch):
                return ["quarantined"] * int(batch.num_rows)
            case TableDefined(schema):
                return [f"table {len(schema.columns)}"]
            case TableDropped():
                return ["dropped"]
            case _:
                raise AssertionError(f"never appended: {entry.record}")

    @rule(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4))
    def append_updates(self, sizes: list[int]) -> None:
        records: list[Record] = []
        number = len(self.model)
        for size in sizes:
            records.append(updates(number, size))
            number += size
        assert self.log.append(records) == number
        for record in records:
            self._appended(record)

    @rule(rows=st.integers(1, 3))
    def append_quarantined(self, rows: int) -> None:
        record = quarantined(rows)
        self.log.append([record])
        self._appended(record)

    @rule(wide=st.booleans())
    def define(self, wide: bool) -> None:
        record = TableDefined(WIDER if wide else QUOTES)
        if self.tables[-1] == (WIDER,) and not wide:
            with pytest.raises(SchemaError):
                self.log.append([record])
        else:
            self.log.append([record])
            self._appended(record)

    @precondition(lambda self: self.tables[-1])
    @rule()
    def drop_table(self) -> None:
        record = TableDropped("quotes")
        self.log.append([record])
        self._appended(record)

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = LocalLog(self.folder, segment_bytes=self.segment_bytes)
        assert self.log.recovered_bytes == 0

    @rule(rows=st.integers(1, 20), share=st.floats(0, 1), zeros=st.integers(0, 5000))
    def crash_in_the_middle_of_a_write(self, rows: int, share: float, zeros: int) -> None:
        """A write that a crash cut short leaves part of a record, perhaps with zeros behind it."""
        self.log.close()
        mark = (self.folder / "durable").read_bytes()
        with LocalLog(self.folder, segment_bytes=1 << 30) as log:
            last = max(self.folder.glob("*.segment"))
            before = last.stat().st_size
            log.append([updates(len(self.model), rows)])
        whole = last.stat().st_size
        # The last four bytes of a record are zeros anyway: cutting only those and adding zeros would change nothing.
        kept = before + int((whole - before - 8) * share)
        with last.open("r+b") as file:
            file.truncate(kept)
            file.truncate(kept + zeros)
        (self.folder / "durable").write_bytes(mark)
        self.log = LocalLog(self.folder, segment_bytes=self.segment_bytes)
        assert self.log.recovered_bytes == kept + zeros - before

    @rule(share=st.floats(0, 1))
    def drop(self, share: float) -> None:
        position = int(len(self.model) * share)
        start = self.log.drop_before(Position(position))
        assert self.start <= start <= max(self.start, position)
        self.start = start

    @rule(one=st.floats(0, 1), other=st.floats(0, 1), reader=st.booleans())
    def read_some(self, one: float, other: float, reader: bool) -> None:
        low, high = sorted((one, other))
        length = len(self.model) - self.start
        start, end = self.start + int(length * low), self.start + int(length * high)
        log = self.reader if reader else self.log
        assert log.end == len(self.model)
        found = [name for entry in log.read(Position(start), Position(end)) for name in self._found(entry)]
        assert found == self.model[start:end]
        assert log.catalog(Position(start)).tables == self.tables[start]

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "log"):
            return
        for log in (self.log, self.reader):
            assert (log.start, log.end) == (self.start, len(self.model))
            assert log.catalog().tables == self.tables[-1]

    def teardown(self) -> None:
        if hasattr(self, "log"):
            found = [name for entry in self.log.read(self.log.start) for name in self._found(entry)]
            assert found == self.model[self.start :]
            self.log.close()
            self.reader.close()


def _run_machine(tmp_path_factory: pytest.TempPathFactory, examples: int, steps: int) -> None:
    class Machine(LogMachine):
        @staticmethod
        def new_folder() -> str:
            return str(tmp_path_factory.mktemp("log"))

    case = Machine.TestCase
    case.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    case("runTest").runTest()


def test_a_local_log_and_a_list_never_differ(tmp_path_factory: pytest.TempPathFactory) -> None:
    _run_machine(tmp_path_factory, examples=100, steps=25)


@pytest.mark.slow
def test_a_local_log_and_a_list_never_differ_at_length(tmp_path_factory: pytest.TempPathFactory) -> None:
    _run_machine(tmp_path_factory, examples=1000, steps=60)
