"""What is particular to a log in a folder: files, following, locking, groups."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.core import (
    Column,
    DataType,
    Instant,
    LogError,
    LogLocked,
    Origin,
    Position,
    PositionGone,
    TableSchema,
    Update,
    disk,
)
from slackwater.core.arrow import to_batch
from slackwater.log import LocalLog, Log, TableDefined, Updates, writer

QUOTES = TableSchema("quotes", (Column("symbol", DataType.TEXT, nullable=False),), key=("symbol",))


def updates(first: int, rows: int) -> Updates:
    numbers = range(first, first + rows)
    return Updates(
        "quotes", to_batch(QUOTES, [Update("quotes", (f"S{n}",), Instant(n), Origin("test", n)) for n in numbers])
    )


def sequences(log: Log, start: int = 0) -> list[int]:
    found: list[int] = []
    for entry in log.read(Position(max(start, log.start))):
        assert isinstance(entry.record, Updates)
        found += entry.record.batch.column("$seq").to_pylist()
    return found


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("*.segment"))


def test_segments_are_called_after_their_first_position(tmp_path: Path) -> None:
    with LocalLog(tmp_path / "a" / "b", segment_bytes=1) as log:
        for n in range(0, 30, 10):
            log.append([updates(n, 10)])
    assert files(tmp_path / "a" / "b") == [f"{n:020d}.segment" for n in (0, 10, 20)]


def test_the_records_of_one_append_share_a_segment(tmp_path: Path) -> None:
    with LocalLog(tmp_path, segment_bytes=2000) as log:
        log.append([updates(0, 10)])
        log.append([updates(n, 10) for n in range(10, 100, 10)])
        log.append([updates(100, 10)])
    assert files(tmp_path) == [f"{n:020d}.segment" for n in (0, 10, 100)]


def test_any_position_is_found_in_any_segment(tmp_path: Path) -> None:
    with LocalLog(tmp_path, segment_bytes=5000) as log:
        n = 0
        for rows in [1, 7, 3, 50, 2] * 12:
            log.append([updates(n, rows)])
            n += rows
        assert len(files(tmp_path)) > 10  # more than the indexes that are kept
        for start in [*range(0, n, 5), *reversed(range(0, n, 7))]:
            entry = next(log.read(Position(start)))
            assert isinstance(entry.record, Updates)
            assert (entry.first, entry.record.batch.column("$seq")[0].as_py()) == (start, start)
        assert log._writer is not None
        indexed = [segment for segment in log._writer.look().segments if segment._index.firsts]
        assert len(indexed) <= 9, "the indexes of finished segments must not fill the memory"


def test_an_append_is_written_then_flushed_then_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    write, sync = disk.write, disk.sync

    def noted_write(descriptor: int, pieces: list[bytes], offset: int) -> None:
        calls.append("mark" if len(pieces) == 1 else "write")
        write(descriptor, pieces, offset)

    def noted_sync(descriptor: int) -> None:
        calls.append("sync")
        sync(descriptor)

    with LocalLog(tmp_path) as log:
        monkeypatch.setattr(disk, "write", noted_write)
        monkeypatch.setattr(disk, "sync", noted_sync)
        log.append([updates(n, 10) for n in range(0, 1000, 10)])
    assert calls == ["write", "sync", "mark"]


def test_a_new_segment_and_its_name_are_flushed_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def note(name: str) -> None:
        plain: Callable[..., None] = getattr(disk, name)

        def noted(*given: object) -> None:
            calls.append(name)
            plain(*given)

        monkeypatch.setattr(disk, name, noted)

    for name in ("write", "sync", "sync_folder"):
        note(name)
    with LocalLog(tmp_path, segment_bytes=1) as log:
        log.append([updates(0, 10)])
        calls.clear()
        log.append([updates(10, 10)])
    header, record = ["write", "sync", "sync_folder"], ["write", "sync", "write"]
    assert calls == header + record


def test_threads_that_append_at_the_same_time_share_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushes = 0
    first_flush, everybody_waits = threading.Event(), threading.Event()
    sync = disk.sync

    def slow_sync(descriptor: int) -> None:
        nonlocal flushes
        flushes += 1
        if flushes == 1:
            first_flush.set()
            assert everybody_waits.wait(30)
        sync(descriptor)

    with LocalLog(tmp_path) as log:
        monkeypatch.setattr(disk, "sync", slow_sync)
        ends: list[int] = []
        threads = [threading.Thread(target=lambda n=n: ends.append(log.append([updates(n * 5, 5)]))) for n in range(10)]
        threads[0].start()
        assert first_flush.wait(30)
        for thread in threads[1:]:
            thread.start()
        state = log._writer
        assert state is not None
        while len(state._queue) < 9:
            pass
        assert log.end == 0, "nothing may be seen before it is durable"
        everybody_waits.set()
        for thread in threads:
            thread.join()
        assert flushes == 2
        assert sorted(ends) == list(range(5, 55, 5))
        assert sorted(sequences(log)) == list(range(50))


def test_the_writer_in_the_way_is_named(tmp_path: Path) -> None:
    program = """
import sys
from slackwater.log import LocalLog
log = LocalLog(sys.argv[1])
print("open", flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(LogLocked, match=f"process {other.pid};"):
            LocalLog(tmp_path)
        with LocalLog(tmp_path, read_only=True) as reader:
            assert reader.end == 0
        other.communicate("end\n")
    with LocalLog(tmp_path), pytest.raises(LogLocked, match="this process already"):
        LocalLog(tmp_path)


def test_readers_that_keep_asking_do_not_keep_a_writer_out(tmp_path: Path) -> None:
    LocalLog(tmp_path).close()
    over = threading.Event()

    def ask() -> None:
        with LocalLog(tmp_path, read_only=True) as reader:
            while not over.is_set():
                assert reader.end >= 0

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for n in range(20):
            with LocalLog(tmp_path) as log:
                log.append([updates(n, 1)])
    finally:
        over.set()
        for thread in threads:
            thread.join()
    with LocalLog(tmp_path, read_only=True) as reader:
        assert sequences(reader) == list(range(20))


def test_a_reader_sees_nothing_that_is_not_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    sync = disk.sync
    with LocalLog(tmp_path, segment_bytes=3000) as log, LocalLog(tmp_path, read_only=True) as reader:

        def look_before(descriptor: int) -> None:
            with LocalLog(tmp_path, read_only=True) as fresh:
                seen.extend((reader.end, fresh.end))
            sync(descriptor)

        for n in range(0, 100, 5):
            monkeypatch.setattr(disk, "sync", look_before)
            log.append([updates(n, 5)])
            monkeypatch.undo()
            assert seen, "the reader must have looked"
            assert set(seen) == {n}
            assert reader.end == n + 5
            seen.clear()


def test_a_reader_follows_a_writer_in_another_process_and_its_end(tmp_path: Path) -> None:
    program = """
import sys
from slackwater.core import *
from slackwater.log import LocalLog, TableDefined, TableDropped
table = TableSchema("quotes", (Column("symbol", DataType.TEXT, nullable=False),), key=("symbol",))
log = LocalLog(sys.argv[1], segment_bytes=700)
for line in sys.stdin:
    print(log.append([TableDefined(table), TableDropped("quotes"), TableDefined(table)]), flush=True)
"""
    LocalLog(tmp_path).close()
    with (
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other,
        LocalLog(tmp_path, read_only=True) as reader,
    ):
        assert other.stdin is not None
        assert other.stdout is not None
        for _ in range(10):
            other.stdin.write("go\n")
            other.stdin.flush()
            end = int(other.stdout.readline())
            assert reader.end == end
            assert len(list(reader.read(Position(0)))) == end
            assert reader.catalog().tables == (QUOTES,)
        other.kill()
        other.wait()
        assert reader.end == 30
        assert len(files(tmp_path)) > 3


def test_a_reader_whose_positions_are_dropped_is_told(tmp_path: Path) -> None:
    with LocalLog(tmp_path, segment_bytes=1) as log, LocalLog(tmp_path, read_only=True) as reader:
        for n in range(0, 50, 10):
            log.append([updates(n, 10)])
        readings = [log.read(Position(0)), reader.read(Position(0))]
        assert [next(reading).first for reading in readings] == [0, 0]
        log.drop_before(Position(40))
        for reading in readings:
            with pytest.raises(PositionGone, match="starts at 40"):
                list(reading)
        assert reader.start == 40


def test_a_reader_without_a_writer_makes_sure_that_what_it_shows_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalLog(tmp_path) as log:
        log.append([updates(0, 5)])
    synced: list[int] = []
    monkeypatch.setattr(disk, "sync", synced.append)
    with LocalLog(tmp_path, read_only=True) as reader:
        assert sequences(reader) == [0, 1, 2, 3, 4]
        assert len(synced) == 1


def test_where_there_is_no_log_a_reader_is_told(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(LogError, match="there is no"):
            LocalLog(folder, read_only=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(LogError, match="cannot be opened for writing"):
        LocalLog(tmp_path / "file")
    with pytest.raises(LogError):
        LocalLog(tmp_path / "file", read_only=True)


def test_limits_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LogError, match="segment_bytes"):
        LocalLog(tmp_path, segment_bytes=0)
    monkeypatch.setattr(writer, "MOST_APPEND", 3000)
    with LocalLog(tmp_path) as log:
        with pytest.raises(LogError, match="split it"):
            log.append([updates(0, 50), updates(50, 50)])
        assert log.end == 0


def test_the_catalog_is_found_without_reading_bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalLog(tmp_path, segment_bytes=2_000_000) as log:
        log.append([TableDefined(QUOTES)])
        for n in range(0, 200_000, 20_000):
            log.append([updates(n, 20_000)])
        size = sum(file.stat().st_size for file in tmp_path.glob("*.segment"))
        read = 0
        plain = disk.read

        def counted(descriptor: int, length: int, offset: int) -> bytes:
            nonlocal read
            got = plain(descriptor, length, offset)
            read += len(got)
            return got

        monkeypatch.setattr(disk, "read", counted)
        assert log.catalog(Position(150_000)).tables == (QUOTES,)
        assert log.catalog().tables == (QUOTES,)
        assert read < size / 100


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = os.pwritev

    def reluctant(descriptor: int, pieces: list[memoryview], offset: int) -> int:
        return plain(descriptor, [pieces[0][:13]], offset)

    monkeypatch.setattr(os, "pwritev", reluctant)
    with LocalLog(tmp_path) as log:
        log.append([updates(0, 20), updates(20, 20)])
        assert sequences(log) == list(range(40))


def test_many_pieces_go_out_in_several_calls(tmp_path: Path) -> None:
    with LocalLog(tmp_path) as log:
        log.append([updates(n, 1) for n in range(1000)])
        assert sequences(log) == list(range(1000))
